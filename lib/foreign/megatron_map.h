#pragma once
// How Megatron names a model's tensors and cuts them over tensor, pipeline and expert ranks, as tables of boxes.
//
//   linear_qkv   a query group after the other: its query heads, its key, its value
//   linear_fc1   of gated networks gate and up, each rank its part of both
//   tables       rows up to a multiple, the last ones standing for no token
//   experts      one tensor each; in torch_dist one of all, and where all layers are alike one of all layers
//
// Here a layer has its global number and norms their own names (input_layernorm); Transformer Engine's names of them and
// those of models before Megatron Core are spellings (megatron_name, spelled).
// Code: foreign/megatron_map.cc, foreign/megatron_names.cc. Tests: tests/foreign/megatron_map_test.cc.

#include <optional>
#include <string>
#include <vector>

#include "foreign/source_tensors.h"
#include "foreign/tensor_map.h"
#include "layout/model_spec.h"

namespace mt {

// How a checkpoint is cut.
//   etp           tensor ranks of an expert, which divide tp; 0: tp
//   stage_layers  layers of each stage in the model's order; stage s is chunk s / pp of pipeline rank s % pp
struct MegatronCut {
  int tp = 1, pp = 1, ep = 1;
  std::vector<int> stage_layers;
  std::int64_t padded_vocab = 0;
  bool qkv_by_part = false;  // checkpoint_version 0: all queries of a rank, all keys, all values
  int etp = 0;
};

// What one rank's chunk holds.
//   replica  the same as on the rank it is counted at (tp 0 or ep 0, or the first stage for a tied head, which is its table there)
//   of_tp    which part it is: a tensor rank, among those of an expert for an expert, 0 for what is whole
struct MegatronTensor {
  MappedTensor theirs;
  std::optional<TensorCopy> replica;
  int of_tp = 0;
};

// Tensors of a stage on a rank.
//   fails  Error{config}: sizes that tp or ep do not divide
std::vector<MegatronTensor> megatron_tensors(const ModelSpec& model, const MegatronCut& cut, int tp_rank, int stage, int ep_rank,
                                             const std::string& where);

// The tensors of all ranks: what is counted, and what is the same on another one.
//   ranks   each with the start of its tensors' names, those of a first stage before others; what several hold counts at the first
//   chunks  virtual stages of a rank
struct MegatronRank {
  int tp = 0, pp = 0, ep = 0;
  std::string prefix;
};
struct MegatronRankMap {
  std::vector<MappedTensor> map;
  std::vector<TensorCopy> copies;
};
MegatronRankMap megatron_rank_map(const ModelSpec& model, const MegatronCut& cut, int chunks, const std::vector<MegatronRank>& ranks, const std::string& where);

// Tensors of a torch_dist checkpoint, under our spelling: whole ones, experts stacked, and layers too where `stacked`.
std::vector<MappedTensor> megatron_dist_tensors(const ModelSpec& model, std::int64_t padded_vocab, bool stacked, const std::string& where);

// Our spelling of a name in a rank's file: `first_layer` is added to the number of a layer, `first_expert` to that of an expert.
std::string megatron_name(const std::string& theirs, int first_layer, int first_expert);

// Our spelling of a name in a torch_dist checkpoint, whose layers may have no number. A run of the local spec writes
// Transformer Engine's names there too, before experts as well.
std::string megatron_dist_name(const std::string& theirs);
// The spelling there; a run of the local spec looks for another one of the norm before experts than Transformer Engine's.
std::string dist_spelled(const std::string& name, const ModelSpec& model, bool transformer_engine);

// And back, in a rank's file, with local numbers.
//   transformer_engine  its names of norms, else those of the local spec
struct MegatronSpelling {
  int first_layer = 0, first_expert = 0;
  bool transformer_engine = true;
};
std::string spelled(const std::string& name, const ModelSpec& model, const MegatronSpelling& how);

}  // namespace mt
