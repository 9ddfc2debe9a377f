#include "foreign/hf_family.h"
#include "foreign/model_words.h"

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

// Ours that the model has, of a row; an expert's of a stack without the dimension of experts.
struct Source {
  std::string name;
  Box box;
  Dims shape;
};

std::vector<Source> sources_of_row(const std::string& theirs, const std::string& ours, std::int64_t expert, const Shapes& shapes) {
  std::vector<Source> out;
  std::istringstream words(ours);
  std::size_t missing = 0;
  for (std::string word; words >> word;) {
    const auto found = shapes.find(word);
    if (found == shapes.end()) {
      ++missing;
      continue;
    }
    Source s{word, whole(found->second), found->second};
    if (expert >= 0) {
      s.box.offset[0] = expert;
      s.box.extent[0] = 1;
      s.shape.erase(s.shape.begin());
    }
    out.push_back(std::move(s));
  }
  MT_CHECK(missing == 0 || out.empty(), "{}: only a part of it is in the model", theirs);
  return out;
}

// Rows [from, from + rows) of a source, at `at` along the foreign tensor's first dimension (its last, transposed).
MappedPart part_of_source(const Source& s, std::int64_t from, std::int64_t rows, std::int64_t at, bool transposed) {
  MappedPart part;
  part.ours = s.name;
  part.our_box = s.box;
  const std::size_t ours_first = s.box.extent.size() - s.shape.size();
  part.our_box.offset[ours_first] += from;
  part.our_box.extent[ours_first] = rows;
  Dims shape = s.shape;
  shape[0] = rows;
  part.transposed = transposed && shape.size() == 2;
  if (part.transposed) std::swap(shape[0], shape[1]);
  part.their_box = whole(shape);
  part.their_box.offset[part.transposed ? 1 : 0] = at;
  return part;
}

// A row's tensor, when the model has what it is made of.
//   expert  of a stack, whose first dimension it is; -1: no stack
//   groups  key/value heads, of rows by group
void add_row(std::vector<MappedTensor>& map, const HfName& row, std::int64_t expert, std::int64_t groups, const Shapes& shapes) {
  const auto sources = sources_of_row(row.theirs, row.ours, expert, shapes);
  if (sources.empty()) return;
  MappedTensor t;
  t.name = row.theirs;
  if (row.layout != HfLayout::by_group) groups = 1;
  const bool transposed = row.layout == HfLayout::transposed && sources[0].shape.size() == 2;
  std::int64_t at = 0;
  for (std::int64_t g = 0; g < groups; ++g)
    for (const Source& s : sources) {
      MT_CHECK(s.shape[0] % groups == 0, "{}: {} rows in {} groups", s.name, s.shape[0], groups);
      const std::int64_t rows = s.shape[0] / groups;
      t.parts.push_back(part_of_source(s, g * rows, rows, at, transposed));
      at += rows;
    }
  t.shape = sources[0].shape;
  if (transposed) std::swap(t.shape[0], t.shape[1]);
  t.shape[transposed ? 1 : 0] = at;
  map.push_back(std::move(t));
}

const char* mark_of(const HfName& n) {
  const std::string name = n.theirs;
  for (const char* mark : {"{L}", "{M}", "{P}"})
    if (name.find(mark) != std::string::npos) return mark;
  return "";
}

std::int64_t groups_of(const ModelSpec& model) {
  for (const auto& row : model.decoder().rows)
    if (row.kind == RowKind::attention) return row.attention.kv_heads;
  return 1;
}

// A table has a part for each of them.
void require_countable(const ModelSpec& model) {
  constexpr int kMost = 1 << 16;
  for (const auto& [tower, row, layer] : stacked_rows(model)) {
    const AttentionSpec& a = row->attention;
    if (row->kind == RowKind::attention && (a.heads > kMost || a.heads % a.kv_heads != 0))
      throw Error(Code::config, fmt::format("{} heads over {} key and value heads are no attention", a.heads, a.kv_heads));
    if (row->kind == RowKind::moe && row->moe.experts > kMost)
      throw Error(Code::config, fmt::format("{} experts are more than {}", row->moe.experts, kMost));
  }
}

}  // namespace

std::string with_prefix(const HfFamily& family, const std::string& name, const std::string& prefix) {
  const std::string lead = family.prefix;
  return name.rfind(lead, 0) == 0 ? prefix + name.substr(lead.size()) : name;
}

std::vector<MappedTensor> hf_tensor_map(const HfFamily& family, const ModelSpec& model, const std::string& prefix) {
  require_countable(model);
  Shapes shapes;
  for (const auto& t : logical_tensors(model)) shapes[t.name] = t.shape;
  const std::int64_t groups = groups_of(model);
  int experts = 0;
  for (const auto& row : model.decoder().rows)
    if (row.kind == RowKind::moe) experts = std::max(experts, row.moe.experts);
  std::vector<MappedTensor> map;
  const auto add = [&](const HfName& row, const char* mark, std::int64_t layer) {
    const std::string ours = *mark ? filled(row.ours, mark, layer) : row.ours;
    const std::int64_t behind = mark == std::string("{P}") ? model.decoder().num_layers() : 0;
    const std::string theirs = with_prefix(family, *mark ? filled(row.theirs, mark, layer + behind) : row.theirs, prefix);
    if (theirs.find("{E}") == std::string::npos) return add_row(map, {theirs.c_str(), ours.c_str(), row.layout}, -1, groups, shapes);
    for (int e = 0; e < experts; ++e) {
      const std::string one = filled(theirs, "{E}", e);
      add_row(map, {one.c_str(), ours.c_str(), row.layout}, e, groups, shapes);
    }
  };
  // Rows of a layer stand together, and are gone through layer by layer.
  const auto names = family.names(model);
  for (std::size_t at = 0; at < names.size();) {
    const std::string mark = mark_of(names[at]);
    std::size_t end = at;
    while (end < names.size() && mark == mark_of(names[end])) ++end;
    const int layers = mark.empty()    ? 1
                       : mark == "{P}" ? model.mtp_layers
                       : mark == "{M}" ? model.towers.front().num_layers()
                                       : model.decoder().num_layers();
    for (int layer = 0; layer < layers; ++layer)
      for (std::size_t i = at; i < end; ++i) add(names[i], mark.c_str(), layer);
    at = end;
  }
  return map;
}

std::vector<HfCopied> hf_copies(const HfFamily& family, const ModelSpec& model, const std::string& prefix) {
  std::vector<HfCopied> out;
  for (const auto& c : family.copies) {
    const std::string name = with_prefix(family, c.name, prefix), of = with_prefix(family, c.of, prefix);
    if (name.find("{P}") == std::string::npos) out.push_back({name, of});
    else
      for (int i = 0; i < model.mtp_layers; ++i) out.push_back({filled(name, "{P}", model.decoder().num_layers() + i), of});
  }
  return out;
}

std::span<const HfFamily> hf_families() {
  // The first that fits is taken where nobody says one: those of fewer keys come first.
  static const HfFamily all[] = {llama_family(),      mistral_family(),   qwen2_family(),       qwen3_family(),       mixtral_family(),
                                 qwen3_moe_family(),  gpt2_family(),      gpt_neox_family(),    falcon_family(),      bloom_family(),
                                 deepseek_v2_family(), deepseek_v3_family(), t5_family(),       bert_family()};
  return all;
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
  for (const auto& f : hf_families()) {
    try {
      hf_config_of(f, model, DType::f32, Json::object());
      return f;
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
    m.spec = m.family->read(config, m.notices);
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
  // Read again it must be the same model: what a family has no key for would be lost in silence.
  ModelSpec again = read_hf_config(base, "").spec;
  again.fp32_residual = model.fp32_residual;  // how it is trained, not what it is
  if (const auto lost = model_difference(again, model); !lost.empty())
    throw Error(Code::config, fmt::format("the model is none of {}: {}", family.model_type, difference_in_words(lost, model)));
  return base;
}

}  // namespace mt
