#include "foreign/hf_convert.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <set>

#include "base/error.h"
#include "ckpt/store.h"
#include "foreign/hf_block_scales.h"
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

bool ends_with_old(const std::string& name, const HfFamily& family, std::string& old) {
  for (const auto& o : family.old_names)
    if (name.ends_with(o.now)) return old = name.substr(0, name.size() - std::strlen(o.now)) + o.then, true;
  return false;
}

// Names in the table become those that files of old had.   when  asked of each such name
//   gives  true when any did
bool spell_as_of_old(const HfFamily& family, std::vector<MappedTensor>& map, const std::function<bool(const std::string&)>& when) {
  bool any = false;
  for (auto& t : map)
    if (std::string old; ends_with_old(t.name, family, old) && when(old)) t.name = old, any = true;
  return any;
}

// Elements of a tensor that is written beside another are the same.
bool is_same(const HfWeights& weights, const std::string& name, const std::string& of) {
  const auto copy = weights.tensors().find(name), first = weights.tensors().find(of);
  if (first == weights.tensors().end()) return false;
  const auto &a = copy->second.entry, &b = first->second.entry;
  if (a.shape != b.shape || a.dtype != b.dtype || !a.dtype || a.shape.empty()) return false;
  Box line = whole(a.shape);
  line.extent[0] = 1;
  std::vector<std::byte> x(static_cast<std::size_t>(bytes_of(*a.dtype, line.size()))), y(x.size());
  for (std::int64_t row = 0; row < a.shape[0]; ++row) {
    line.offset[0] = row;
    weights.read(name, line, x.data());
    weights.read(of, line, y.data());
    if (x != y) return false;
  }
  return true;
}

// What an import reads.
struct HfSource {
  const HfWeights& weights;
  const HfModel& model;
  const BlockScales& scales;
  std::string prefix;

  bool is_copy(const std::string& name) const {
    const auto copies = hf_copies(*model.family, model.spec, prefix);
    return std::any_of(copies.begin(), copies.end(), [&](const HfCopied& c) { return c.name == name && is_same(weights, name, c.of); });
  }
  DType dtype_of(const std::string& name) const { return scales.are_of(name) ? DType::bf16 : *weights.tensors().at(name).entry.dtype; }
  void read(const std::string& name, const Box& box, std::byte* out) const {
    if (scales.are_of(name)) scales.read(name, box, reinterpret_cast<bf16*>(out));
    else weights.read(name, box, out);
  }
};

std::vector<std::string> import_problems(const HfSource& source, const std::vector<MappedTensor>& map) {
  std::vector<std::string> problems;
  std::set<std::string> used;
  const auto& there = source.weights.tensors();
  for (const auto& t : map) {
    used.insert(t.name);
    const auto found = there.find(t.name);
    if (found == there.end()) {
      problems.push_back(t.name + " is missing");
    } else if (found->second.entry.shape != t.shape) {
      problems.push_back(fmt::format("{} has shape {}, the config says {}", t.name, dims_text(found->second.entry.shape), dims_text(t.shape)));
    } else if (source.scales.are_of(t.name)) {
      if (auto problem = source.scales.problem(t.name); !problem.empty()) problems.push_back(std::move(problem));
    } else if (!is_weight(found->second.entry.dtype)) {
      problems.push_back(fmt::format("{} is {}", t.name, found->second.entry.dtype_text));
    }
  }
  for (const auto& [name, t] : there)
    if (used.count(name) == 0 && !ends_with_any(name, source.model.family->ignored) && !source.scales.is_scale(name) && !source.is_copy(name))
      problems.push_back(name + " is left over");
  return problems;
}

std::vector<TensorBox> boxes_of_import(const HfSource& source, std::span<const NamedShape> ours,
                                       const std::vector<std::vector<SourcePart>>& parts, const std::string& where) {
  std::vector<TensorBox> boxes;
  for (std::size_t i = 0; i < ours.size(); ++i) {
    const DType dtype = source.dtype_of(parts[i].front().source);
    for (const auto& p : parts[i])
      if (const DType other = source.dtype_of(p.source); other != dtype)
        refuse({fmt::format("{} is {} and {} is {}: they become one tensor", parts[i].front().source, dtype_name(dtype), p.source,
                            dtype_name(other))}, where);
    boxes.push_back({ours[i].name, "weight", dtype, ours[i].shape, whole(ours[i].shape)});
  }
  return boxes;
}

// Layers behind the last that only some programs write: where the files have none there are none.
void leave_out_mtp(HfModel& m, const HfWeights& weights, const std::string& prefix, Json& config) {
  const std::string first = fmt::format("{}layers.{}.", prefix, m.spec.decoder().num_layers());
  const auto at = weights.tensors().lower_bound(first);
  if (m.spec.mtp_layers == 0 || (at != weights.tensors().end() && at->first.rfind(first, 0) == 0)) return;
  m.notices.push_back(fmt::format("the files have none of {} layers that predict further tokens", m.spec.mtp_layers));
  m.spec.mtp_layers = 0;
  config["num_nextn_predict_layers"] = 0;
}

// The config that is kept. Weights that were e4m3 by blocks are so no longer.
Json config_to_keep(Json config, const HfSource& source, std::vector<std::string>& notices) {
  std::size_t n = 0;
  for (const auto& [name, t] : source.weights.tensors()) n += source.scales.are_of(name);
  if (n == 0) return config;
  notices.push_back(fmt::format("{} matrices in e4m3 by blocks become bf16, quantization_config is left out", n));
  config.erase("quantization_config");
  return config;
}

}  // namespace

HfConverted import_hf(const HfImport& what, const BytesDone& progress) {
  const auto config_path = (what.from / "config.json").string();
  Json config = read_json(config_path);
  HfModel m = read_hf_config(config, config_path);
  const HfWeights weights(what.from);
  leave_out_mtp(m, weights, prefix_of(*m.family, weights), config);
  const BlockScales scales(config, weights);
  const HfSource source{weights, m, scales, prefix_of(*m.family, weights)};
  auto map = hf_tensor_map(*m.family, m.spec, source.prefix);
  const bool old_names = spell_as_of_old(*m.family, map, [&](const std::string& name) { return weights.tensors().count(name) > 0; });
  const auto ours = shapes_of(m.spec);
  if (const auto problems = mapping_problems(map, ours); !problems.empty()) refuse(problems, config_path);
  if (const auto problems = import_problems(source, map); !problems.empty())
    refuse(problems, what.from.string(), "config.json and weights are of different models, or the family has parts that are not converted");
  const auto parts = sources_of(map, ours);
  const auto boxes = boxes_of_import(source, ours, parts, what.from.string());
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
                {"hf", {{"prefix", source.prefix}, {"config", config_to_keep(config, source, out.notices)}}}};
  if (old_names) meta.specs["hf"]["old_names"] = true;
  std::uint64_t done = 0;
  out.path = save_at_once(what.root, meta, [&](const std::filesystem::path& dir) {
    write_rank_from(dir, 0, boxes, [&](std::size_t i, std::uint64_t begin, std::uint64_t end, std::byte* to) {
      const auto width = static_cast<std::size_t>(bytes_of(boxes[i].dtype, 1));
      fill_range(boxes[i].shape, static_cast<std::int64_t>(begin / width), static_cast<std::int64_t>(end / width), parts[i], width,
                 [&](const std::string& name, const Box& box, std::byte* at) { source.read(name, box, at); }, to);
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
  auto map = hf_tensor_map(family, model, prefix);
  if (!what.base && kept.value("old_names", false)) spell_as_of_old(family, map, [](const std::string&) { return true; });
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
