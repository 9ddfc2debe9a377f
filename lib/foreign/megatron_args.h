#pragma once
// The arguments that Megatron keeps in a checkpoint, and the model they make; and back.
//
// Code: foreign/megatron_args.cc. Tests: tests/foreign/megatron_map_test.cc.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "layout/model_spec.h"

namespace mt {

struct MegatronModel {
  ModelSpec spec;
  std::int64_t padded_vocab = 0;     // rows of its vocabulary tables, over all tensor ranks
  std::vector<std::string> notices;  // what passes through and is not computed here, or is taken for granted
};

// A model from the args (an argparse.Namespace as plain JSON, foreign/pickle.h).
//   vocab_size  the true size; when not given that of the args, or the padded one with a notice
//   fails  Error{config} naming all that is missing, or the first that makes the model compute what is not represented
MegatronModel model_of_megatron(const Json& args, std::optional<std::int64_t> vocab_size, const std::string& where);

// Arguments that make this model in Megatron, with `padded_vocab` rows in its tables. Those of `base` stay where they do not
// follow from the shape.
//   fails  Error{config}: layers of several shapes, or what Megatron's arguments do not say
Json megatron_args_of(const ModelSpec& model, std::int64_t padded_vocab, Json base, const std::string& where);

}  // namespace mt
