#pragma once
// How a run is cut: degrees of every axis, and the batch.
//
//   tp tensor  cp context  pp pipeline  dp data  ep expert  etp expert-tensor  (edp: what is left for experts)
// Code: layout/parallel_spec.cc. Tests: tests/layout/.

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"

namespace mt {

// What of a forward pass is thrown away and made again right before its backward; see layout/recompute.h.
struct RecomputeSpec {
  enum class Granularity : std::uint8_t { none, selective, full };
  enum class Method : std::uint8_t { uniform, block };
  Granularity granularity = Granularity::none;
  // full: groups of `num_layers` layers over the whole chunk (uniform), or its first `num_layers` layers (block).
  Method method = Method::uniform;
  int num_layers = 1;
  bool core_attn = false, mlp = false, layernorm = false, mlp_act = false;  // selective
  bool distribute_saved = false;  // full: the kept inputs of groups are sharded over tp
  bool on() const { return granularity != Granularity::none; }
};

struct ParallelSpec {
  int tp = 1, cp = 1, pp = 1, dp = 1;
  int ep = 1, etp = 1;
  int vpp = 1;  // model chunks a pipeline rank holds
  bool v_shape = false;  // odd chunks run from the last rank back to the first: rank 0 holds the first stage and the last
  bool sequence_parallel = false;
  int zero_stage = 0;  // 0: replicated; 1 optimizer, 2 gradients, 3 weights sharded over dp·cp
  int optimizer_instances = 1;  // dp·cp ranks fall in so many parts, each with all shards once; see layout/shards.h
  std::string order = "tp-cp-ep-dp-pp";  // leftmost varies fastest
  // Layers of each of the pp·vpp stages in the model's order; empty: even. See layout/pipeline_split.h.
  std::vector<int> stage_layers = {};
  RecomputeSpec recompute;  // changes memory and time, no value; not part of a checkpoint

  // Place in the model's order of a rank's chunk, 0 … pp·vpp−1, and back; a stage is chunk stage/pp of its rank.
  int stage(int pp_rank, int chunk) const { return chunk * pp + (v_shape && chunk % 2 == 1 ? pp - 1 - pp_rank : pp_rank); }
  int pp_rank_of_stage(int stage) const { return v_shape && stage / pp % 2 == 1 ? pp - 1 - stage % pp : stage % pp; }
  int world() const { return tp * cp * pp * dp; }
  int edp() const { return world() / (etp * ep * pp); }
  // Ranks that share one set of shards.
  int shard_ranks() const { return dp * cp / optimizer_instances; }
  // Ranks that share the activations of one token row when sequence parallel, else 1.
  int sequence_shards() const { return sequence_parallel ? tp : 1; }
};

struct BatchSpec {
  int seq_length = 0, micro_batch = 1, global_batch = 1;
  int max_positions = 0;  // positions tokens may have, when more than seq_length (generation over a cache)
  bool parts = false;     // samples may be of several parts (documents, conversations), at most one a token
  std::int64_t tokens_per_micro_batch() const { return std::int64_t{seq_length} * micro_batch; }
  int num_micro_batches(const ParallelSpec& p) const { return global_batch / (micro_batch * p.dp); }
};

// "tp 2, cp 1, pp 1, dp 4"
std::string parallel_text(const ParallelSpec& spec);
Json to_json(const ParallelSpec& spec);
ParallelSpec parallel_from_json(const Json& json, const std::string& where);

}  // namespace mt
