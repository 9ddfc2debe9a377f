#include "foreign/hf_convert.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "base/error.h"
#include "ckpt/store.h"
#include "foreign/hf_family.h"
#include "layout/parallel_spec.h"
#include "layout/param_spec.h"

namespace mt {

namespace {

constexpr std::size_t kNamed = 4;  // of many, so many are named

[[noreturn]] void refuse(const std::vector<std::string>& problems, const std::string& where, const std::string& hint = "") {
  std::string text;
  for (std::size_t i = 0; i < std::min(kNamed, problems.size()); ++i) text += (i > 0 ? "; " : "") + problems[i];
  if (problems.size() > kNamed) text += fmt::format("; and {} more", problems.size() - kNamed);
  throw Error(Code::config, text, where, hint);
}

std::vector<NamedShape> shapes_of(const ModelSpec& model) {
  std::vector<NamedShape> out;
  for (const auto& t : logical_tensors(model)) out.push_back({t.name, t.shape});
  return out;
}

bool is_weight(const std::optional<DType>& t) { return t && (*t == DType::f32 || *t == DType::bf16 || *t == DType::f16 || *t == DType::f64); }

// Names with the family's prefix, or without where the files have none.
std::string prefix_of(const HfFamily& family, const HfWeights& weights) {
  const std::string prefix = family.prefix;
  const bool used = std::any_of(weights.tensors().begin(), weights.tensors().end(),
                                [&](const auto& t) { return t.first.rfind(prefix, 0) == 0; });
  return used ? prefix : "";
}

bool ends_with_any(const std::string& name, std::span<const char* const> ends) {
  return std::any_of(ends.begin(), ends.end(), [&](const std::string& end) {
    return name.size() >= end.size() && name.compare(name.size() - end.size(), end.size(), end) == 0;
  });
}

// A head that is written beside the table it is tied to, and is the same.
bool is_tied_copy(const HfWeights& weights, const std::string& name, const std::string& table) {
  const auto head = weights.tensors().find(name), of = weights.tensors().find(table);
  if (name != "lm_head.weight" || of == weights.tensors().end()) return false;
  const auto &a = head->second.entry, &b = of->second.entry;
  if (a.shape != b.shape || a.dtype != b.dtype || !a.dtype || a.shape.size() != 2) return false;
  std::vector<std::byte> x(static_cast<std::size_t>(bytes_of(*a.dtype, a.shape[1]))), y(x.size());
  for (std::int64_t row = 0; row < a.shape[0]; ++row) {
    const Box box{{row, 0}, {1, a.shape[1]}};
    weights.read(name, box, x.data());
    weights.read(table, box, y.data());
    if (x != y) return false;
  }
  return true;
}

std::vector<std::string> import_problems(const HfWeights& weights, const HfModel& m, const std::vector<MappedTensor>& map) {
  std::vector<std::string> problems;
  std::set<std::string> used;
  for (const auto& t : map) {
    used.insert(t.name);
    const auto found = weights.tensors().find(t.name);
    if (found == weights.tensors().end()) {
      problems.push_back(t.name + " is missing");
    } else if (found->second.entry.shape != t.shape) {
      problems.push_back(fmt::format("{} has shape {}, the config says {}", t.name, dims_text(found->second.entry.shape), dims_text(t.shape)));
    } else if (!is_weight(found->second.entry.dtype)) {
      problems.push_back(fmt::format("{} is {}", t.name, found->second.entry.dtype_text));
    }
  }
  for (const auto& [name, t] : weights.tensors())
    if (used.count(name) == 0 && !ends_with_any(name, m.family->ignored) &&
        !(m.spec.tied && is_tied_copy(weights, name, map.front().name)))
      problems.push_back(name + " is left over");
  return problems;
}

std::vector<TensorBox> boxes_of_import(const HfWeights& weights, std::span<const NamedShape> ours,
                                       const std::vector<std::vector<SourcePart>>& parts, const std::string& where) {
  std::vector<TensorBox> boxes;
  for (std::size_t i = 0; i < ours.size(); ++i) {
    const auto dtype_of = [&](const SourcePart& p) { return *weights.tensors().at(p.source).entry.dtype; };
    const DType dtype = dtype_of(parts[i].front());
    for (const auto& p : parts[i])
      if (dtype_of(p) != dtype)
        refuse({fmt::format("{} is {} and {} is {}: they become one tensor", parts[i].front().source, dtype_name(dtype), p.source,
                            dtype_name(dtype_of(p)))}, where);
    boxes.push_back({ours[i].name, "weight", dtype, ours[i].shape, whole(ours[i].shape)});
  }
  return boxes;
}

}  // namespace

HfConverted import_hf(const HfImport& what, const BytesDone& progress) {
  const auto config_path = (what.from / "config.json").string();
  const Json config = read_json(config_path);
  const HfModel m = read_hf_config(config, config_path);
  const HfWeights weights(what.from);
  const std::string prefix = prefix_of(*m.family, weights);
  const auto map = hf_tensor_map(*m.family, m.spec, prefix);
  const auto ours = shapes_of(m.spec);
  if (const auto problems = mapping_problems(map, ours); !problems.empty()) refuse(problems, config_path);
  if (const auto problems = import_problems(weights, m, map); !problems.empty())
    refuse(problems, what.from.string(), "config.json and weights are of different models, or the family has parts that are not converted");
  const auto parts = sources_of(map, ours);
  const auto boxes = boxes_of_import(weights, ours, parts, what.from.string());
  HfConverted out;
  out.tensors = map.size();
  out.notices = m.notices;
  for (const auto& b : boxes) out.bytes += b.bytes();
  CheckpointMeta meta;
  meta.iteration = what.iteration;
  meta.world_size = 1;
  meta.version = what.version;
  meta.specs = {{"model", to_json(m.spec)},
                {"parallel", to_json(ParallelSpec{})},
                {"compute_dtype", std::string(dtype_name(boxes.front().dtype))},
                {"hf", {{"prefix", prefix}, {"config", config}}}};
  std::uint64_t done = 0;
  out.path = save_at_once(what.root, meta, [&](const std::filesystem::path& dir) {
    write_rank_from(dir, 0, boxes, [&](std::size_t i, std::uint64_t begin, std::uint64_t end, std::byte* to) {
      const auto width = static_cast<std::size_t>(bytes_of(boxes[i].dtype, 1));
      fill_range(boxes[i].shape, static_cast<std::int64_t>(begin / width), static_cast<std::int64_t>(end / width), parts[i], width,
                 [&](const std::string& name, const Box& box, std::byte* at) { weights.read(name, box, at); }, to);
      done += end - begin;
      if (progress) progress(done, out.bytes);
    });
  });
  return out;
}

HfConverted export_hf(const Reader& reader, const HfExport& what, const BytesDone& progress) {
  const auto& meta = reader.manifest().meta;
  const auto where = reader.dir().string();
  if (!meta.specs.contains("model")) throw Error(Code::config, "the checkpoint does not say what model it is of", where);
  const ModelSpec model = model_from_json(meta.specs["model"], where);
  const Json kept = meta.specs.value("hf", Json::object());
  Json base = what.base ? *what.base : kept.value("config", Json::object());
  std::string type = what.family.empty() ? base.value("model_type", "") : what.family;
  if (base.value("model_type", type) != type) base = Json::object();
  const HfFamily& family = type.empty() ? hf_family_of(model) : hf_family(type, where);
  const std::string prefix = what.base || !kept.contains("prefix") ? family.prefix : kept["prefix"].get<std::string>();
  const auto map = hf_tensor_map(family, model, prefix);
  if (const auto problems = mapping_problems(map, shapes_of(model)); !problems.empty()) refuse(problems, where);
  std::vector<HfTensor> tensors;
  std::vector<std::string> missing;
  HfConverted out;
  for (const auto& t : map) {
    HfTensor& to = tensors.emplace_back(HfTensor{t.name, DType::f32, t.shape});
    for (const auto& p : t.parts) {
      const auto* entry = reader.manifest().find(p.ours, "weight");
      if (entry == nullptr) missing.push_back(p.ours + " is missing");
      else if (&p == &t.parts.front()) to.dtype = entry->dtype;
      else if (entry->dtype != to.dtype) missing.push_back(fmt::format("{} is {}", p.ours, dtype_name(entry->dtype)));
    }
    out.bytes += to.bytes();
  }
  if (!missing.empty()) refuse(missing, where);
  const Json config = hf_config_of(family, model, tensors.front().dtype, base);
  std::vector<std::vector<SourcePart>> parts;
  for (const auto& t : map) parts.push_back(sources_of(t));
  std::uint64_t done = 0;
  write_hf(what.output, tensors, config, [&](std::size_t i, std::uint64_t begin, std::uint64_t end, std::byte* to) {
    const auto width = static_cast<std::size_t>(bytes_of(tensors[i].dtype, 1));
    fill_range(tensors[i].shape, static_cast<std::int64_t>(begin / width), static_cast<std::int64_t>(end / width), parts[i], width,
               [&](const std::string& name, const Box& box, std::byte* at) {
                 const auto* entry = reader.manifest().find(name, "weight");
                 TensorRequest q;
                 q.what = {name, "weight", entry->dtype, entry->shape, box};
                 q.out = at;
                 reader.read({&q, 1});
               }, to);
    done += end - begin;
    if (progress) progress(done, out.bytes);
  });
  out.path = what.output.dir;
  out.tensors = map.size();
  return out;
}

}  // namespace mt
