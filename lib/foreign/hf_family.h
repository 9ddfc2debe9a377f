#pragma once
// Families of Hugging Face models: how their config.json says what a model is, and how their tensors are named and lie.
//
// A family is one row of a table: a function that reads the keys of its config, one that writes them, and a list of names.
// Names have {L} for a layer and {E} for an expert. Keys that are not the model's shape pass through untouched.
// Source: facts of transformers' configuration and modeling files. Code: foreign/hf_family.cc, foreign/hf_config.cc.
// Tests: tests/foreign/hf_family_test.cc, tests/foreign/hf_convert_test.cc.

#include <span>
#include <string>
#include <vector>

#include "base/json.h"
#include "foreign/tensor_map.h"
#include "layout/model_spec.h"

namespace mt {

// One foreign tensor: ours it is made of, one after the other along our first dimension.
//   transposed  matrices lie as [in, out]
struct HfName {
  const char* theirs;
  const char* ours;  // names, blanks between them; those that a model lacks together are left out
  bool transposed = false;
};

struct HfFamily {
  const char* model_type;    // in config.json
  const char* architecture;  // in config.json of a model written anew
  const char* prefix;        // before all names but that of the head, in a model written anew
  std::span<const HfName> names;
  std::span<const char* const> ignored;  // ends of names that hold no weights
  // The spec's options from a config.   fails  Error{config} naming the key, when the model computes what we do not
  ModelOptions (*options)(const Json& config, std::vector<std::string>& notices);
  // Keys that follow from the spec, into `config`.   fails  Error{config}: not a model of this family
  void (*write)(const ModelSpec& model, Json& config);
};

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
Json hf_config_of(const HfFamily& family, const ModelSpec& model, DType dtype, Json base);

// Their tensors of a model.
//   prefix  before all names but the head's: "transformer.", "model.", or nothing
std::vector<MappedTensor> hf_tensor_map(const HfFamily& family, const ModelSpec& model, const std::string& prefix);

}  // namespace mt
