#include "foreign/torch_dist.h"

#include <algorithm>
#include <cstring>
#include <tuple>

#include "base/error.h"
#include "ckpt/manifest.h"
#include "foreign/zip_archive.h"

namespace mt {

namespace {

namespace fs = std::filesystem;
constexpr std::size_t kMaxOpen = 64, kMaxKey = 1024;

PickleValue need(const PickleValue& v, const char* attribute) {
  const auto found = v.attribute(attribute);
  if (!found) v.fail(fmt::format("no {} in {}", attribute, v.describe()));
  return *found;
}

Dims dims_of(const PickleValue& v) {
  Dims out;
  if (!v.is(PickleKind::tuple) && !v.is(PickleKind::list)) v.fail("wanted a size, found " + v.describe());
  for (std::size_t i = 0; i < v.size(); ++i) {
    out.push_back(v[i].integer());
    if (out.back() < 0 || out.back() >> 48 != 0) v[i].fail(fmt::format("an extent or offset of {}", out.back()));
  }
  if (out.size() > 16) v.fail(fmt::format("{} dimensions", out.size()));
  unsigned __int128 elements = 1;
  for (const auto n : out)
    if ((elements *= static_cast<unsigned __int128>(std::max<std::int64_t>(n, 1))) >> 58 != 0) v.fail("a size beyond all storage");
  return out;
}

// "torch.bfloat16" of properties, whose state is a dict or, in its own words, (dtype, layout, ...).
std::string dtype_word(const PickleValue& properties) {
  const auto state = properties.state();
  if (!state) properties.fail("no dtype in " + properties.describe());
  const auto named = state->find("dtype");
  const PickleValue d = named ? *named : (*state)[0];
  if (!d.is(PickleKind::global) || !d.name().starts_with("torch.")) d.fail("wanted a dtype of torch, found " + d.describe());
  return d.name().substr(6);
}

std::optional<DType> our_dtype(const std::string& torch) {
  static const std::map<std::string, DType> known{
      {"float32", DType::f32}, {"float64", DType::f64}, {"bfloat16", DType::bf16}, {"float16", DType::f16},
      {"int64", DType::i64},   {"int32", DType::i32},   {"int16", DType::i16},     {"int8", DType::i8},
      {"uint8", DType::u8},    {"float8_e4m3fn", DType::e4m3}, {"float8_e5m2", DType::e5m2}};
  const auto found = known.find(torch);
  return found == known.end() ? std::nullopt : std::optional(found->second);
}

// What an item is looked up by: its name, and of tensors its offset.
using Index = std::pair<std::string, Dims>;

std::map<Index, std::pair<TorchDist::Place, PickleValue>> read_places(const PickleValue& storage) {
  std::map<Index, std::pair<TorchDist::Place, PickleValue>> out;
  for (std::size_t i = 0; i < storage.num_entries(); ++i) {
    const PickleValue key = storage.key(i), info = storage.entry(i);
    Index index;
    index.first = need(key, "fqn").text();
    if (const auto offset = key.attribute("offset"); offset && !offset->is_none()) index.second = dims_of(*offset);
    TorchDist::Place place;
    place.file = need(info, "relative_path").text();
    if (place.file.empty() || place.file.size() > kMaxKey || place.file[0] == '.' || place.file.find('/') != std::string::npos ||
        place.file.find('\0') != std::string::npos)
      info.fail("names a file outside the directory: " + json_line(Json(place.file.substr(0, 80))));
    if (const auto t = info.attribute("transform_descriptors"); t && !t->is_none() && t->size() > 0)
      info.fail("its bytes are transformed (compressed), which is not read");
    const auto begin = need(info, "offset").integer(), length = need(info, "length").integer();
    if (begin < 0 || length < 0 || begin >> 60 != 0 || length >> 60 != 0) info.fail(fmt::format("{} bytes at {}", length, begin));
    place.begin = static_cast<std::uint64_t>(begin);
    place.end = place.begin + static_cast<std::uint64_t>(length);
    if (!out.emplace(std::move(index), std::pair(std::move(place), info)).second) key.fail("an item that lies at two places");
  }
  std::vector<const TorchDist::Place*> sorted;
  for (const auto& [index, at] : out) sorted.push_back(&at.first);
  std::sort(sorted.begin(), sorted.end(), [](const auto* a, const auto* b) { return std::tie(a->file, a->begin, a->end) < std::tie(b->file, b->begin, b->end); });
  for (std::size_t i = 1; i < sorted.size(); ++i)
    if (sorted[i]->file == sorted[i - 1]->file && sorted[i]->begin < sorted[i - 1]->end)
      storage.fail(fmt::format("two items overlap at byte {} of {}", sorted[i]->begin, sorted[i]->file));
  return out;
}

}  // namespace

TorchDist::TorchDist(const fs::path& dir) : dir_(dir) {
  const MappedFile file(dir / ".metadata");
  const Pickle pickle = Pickle::parse(file.bytes(), (dir / ".metadata").string());
  if (pickle.size() != file.size()) throw Error(Code::corrupt, fmt::format("{} bytes behind the pickle", file.size() - pickle.size()), pickle.where());
  const PickleValue root = pickle.root();
  const auto places = read_places(need(root, "storage_data"));
  const auto place_of = [&](const Index& index, const PickleValue& at) {
    const auto found = places.find(index);
    if (found == places.end()) at.fail(fmt::format("{} at {} lies nowhere", index.first, dims_text(index.second)));
    const auto& [place, info] = found->second;
    const auto known = files_.try_emplace(place.file);
    if (known.second) known.first->second = MappedFile(dir_ / place.file);
    if (place.end > known.first->second.size())
      info.fail(fmt::format("{} lies in bytes {} to {} of {}, which has {}: it is cut", index.first, place.begin, place.end, place.file, known.first->second.size()));
    return place;
  };
  const PickleValue all = need(root, "state_dict_metadata");
  for (std::size_t i = 0; i < all.num_entries(); ++i) {
    const std::string& name = all.key(i).text();
    if (name.size() > kMaxKey) all.key(i).fail(fmt::format("a name of {} bytes", name.size()));
    const PickleValue v = all.entry(i);
    if (!v.attribute("chunks")) {
      if (const auto found = places.find({name, {}}); found != places.end()) objects_[name] = place_of({name, {}}, v);
      continue;
    }
    Tensor t;
    t.dtype_text = dtype_word(need(v, "properties"));
    t.dtype = our_dtype(t.dtype_text);
    t.shape = dims_of(need(v, "size"));
    const PickleValue chunks = need(v, "chunks");
    std::vector<Box> boxes;
    for (std::size_t c = 0; c < chunks.size(); ++c) {
      Box box{dims_of(need(chunks[c], "offsets")), dims_of(need(chunks[c], "sizes"))};
      if (box.offset.size() != t.shape.size() || box.extent.size() != t.shape.size()) chunks[c].fail("a chunk of other dimensions than " + name);
      t.chunks.push_back({box, place_of({name, box.offset}, chunks[c])});
      boxes.push_back(std::move(box));
    }
    if (const auto problem = coverage_problem(t.shape, boxes); !problem.empty()) v.fail(name + ": " + problem);
    if (!tensors_.emplace(name, std::move(t)).second) all.key(i).fail(name + " is there twice");
  }
}

std::span<const std::byte> TorchDist::bytes_of_place(const Place& place) const {
  return files_.at(place.file).bytes().subspan(place.begin, place.end - place.begin);
}

const TorchDist::Open& TorchDist::open(const Tensor& tensor, const Chunk& chunk) const {
  if (const auto found = open_.find(&chunk); found != open_.end()) return found->second;
  if (open_.size() >= kMaxOpen) open_.clear();
  Open o;
  o.file = std::make_unique<TorchFile>(bytes_of_place(chunk.place),
                                       fmt::format("{}, bytes {} to {}", (dir_ / chunk.place.file).string(), chunk.place.begin, chunk.place.end));
  const auto t = o.file->tensor(o.file->root());
  if (!t) o.file->root().fail("wanted a tensor, found " + o.file->root().describe());
  if (t->shape != chunk.box.extent || t->dtype_text != tensor.dtype_text)
    o.file->root().fail(fmt::format("a tensor of {} {} where .metadata says {} {}", t->dtype_text, dims_text(t->shape), tensor.dtype_text,
                                    dims_text(chunk.box.extent)));
  o.tensor = *t;
  return open_.emplace(&chunk, std::move(o)).first->second;
}

void TorchDist::with_object(const std::string& name, const std::function<void(const PickleValue&)>& look) const {
  const auto& place = objects_.at(name);
  const auto bytes = bytes_of_place(place);
  const auto where = fmt::format("{}, bytes {} to {}", (dir_ / place.file).string(), place.begin, place.end);
  if (begins_as_zip(bytes)) return look(TorchFile(bytes, where).root());
  look(Pickle::parse(bytes, where).root());
}

TorchFile TorchDist::object(const std::string& name) const {
  const auto& place = objects_.at(name);
  return TorchFile(bytes_of_place(place), fmt::format("{}, bytes {} to {}", (dir_ / place.file).string(), place.begin, place.end));
}

void TorchDist::read(const std::string& name, const Box& box, std::byte* out) const {
  const Tensor& t = tensors_.at(name);
  const auto width = static_cast<std::size_t>(bytes_of(*t.dtype, 1));
  std::vector<std::byte> some;
  for (const Chunk& chunk : t.chunks) {
    const auto both = intersect(box, chunk.box);
    if (!both || both->empty()) continue;
    const Open& o = open(t, chunk);
    Box inner = *both;
    for (std::size_t i = 0; i < inner.offset.size(); ++i) inner.offset[i] -= chunk.box.offset[i];
    some.resize(static_cast<std::size_t>(both->size()) * width);
    o.file->read(o.tensor, inner, some.data());
    for_each_run(box, *both, [&](std::int64_t at, std::int64_t from, std::int64_t n) {
      std::memcpy(out + static_cast<std::size_t>(at) * width, some.data() + static_cast<std::size_t>(from) * width, static_cast<std::size_t>(n) * width);
    });
  }
}

SourceTensors TorchDist::sources() const {
  SourceTensors out;
  for (const auto& [name, t] : tensors_)
    out[name] = {t.dtype, t.dtype_text, dir_.string(), t.shape, [this, key = name](const Box& box, std::byte* to) { read(key, box, to); }};
  return out;
}

}  // namespace mt
