// The containers of torch.save: where the pickle and the storages lie.

#include "foreign/torch_file.h"

#include <algorithm>
#include <set>
#include <string_view>

#include "base/error.h"
#include "foreign/zip_archive.h"

namespace mt {

namespace {

// The number that old files begin with, lowest byte first.
constexpr std::string_view kOldMagic("\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19", 10);
constexpr std::int64_t kOldProtocol = 1001;
constexpr int kMaxDepth = 16;
constexpr std::size_t kMaxEntries = 4'000'000, kMaxKey = 1024;

std::string_view text_of(std::span<const std::byte> bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

// Why a file is none of torch.save.
[[noreturn]] void refuse_kind(std::span<const std::byte> bytes, const std::string& where) {
  const auto text = text_of(bytes.first(std::min<std::size_t>(bytes.size(), 512)));
  if (text.empty()) throw Error(Code::corrupt, "is empty", where);
  if (text.rfind("version https://git-lfs", 0) == 0)
    throw Error(Code::corrupt, "is a pointer of Git LFS, not the file itself", where, "fetch it: git lfs pull");
  if (text.size() > 9 && text[8] == '{' && text[7] == 0)
    throw Error(Code::corrupt, "looks like safetensors, not like a file of torch.save", where, "name it *.safetensors");
  if (text.size() > 262 && text.substr(257, 5) == "ustar")
    throw Error(Code::corrupt, "is a tar archive, as torch wrote before 0.1.10; that is not read", where, "load and save it with a later torch");
  throw Error(Code::corrupt, "is no file of torch.save", where);
}

}  // namespace

TorchFile::TorchFile(const std::filesystem::path& path) : file_(path), bytes_(file_.bytes()), where_(path.string()) { open(); }

TorchFile::TorchFile(std::span<const std::byte> bytes, const std::string& where) : bytes_(bytes), where_(where) { open(); }

void TorchFile::open() {
  if (begins_as_zip(bytes_)) return open_zip();
  if (bytes_.size() > 14 && bytes_[0] == std::byte{0x80} && text_of(bytes_).substr(4, kOldMagic.size()) == kOldMagic) return open_old();
  refuse_kind(bytes_, where_);
}

void TorchFile::open_zip() {
  const auto entries = read_zip_directory(bytes_, where_);
  const auto content = [&](const ZipEntry& e) { return bytes_.subspan(e.begin, e.size()); };
  const auto is_pickle = [](const ZipEntry& e) { return e.name == "data.pkl" || e.name.ends_with("/data.pkl"); };
  const auto pickle = std::find_if(entries.begin(), entries.end(), is_pickle);
  if (pickle == entries.end()) throw Error(Code::corrupt, "an archive without data.pkl: no file of torch.save", where_);
  const std::string top = pickle->name.substr(0, pickle->name.size() - std::string_view("data.pkl").size());
  for (const auto& e : entries) {
    if (e.name == top + "byteorder" && text_of(content(e)) != "little")
      throw Error(Code::corrupt, fmt::format("its numbers are {}-endian", text_of(content(e)).substr(0, 8)), where_, "only little-endian is read");
    if (e.name == top + "constants.pkl")
      throw Error(Code::corrupt, "is a TorchScript program, not weights", where_, "save its state_dict() with torch.save");
    if (e.name.rfind(top + "data/", 0) == 0) storages_[e.name.substr(top.size() + 5)] = {e.begin, e.end, e.crc};
  }
  if (pickle->crc != 0 && zip_crc(0, content(*pickle)) != pickle->crc) throw Error(Code::corrupt, "the checksum of data.pkl is another", where_);
  pickle_ = Pickle::parse(content(*pickle), where_ + ", data.pkl");
  if (pickle_.size() != pickle->size())
    throw Error(Code::corrupt, fmt::format("{} bytes behind the pickle", pickle->size() - pickle_.size()), where_ + ", data.pkl");
}

void TorchFile::open_old() {
  std::uint64_t at = 0;
  const auto next = [&](const char* what) {
    Pickle p = Pickle::parse(bytes_.subspan(at), fmt::format("{}, {} from byte {}", where_, what, at));
    at += p.size();
    return p;
  };
  next("magic number");
  const Pickle protocol = next("protocol"), system = next("system");
  if (const auto v = protocol.root().integer(); v != kOldProtocol) protocol.root().fail(fmt::format("protocol {} of torch.save", v));
  if (const auto little = system.root().find("little_endian"); little && !little->boolean())
    throw Error(Code::corrupt, "its numbers are big-endian", where_, "only little-endian is read");
  pickle_ = next("content");
  const Pickle keys = next("storages");
  // Of each storage its number of elements, then these; how wide they are its users say.
  std::map<std::string, std::size_t> widths;
  for (std::uint32_t id = 0; id < pickle_.num_values(); ++id) {
    const PickleValue v(pickle_, id);
    if (!v.is(PickleKind::persistent)) continue;
    TorchTensor t;
    describe_storage(v, t);
    widths[t.storage] = t.element_bytes;
  }
  for (std::size_t i = 0; i < keys.root().size(); ++i) {
    const auto& key = keys.root()[i].text();
    const auto width = widths.find(key);
    if (width == widths.end()) keys.root()[i].fail("a storage that no tensor is in: its end is not known");
    const auto left = [&] { return bytes_.size() - at; };
    std::uint64_t n = 0;
    if (left() >= 8)
      for (unsigned b = 0; b < 8; ++b) n |= std::uint64_t{static_cast<std::uint8_t>(bytes_[at + b])} << (8 * b);
    if (left() < 8 || n > (left() - 8) / width->second)
      throw Error(Code::corrupt, fmt::format("storage {} leaves the file: it is cut", key), fmt::format("{}, byte {}", where_, at));
    at += 8;
    if (!storages_.emplace(key, Storage{at, at + n * width->second, 0, true}).second) keys.root()[i].fail("a storage twice");
    at += n * width->second;
  }
  if (at != bytes_.size()) throw Error(Code::corrupt, fmt::format("{} bytes behind the last storage", bytes_.size() - at), where_);
}

TorchTensors tensors_of(const TorchFile& file, const PickleValue& value) {
  TorchTensors out;
  std::set<std::string> names;
  // By hand, since what nests and what is shared is the file's to say.
  struct Level {
    PickleValue dict;
    std::string prefix;
    std::size_t next = 0;
  };
  std::size_t entries = 0;
  if (value.num_entries() == 0 && !value.is(PickleKind::dict)) value.fail("wanted a dict of tensors, found " + value.describe());
  std::vector<Level> levels{{value, "", 0}};
  while (!levels.empty()) {
    Level& level = levels.back();
    if (level.next == level.dict.num_entries()) {
      levels.pop_back();
      continue;
    }
    const PickleValue key = level.dict.key(level.next), entry = level.dict.entry(level.next);
    ++level.next;
    if (++entries > kMaxEntries) value.fail(fmt::format("more than {} entries", kMaxEntries));
    const std::string last = key.is(PickleKind::integer) ? std::to_string(key.integer()) : key.text();
    if (last.size() > kMaxKey) key.fail(fmt::format("a name of {} bytes", last.size()));
    const std::string name = level.prefix + last;
    if (auto t = file.tensor(entry)) {
      if (!names.insert(name).second) key.fail(name + " is there twice");
      out.tensors.push_back({name, std::move(*t), entry.at()});
    } else if (entry.is(PickleKind::dict)) {
      if (levels.size() == kMaxDepth) entry.fail(fmt::format("dicts nest deeper than {}", kMaxDepth));
      levels.push_back({entry, name + ".", 0});
    } else {
      out.others.push_back(name);
    }
  }
  return out;
}

}  // namespace mt
