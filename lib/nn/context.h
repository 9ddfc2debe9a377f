#pragma once
// What every sub-layer is given: stream, groups, parameters, memory, the tokens, and what the pass is for.
//
//   T  tokens of the micro-batch on this rank (before sequence sharding)    B  sequences
// Code: header only. Tests: through tests/nn/.

#include <cstdint>

#include "comm/groups.h"
#include "device/buffer.h"
#include "nn/fp8_state.h"
#include "nn/tp_overlap.h"
#include "ops/attention_mode.h"
#include "ops/gemm.h"
#include "params/parameter_store.h"
#include "tensor/view.h"

namespace mt {

// A micro-batch on the device. Every token knows its sample's ordinal in the run and its position in the sample, so
// random numbers and positions do not depend on the layout.
struct Tokens {
  View ids;          // i32 [T]
  View labels;       // i32 [T]; absent when generating
  View loss_scale;   // f32 [T]: mask / global token count; 0 for a masked token
  View ordinals;     // i64 [T]
  View positions;    // i32 [T]: what the model sees; may restart inside a sample
  View places;       // i32 [T]: which of its sample's tokens it is; what dropout is drawn by
  View cu_seqlens;   // i32 [B + 1]
  ops::AttentionLengths lengths = {};  // what the host knows of it
  std::int64_t count() const { return ids.dim(0); }
};

// Keys and values of the tokens so far, a row's own; filled by attention in Mode::generate.
struct KvCache {
  View k, v;              // [capacity, kv heads, head dim]
  std::int64_t length = 0;  // tokens in it before this pass
};

enum class Mode : std::uint8_t {
  train,     // dropout on, saves for backward
  evaluate,  // dropout off, nothing kept
  generate,  // as evaluate, with key-value caches, one sequence
};

struct Ctx {
  Stream& stream;
  const Groups& groups;
  ParameterStore& params;
  Arena& scratch;
  const Tokens& tokens;
  std::uint64_t seed = 0;
  Mode mode = Mode::train;
  std::vector<KvCache>* caches = nullptr;  // by unit, in Mode::generate
  View token_loss;                         // f32 [T], written by the head when labels are given
  View last_logits;                        // [T, V/tp] of the head in Mode::generate, set by the head
  Fp8State* fp8 = nullptr;   // given where rows have fp8 products
  bool records = false;      // the first forward and the backward of training: magnitudes are noted
  ops::GemmMode gemm_mode = {};
  TpOverlap tp_overlap = {};
  ops::AttentionMode attention_mode = {};
};

// The rows of a per-token view that this rank keeps when the sequence is sharded over tp, all of them otherwise.
inline View sequence_shard(const Ctx& ctx, View per_token) {
  if (!ctx.groups.placement.spec.sequence_parallel) return per_token;
  const std::int64_t n = per_token.dim(0) / ctx.groups.tp->size(), r = ctx.groups.tp->rank();
  return per_token.rows(r * n, (r + 1) * n);
}

}  // namespace mt
