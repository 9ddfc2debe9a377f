#pragma once
// Families of Hugging Face models: how their config.json says what a model is, and how their tensors are named and lie.
//
// A family is one row of a table: a function that reads its config, one that writes the keys that follow from a model, and
// a list of names. Names have {L} for a layer of the last tower, {M} for one of the first of two, {P} for one that predicts
// further tokens (theirs are counted behind the last tower's), {E} for an expert. Keys
// that are not the model's shape pass through untouched.
// Source: facts of transformers' configuration and modeling files. Code: foreign/hf_family.cc and a foreign/hf_family_NAME.cc
// of kin, which share foreign/hf_config.h. Tests: tests/foreign/hf_family_test.cc, tests/foreign/hf_convert_test.cc.

#include <span>
#include <string>
#include <vector>

#include "base/json.h"
#include "foreign/tensor_map.h"
#include "layout/model_spec.h"

namespace mt {

// How a foreign tensor holds ours along our first dimension.
enum class HfLayout : std::uint8_t {
  end_to_end,
  transposed,  // the same, of matrices that lie as [in, out]
  by_group,    // a key/value head after the other: its queries, its keys, its values; so in turn q|k|v of equal parts
};

// One foreign tensor.
struct HfName {
  const char* theirs;
  const char* ours;  // names, blanks between them; those that a model lacks together are left out
  HfLayout layout = HfLayout::end_to_end;
};

// A tensor that files may have twice: `name` is left out when it is the same as `of`, and is left over when not. {P} as above.
struct HfCopy {
  const char *name, *of;
};

// Ends of names as they were spelled once.
struct HfOldName {
  const char *now, *then;
};

struct HfFamily {
  const char* model_type;    // in config.json
  const char* architecture;  // in config.json of a model written anew
  const char* prefix;        // before most names in a model written anew; files may do without
  std::span<const HfName> (*names)(const ModelSpec& model);
  std::span<const char* const> ignored = {};  // ends of names that hold no weights
  std::span<const HfCopy> copies = {};
  // The model a config says.   fails  Error{config} naming the key, when it is one that no ModelSpec says
  ModelSpec (*read)(const Json& config, std::vector<std::string>& notices);
  // Keys that follow from the model, into `config`.   fails  Error{config}: not a model of this family
  void (*write)(const ModelSpec& model, Json& config);
  std::span<const HfOldName> old_names = {};
};

// Rows of the table, each where its names are.
const HfFamily& llama_family();
const HfFamily& mistral_family();
const HfFamily& qwen2_family();
const HfFamily& qwen3_family();
const HfFamily& mixtral_family();
const HfFamily& qwen3_moe_family();
const HfFamily& gpt2_family();
const HfFamily& gpt_neox_family();
const HfFamily& falcon_family();
const HfFamily& bloom_family();
const HfFamily& deepseek_v2_family();
const HfFamily& deepseek_v3_family();
const HfFamily& t5_family();
const HfFamily& bert_family();

std::span<const HfFamily> hf_families();
// By model_type.   fails  Error{config} naming it and those there are
const HfFamily& hf_family(const std::string& model_type, const std::string& where);
// The first family, in the table's order, whose config says this model.   fails  Error{config}: none
const HfFamily& hf_family_of(const ModelSpec& model);

// A model as its config says, and what to know about it.
struct HfModel {
  const HfFamily* family = nullptr;
  ModelSpec spec;
  std::vector<std::string> notices;  // of what passes through and is not computed here
};
// fails  Error{config}, Error{corrupt} a key that is missing or of another type
HfModel read_hf_config(const Json& config, const std::string& where);

// `base` with the keys that follow from the spec: what a model that began as `base` has now. An empty base makes one anew.
//   fails  Error{config}: the family has no config that says this model, naming what would be lost
Json hf_config_of(const HfFamily& family, const ModelSpec& model, DType dtype, Json base);

// `name` of the family's table as files with another prefix have it: "transformer.", "model.", or nothing.
std::string with_prefix(const HfFamily& family, const std::string& name, const std::string& prefix);
// What files of the model may have twice.
struct HfCopied {
  std::string name, of;
};
std::vector<HfCopied> hf_copies(const HfFamily& family, const ModelSpec& model, const std::string& prefix);

// Their tensors of a model.   fails  Error{config}: more than 65,536 heads or experts, heads that key heads do not divide
std::vector<MappedTensor> hf_tensor_map(const HfFamily& family, const ModelSpec& model, const std::string& prefix);

}  // namespace mt
