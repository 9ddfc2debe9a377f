#include "foreign/hf_convert.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>

#include "base/error.h"
#include "foreign/hf_block_scales.h"
#include "foreign/hf_family.h"
#include "layout/param_spec.h"

namespace mt {

namespace {

namespace fs = std::filesystem;

std::vector<NamedShape> shapes_of(const ModelSpec& model) {
  std::vector<NamedShape> out;
  for (const auto& t : logical_tensors(model)) out.push_back({t.name, t.shape});
  return out;
}

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

// Weights as an import reads them: e4m3 by blocks is bf16, with its scales; what a family ignores is left out.
// Both must outlive what is made.
SourceTensors sources_of_files(const HfWeights& weights, const BlockScales& scales, const HfFamily& family) {
  SourceTensors out;
  for (const auto& [name, t] : weights.tensors()) {
    if (ends_with_any(name, family.ignored) || scales.is_scale(name)) continue;
    SourceTensor s{t.entry.dtype, t.entry.dtype_text, weights.path_of(t).string(), t.entry.shape, nullptr};
    if (scales.are_of(name)) {
      s.dtype = DType::bf16;
      s.read = [&scales, name = name](const Box& box, std::byte* to) { scales.read(name, box, reinterpret_cast<bf16*>(to)); };
    } else {
      s.read = [&weights, name = name](const Box& box, std::byte* to) { weights.read(name, box, to); };
    }
    out.emplace(name, std::move(s));
  }
  return out;
}

// What is wrong with the scales of weights in the table.
std::vector<std::string> scale_problems(const BlockScales& scales, const std::vector<MappedTensor>& map) {
  std::vector<std::string> problems;
  for (const auto& t : map)
    if (scales.are_of(t.name))
      if (auto problem = scales.problem(t.name); !problem.empty()) problems.push_back(std::move(problem));
  return problems;
}

// Copies that the files have beside what is in the table.
std::vector<TensorCopy> copies_there(const SourceTensors& sources, const HfModel& m, const std::string& prefix, const std::vector<MappedTensor>& map) {
  std::vector<TensorCopy> out;
  for (const auto& c : hf_copies(*m.family, m.spec, prefix)) {
    if (std::any_of(map.begin(), map.end(), [&](const MappedTensor& t) { return t.name == c.name; })) continue;
    const auto copy = sources.find(c.name), of = sources.find(c.of);
    if (copy != sources.end() && of != sources.end()) out.push_back({c.name, c.of, whole(copy->second.shape), whole(of->second.shape)});
  }
  return out;
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
Json config_to_keep(Json config, const HfWeights& weights, const BlockScales& scales, std::vector<std::string>& notices) {
  const auto& there = weights.tensors();
  const auto n = std::count_if(there.begin(), there.end(), [&](const auto& t) { return scales.are_of(t.first); });
  if (n == 0) return config;
  notices.push_back(fmt::format("{} matrices in e4m3 by blocks become bf16, quantization_config is left out", n));
  config.erase("quantization_config");
  return config;
}

}  // namespace

ForeignModel open_hf(const fs::path& from) {
  const auto config_path = (from / "config.json").string();
  Json config = read_json(config_path);
  HfModel m = read_hf_config(config, config_path);
  struct Files {
    HfWeights weights;
    std::optional<BlockScales> scales;
  };
  const auto files = std::make_shared<Files>(HfWeights(from), std::nullopt);
  const HfWeights& weights = files->weights;
  const std::string prefix = prefix_of(*m.family, weights);
  leave_out_mtp(m, weights, prefix, config);
  const BlockScales& scales = files->scales.emplace(config, weights);
  ForeignModel out;
  out.files = files;
  out.tensors = sources_of_files(weights, scales, *m.family);
  NativeImport& in = out.what;
  in.from = from.string();
  in.said_by = "config";
  in.model = m.spec;
  in.map = hf_tensor_map(*m.family, m.spec, prefix);
  const bool old_names = spell_as_of_old(*m.family, in.map, [&](const std::string& name) { return weights.tensors().count(name) > 0; });
  if (const auto problems = scale_problems(scales, in.map); !problems.empty()) refuse_all(problems, in.from);
  in.copies = copies_there(out.tensors, m, prefix, in.map);
  in.specs["hf"] = {{"prefix", prefix}, {"config", config_to_keep(config, weights, scales, m.notices)}};
  if (old_names) in.specs["hf"]["old_names"] = true;
  out.num_tensors = in.map.size();
  out.notices = m.notices;
  return out;
}

Converted import_hf(const ModelImport& what, const BytesDone& progress) { return import_model(open_hf(what.from), what, progress); }

Converted export_hf(const Reader& reader, const HfExport& what, const BytesDone& progress) {
  const auto& meta = reader.manifest().meta;
  const auto where = reader.dir().string();
  require_none_of_ours(what.output.dir);
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
  if (const auto problems = mapping_problems(map, shapes_of(model)); !problems.empty()) refuse_all(problems, where);
  std::vector<HfTensor> tensors;
  std::vector<std::string> missing;
  Converted out;
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
  if (!missing.empty()) refuse_all(missing, where);
  const Json config = hf_config_of(family, model, tensors.front().dtype, base);
  std::vector<std::vector<SourcePart>> parts;
  for (const auto& t : map) parts.push_back(sources_of(t));
  std::uint64_t done = 0;
  write_hf(what.output, tensors, config, [&](std::size_t i, std::uint64_t begin, std::uint64_t end, std::byte* to) {
    const auto width = static_cast<std::size_t>(bytes_of(tensors[i].dtype, 1));
    fill_range(tensors[i].shape, static_cast<std::int64_t>(begin / width), static_cast<std::int64_t>(end / width), parts[i], width,
               [&](const std::string& name, const Box& box, std::byte* at) { read_weight(reader, name, box, at); }, to);
    done += end - begin;
    if (progress) progress(done, out.bytes);
  });
  out.path = what.output.dir;
  out.tensors = map.size();
  return out;
}

}  // namespace mt
