#include "foreign/hf_family.h"

#include <algorithm>
#include <map>
#include <sstream>

#include "base/error.h"
#include "layout/param_spec.h"

namespace mt {

namespace {

using Shapes = std::map<std::string, Dims>;

std::string filled(std::string text, const char* mark, std::int64_t n) {
  for (auto at = text.find(mark); at != std::string::npos; at = text.find(mark)) text.replace(at, 3, std::to_string(n));
  return text;
}

// A row's tensor: ours end to end along their first dimension.
//   expert  of a stack, whose first dimension it is; -1: no stack
void add_row(std::vector<MappedTensor>& map, const std::string& name, const std::string& ours, bool transposed,
             std::int64_t expert, const Shapes& shapes) {
  MappedTensor t;
  t.name = name;
  std::istringstream words(ours);
  std::int64_t at = 0;
  for (std::string word; words >> word;) {
    const auto found = shapes.find(word);
    if (found == shapes.end()) {
      MT_CHECK(t.parts.empty(), "{}: only a part of it is in the model", name);
      continue;
    }
    MappedPart part;
    part.ours = word;
    part.our_box = whole(found->second);
    Dims shape = found->second;
    if (expert >= 0) {
      part.our_box.offset[0] = expert;
      part.our_box.extent[0] = 1;
      shape.erase(shape.begin());
    }
    part.transposed = transposed && shape.size() == 2;
    const std::size_t along = part.transposed ? 1 : 0;
    if (part.transposed) std::swap(shape[0], shape[1]);
    part.their_box = whole(shape);
    part.their_box.offset[along] = at;
    at += shape[along];
    if (t.parts.empty()) t.shape = shape;
    t.shape[along] = at;
    t.parts.push_back(std::move(part));
  }
  if (!t.parts.empty()) map.push_back(std::move(t));
}

}  // namespace

std::vector<MappedTensor> hf_tensor_map(const HfFamily& family, const ModelSpec& model, const std::string& prefix) {
  Shapes shapes;
  for (const auto& t : logical_tensors(model)) shapes[t.name] = t.shape;
  const std::string lead = family.prefix;
  int experts = 0;
  for (const auto& row : model.decoder().rows)
    if (row.kind == RowKind::moe) experts = std::max(experts, row.moe.experts);
  std::vector<MappedTensor> map;
  const auto add = [&](const HfName& row, std::int64_t layer) {
    std::string theirs = filled(row.theirs, "{L}", layer), ours = filled(row.ours, "{L}", layer);
    if (theirs.rfind(lead, 0) == 0) theirs = prefix + theirs.substr(lead.size());
    if (theirs.find("{E}") == std::string::npos) return add_row(map, theirs, ours, row.transposed, -1, shapes);
    for (int e = 0; e < experts; ++e) add_row(map, filled(theirs, "{E}", e), ours, row.transposed, e, shapes);
  };
  // Before the layers, the layers one after the other, behind them.
  const auto is_of_layer = [](const HfName& n) { return std::string(n.theirs).find("{L}") != std::string::npos; };
  const auto first = std::find_if(family.names.begin(), family.names.end(), is_of_layer);
  const auto last = std::find_if_not(first, family.names.end(), is_of_layer);
  std::for_each(family.names.begin(), first, [&](const HfName& n) { add(n, 0); });
  for (int layer = 0; layer < model.num_layers(); ++layer) std::for_each(first, last, [&](const HfName& n) { add(n, layer); });
  std::for_each(last, family.names.end(), [&](const HfName& n) { add(n, 0); });
  return map;
}

const HfFamily& hf_family(const std::string& model_type, const std::string& where) {
  std::string known;
  for (const auto& f : hf_families()) {
    if (f.model_type == model_type) return f;
    known += (known.empty() ? "" : ", ") + std::string(f.model_type);
  }
  throw Error(Code::config, fmt::format("model_type {} is not converted", model_type), where, "there are " + known);
}

const HfFamily& hf_family_of(const ModelSpec& model) {
  std::string why;
  for (const auto& f : hf_families()) {
    try {
      Json config = hf_config_of(f, model, DType::f32, Json::object());
      const auto again = read_hf_config(config, "");
      if (model_difference(again.spec, model).empty()) return f;
    } catch (const Error&) {  // another one
    }
  }
  throw Error(Code::config, "no family of Hugging Face models has this shape", "", "name one with --hf-family to see what is in the way");
}

HfModel read_hf_config(const Json& config, const std::string& where) {
  HfModel m;
  const auto type = json_field<std::string>(config, "model_type", where);
  m.family = &hf_family(type, where);
  try {
    const ModelOptions options = m.family->options(config, m.notices);
    m.spec = build_model(options, json_field<std::int64_t>(config, "vocab_size", where));
  } catch (const Error& e) {
    throw Error(e.code(), e.what(), where);
  }
  return m;
}

Json hf_config_of(const HfFamily& family, const ModelSpec& model, DType dtype, Json base) {
  if (base.empty()) {
    base["architectures"] = {family.architecture};
    base["model_type"] = family.model_type;
    base["initializer_range"] = model.init_std;
  }
  family.write(model, base);
  base["vocab_size"] = model.vocab_size;
  const std::string name = dtype == DType::bf16 ? "bfloat16" : dtype == DType::f16 ? "float16" : "float32";
  base[base.contains("dtype") ? "dtype" : "torch_dtype"] = name;
  return base;
}

}  // namespace mt
