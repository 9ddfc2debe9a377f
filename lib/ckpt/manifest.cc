#include "ckpt/manifest.h"

#include <simdjson.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <unordered_map>

#include "base/error.h"
#include "base/files.h"
#include "base/hash.h"
#include "ckpt/plane_codec.h"
#include "ckpt/unknown_format.h"

namespace mt {
namespace {

using Element = simdjson::dom::element;

constexpr std::int64_t kFormatVersion = 1;
constexpr const char* kFormatName = "mt-checkpoint";
constexpr std::string_view kEnd = "}\n";

// What stands between the text that is hashed and its end.
std::string checksum_field(std::uint64_t hash) { return fmt::format(",\n \"xxh3\": \"{}\"", hash_text(hash)); }

// What a value belongs to, in the words of an error; put together only where there is one.
struct Of {
  std::string_view name, kind;  // kind empty: not of a tensor
  Of(const char* n) : name(n) {}  // NOLINT: a literal names itself
  Of(const std::string& n) : name(n) {}  // NOLINT
  explicit Of(const TensorEntry& t) : name(t.name), kind(t.kind) {}
  std::string text() const { return kind.empty() ? std::string(name) : tensor_text(name, kind); }
};

// A value of the file with the words to name it by in an error.
struct Reading {
  const std::string& where;

  [[noreturn]] void broken(const std::string& what) const { throw Error(Code::corrupt, what, where); }

  Element field(const Element& object, const char* key, const Of& of) const {
    Element e;
    if (object.at_key(key).get(e) != simdjson::SUCCESS) broken(fmt::format("{}: no field '{}'", of.text(), key));
    return e;
  }
  std::int64_t number(const Element& e, const char* key, const Of& of) const {
    std::int64_t v = 0;
    if (e.get(v) != simdjson::SUCCESS || v < 0)
      broken(fmt::format("{}: '{}' is not a whole number of 0 or more", of.text(), key));
    return v;
  }
  std::int64_t number_at(const Element& object, const char* key, const Of& of) const {
    return number(field(object, key, of), key, of);
  }
  std::string_view text_at(const Element& object, const char* key, const Of& of) const {
    std::string_view v;
    if (field(object, key, of).get(v) != simdjson::SUCCESS) broken(fmt::format("{}: '{}' is not a string", of.text(), key));
    return v;
  }
  simdjson::dom::array array_at(const Element& object, const char* key, const Of& of) const {
    simdjson::dom::array v;
    if (field(object, key, of).get(v) != simdjson::SUCCESS) broken(fmt::format("{}: '{}' is not an array", of.text(), key));
    return v;
  }
  Dims dims_at(const Element& object, const char* key, const Of& of) const {
    Dims dims;
    std::int64_t size = 1;
    const auto array = array_at(object, key, of);
    dims.reserve(array.size());
    for (const auto e : array) {
      dims.push_back(number(e, key, of));
      if (__builtin_mul_overflow(size, dims.back(), &size) || size > (std::int64_t{1} << 58))
        broken(fmt::format("{}: '{}' is too large", of.text(), key));
    }
    return dims;
  }
  Json object_at(const Element& object, const char* key, const Of& of) const {
    const auto e = field(object, key, of);
    if (!e.is_object()) broken(fmt::format("{}: '{}' is not an object", of.text(), key));
    return parse_json(simdjson::minify(e), where);
  }
};

std::vector<std::uint64_t> parse_hashes(std::string_view text, const Reading& r, const Of& of) {
  if (text.size() % 16 != 0) r.broken(fmt::format("{}: xxh3 has {} digits, not a multiple of 16", of.text(), text.size()));
  std::vector<std::uint64_t> hashes(text.size() / 16, 0);
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
    if (digit < 0) r.broken(fmt::format("{}: xxh3 has '{}', not a hexadecimal digit", of.text(), c));
    hashes[i / 16] = (hashes[i / 16] << 4) | static_cast<std::uint64_t>(digit);
  }
  return hashes;
}

using FileIndex = std::unordered_map<std::string, std::uint32_t>;

Shard parse_shard(const Element& j, const TensorEntry& t, const Manifest& m, const FileIndex& files,
                  const Reading& r) {
  const Of of(t);
  Shard s;
  s.box = {r.dims_at(j, "offset", of), r.dims_at(j, "extent", of)};
  const auto file_name = std::string(r.text_at(j, "file", of));
  const auto file = files.find(file_name);
  if (file == files.end()) r.broken(fmt::format("{}: file '{}' is not among 'files'", of.text(), file_name));
  s.file = file->second;
  s.begin = static_cast<std::uint64_t>(r.number_at(j, "begin", of));
  s.end = static_cast<std::uint64_t>(r.number_at(j, "end", of));
  s.chunk_xxh3 = parse_hashes(r.text_at(j, "xxh3", of), r, of);
  if (!inside(s.box, t.shape))
    r.broken(fmt::format("{}: box {} is not inside shape {}", of.text(), box_text(s.box), dims_text(t.shape)));
  const auto bytes = static_cast<std::uint64_t>(bytes_of(t.dtype, s.box.size()));
  if (s.end < s.begin || s.end - s.begin != bytes || s.end > m.files[s.file].content_bytes())
    r.broken(fmt::format("{}: box {} needs {} bytes, found bytes {}:{} of {} with {}", of.text(), box_text(s.box), bytes,
                         s.begin, s.end, file_name, m.files[s.file].content_bytes()));
  const auto chunks = (bytes + m.chunk_bytes - 1) / m.chunk_bytes;
  if (s.chunk_xxh3.size() != chunks)
    r.broken(fmt::format("{}: {} chunks, but {} hashes", of.text(), chunks, s.chunk_xxh3.size()));
  return s;
}

TensorEntry parse_tensor(const Element& j, const Manifest& m, const FileIndex& files, const Reading& r) {
  TensorEntry t;
  t.name = r.text_at(j, "name", "a tensor");
  t.kind = r.text_at(j, "kind", t.name);
  const Of of(t);
  const auto dtype = r.text_at(j, "dtype", of);
  const auto parsed = parse_dtype(dtype);
  if (!parsed) r.broken(fmt::format("{}: unknown dtype '{}'", of.text(), dtype));
  t.dtype = *parsed;
  t.shape = r.dims_at(j, "shape", of);
  for (const auto s : r.array_at(j, "shards", of)) t.shards.push_back(parse_shard(s, t, m, files, r));
  if (t.shards.size() == 1 && t.shards[0].box.extent == t.shape) return t;  // it lies inside, so it is all
  std::vector<Box> boxes;
  for (const auto& s : t.shards) boxes.push_back(s.box);
  const auto problem = coverage_problem(t.shape, boxes);
  if (!problem.empty()) r.broken(of.text() + ": " + problem);
  return t;
}

FileIndex parse_files(const Element& root, Manifest& m, const Reading& r) {
  FileIndex files;
  for (const auto f : r.array_at(root, "files", "manifest")) {
    DataFile file;
    file.name = r.text_at(f, "name", "files");
    file.bytes = static_cast<std::uint64_t>(r.number_at(f, "bytes", file.name));
    if (Element codec; f.at_key("codec").get(codec) == simdjson::SUCCESS) {
      file.codec = r.text_at(f, "codec", file.name);
      file.plain_bytes = static_cast<std::uint64_t>(r.number_at(f, "plain_bytes", file.name));
      if (file.codec != kPlaneCodecName)
        r.broken(fmt::format("file '{}' is packed by '{}', which this program does not know", file.name, file.codec));
    }
    if (file.name.empty() || file.name[0] == '.' || file.name.find('/') != std::string::npos)
      r.broken(fmt::format("file name '{}' would leave the directory", file.name));
    if (!files.emplace(file.name, static_cast<std::uint32_t>(m.files.size())).second)
      r.broken(fmt::format("file '{}' appears twice", file.name));
    m.files.push_back(std::move(file));
  }
  return files;
}

// Two tensors may not claim the same bytes of a file.
void check_ranges(const Manifest& m, const Reading& r) {
  struct Range {
    std::uint32_t file;
    std::uint64_t begin, end;
    const TensorEntry* tensor;
  };
  std::vector<Range> ranges;
  for (const auto& t : m.tensors)
    for (const auto& s : t.shards)
      if (s.begin != s.end) ranges.push_back({s.file, s.begin, s.end, &t});
  const auto before = [](const Range& a, const Range& b) { return a.file != b.file ? a.file < b.file : a.begin < b.begin; };
  if (!std::is_sorted(ranges.begin(), ranges.end(), before)) std::sort(ranges.begin(), ranges.end(), before);
  for (std::size_t i = 1; i < ranges.size(); ++i) {
    const auto &a = ranges[i - 1], &b = ranges[i];
    if (a.file == b.file && b.begin < a.end)
      r.broken(fmt::format("{} and {} overlap in {} at byte {}", tensor_text(a.tensor->name, a.tensor->kind),
                           tensor_text(b.tensor->name, b.tensor->kind), m.files[a.file].name, b.begin));
  }
}

// The checksum is that of the text as it would stand without the checksum's field.   gives  false when there is none
bool check_text(std::string_view text, const Element& root, const Reading& r) {
  Element field;
  if (root.at_key("xxh3").get(field) != simdjson::SUCCESS) return false;
  const auto tail = checksum_field(0).size() + kEnd.size();
  Xxh3Stream hash;
  hash.update(text.data(), text.size() - std::min(text.size(), tail));
  hash.update(kEnd.data(), kEnd.size());
  const auto wanted = checksum_field(hash.digest());
  if (text.size() < tail || text.substr(text.size() - tail) != wanted + std::string(kEnd))
    r.broken("the text is not what was written: its checksum is another");
  return true;
}

std::string hashes_text(const std::vector<std::uint64_t>& hashes) {
  std::string s;
  for (const auto h : hashes) s += hash_text(h);
  return s;
}

}  // namespace

std::string tensor_text(std::string_view name, std::string_view kind) { return fmt::format("{} ({})", name, kind); }

const TensorEntry* Manifest::index() {
  const TensorEntry* twice = nullptr;
  slots_.assign(std::bit_ceil(2 * tensors.size() + 1), 0);
  for (std::uint32_t i = 0; i < tensors.size(); ++i) {
    auto& slot = slots_[slot_of(tensors[i].name, tensors[i].kind)];
    if (slot != 0) twice = &tensors[i];
    else slot = i + 1;
  }
  return twice;
}

std::size_t Manifest::slot_of(std::string_view name, std::string_view kind) const {
  const std::size_t last = slots_.size() - 1;
  auto at = (xxh3(name) + 0x9e3779b97f4a7c15ull * xxh3(kind)) & last;
  for (; slots_[at] != 0; at = (at + 1) & last)
    if (const auto& t = tensors[slots_[at] - 1]; t.name == name && t.kind == kind) break;
  return at;
}

const TensorEntry* Manifest::find(std::string_view name, std::string_view kind) const {
  MT_CHECK(slots_.size() > tensors.size(), "index() not called: {} slots for {}", slots_.size(), tensors.size());
  const auto slot = slots_[slot_of(name, kind)];
  return slot == 0 ? nullptr : &tensors[slot - 1];
}

std::uint64_t Manifest::tensor_bytes() const {
  std::uint64_t n = 0;
  for (const auto& t : tensors) n += t.bytes();
  return n;
}

Manifest parse_manifest(std::string_view text, const std::string& where) {
  const Reading r{where};
  simdjson::dom::parser parser;
  Element root;
  const auto error = parser.parse(text.data(), text.size(), true).get(root);
  if (error != simdjson::SUCCESS) r.broken(fmt::format("not JSON: {}", simdjson::error_message(error)));
  if (!root.is_object()) r.broken("not a JSON object");
  if (r.text_at(root, "format", "manifest") != kFormatName)
    r.broken(fmt::format("format: wanted '{}', found '{}'", kFormatName, r.text_at(root, "format", "manifest")));
  if (const auto v = r.number_at(root, "format_version", "manifest"); v != kFormatVersion)
    throw UnknownFormat(Code::corrupt, fmt::format("format_version: this program reads {}, found {}", kFormatVersion, v),
                        where);

  Manifest m;
  m.meta.iteration = r.number_at(root, "iteration", "manifest");
  m.meta.consumed_samples = r.number_at(root, "consumed_samples", "manifest");
  m.meta.world_size = static_cast<int>(
      std::min<std::int64_t>(r.number_at(root, "world_size", "manifest"), std::numeric_limits<int>::max()));
  m.meta.version = r.text_at(root, "version", "manifest");
  m.meta.tokenizer = r.text_at(root, "tokenizer", "manifest");
  m.meta.specs = r.object_at(root, "specs", "manifest");
  m.meta.training = r.object_at(root, "training", "manifest");
  m.chunk_bytes = static_cast<std::uint64_t>(r.number_at(root, "chunk_bytes", "manifest"));
  if (m.chunk_bytes < 4096 || m.chunk_bytes > (1u << 30) || m.chunk_bytes % 4096 != 0)
    r.broken(fmt::format("chunk_bytes: wanted a multiple of 4096 up to 1 GiB, found {}", m.chunk_bytes));
  const auto files = parse_files(root, m, r);
  const auto tensors = r.array_at(root, "tensors", "manifest");
  m.tensors.reserve(tensors.size());
  for (const auto t : tensors) m.tensors.push_back(parse_tensor(t, m, files, r));
  if (const auto* twice = m.index()) r.broken(tensor_text(twice->name, twice->kind) + " appears twice");
  check_ranges(m, r);
  m.has_checksum = check_text(text, root, r);
  return m;
}

Manifest read_manifest(const std::filesystem::path& dir) {
  const auto path = dir / kManifestName;
  return parse_manifest(read_file(path), path.string());
}

std::string manifest_text(const Manifest& m) {
  Json head = {{"format", kFormatName},
               {"format_version", kFormatVersion},
               {"iteration", m.meta.iteration},
               {"consumed_samples", m.meta.consumed_samples},
               {"world_size", m.meta.world_size},
               {"version", m.meta.version},
               {"tokenizer", m.meta.tokenizer},
               {"specs", m.meta.specs},
               {"training", m.meta.training},
               {"chunk_bytes", m.chunk_bytes}};
  std::string s = head.dump(1);
  s.resize(s.size() - 2);  // "\n}"
  s += ",\n \"files\": [";
  for (std::size_t i = 0; i < m.files.size(); ++i) {
    const auto& f = m.files[i];
    s += fmt::format("{}\n  {{\"name\":{},\"bytes\":{}", i ? "," : "", Json(f.name).dump(), f.bytes);
    if (!f.codec.empty()) s += fmt::format(",\"codec\":\"{}\",\"plain_bytes\":{}", f.codec, f.plain_bytes);
    s += "}";
  }
  s += "],\n \"tensors\": [";
  for (std::size_t i = 0; i < m.tensors.size(); ++i) {
    const auto& t = m.tensors[i];
    s += fmt::format("{}\n  {{\"name\":{},\"kind\":{},\"dtype\":\"{}\",\"shape\":{},\"shards\":[", i ? "," : "",
                     Json(t.name).dump(), Json(t.kind).dump(), dtype_name(t.dtype), Json(t.shape).dump());
    for (std::size_t k = 0; k < t.shards.size(); ++k) {
      const auto& sh = t.shards[k];
      s += fmt::format("{}{{\"offset\":{},\"extent\":{},\"file\":{},\"begin\":{},\"end\":{},\"xxh3\":\"{}\"}}",
                       k ? "," : "", Json(sh.box.offset).dump(), Json(sh.box.extent).dump(),
                       Json(m.files[sh.file].name).dump(), sh.begin, sh.end, hashes_text(sh.chunk_xxh3));
    }
    s += "]}";
  }
  s += "]";
  Xxh3Stream hash;
  hash.update(s.data(), s.size());
  hash.update(kEnd.data(), kEnd.size());
  s += checksum_field(hash.digest());
  s += kEnd;
  return s;
}

std::string coverage_problem(const Dims& shape, const std::vector<Box>& boxes) {
  std::int64_t covered = 0;
  std::vector<const Box*> sorted;
  for (const auto& b : boxes) {
    if (!inside(b, shape)) return fmt::format("box {} is not inside shape {}", box_text(b), dims_text(shape));
    if (b.empty()) continue;
    covered += b.size();
    sorted.push_back(&b);
  }
  const auto first = [](const Box* b) { return b->offset.empty() ? 0 : b->offset[0]; };
  const auto last = [](const Box* b) { return b->offset.empty() ? 1 : b->offset[0] + b->extent[0]; };
  std::sort(sorted.begin(), sorted.end(), [&](const Box* a, const Box* b) { return first(a) < first(b); });
  for (std::size_t i = 0; i < sorted.size(); ++i)
    for (std::size_t k = i + 1; k < sorted.size() && first(sorted[k]) < last(sorted[i]); ++k)
      if (const auto both = intersect(*sorted[i], *sorted[k]))
        return fmt::format("{} of shape {} is stored twice, by {} and {}", box_text(*both), dims_text(shape),
                           box_text(*sorted[i]), box_text(*sorted[k]));
  if (covered != num_elements(shape))
    return fmt::format("{} of {} elements of shape {} are stored by no shard", num_elements(shape) - covered,
                       num_elements(shape), dims_text(shape));
  return "";
}

}  // namespace mt
