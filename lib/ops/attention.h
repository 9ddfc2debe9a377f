#pragma once
// Attention that never stores its score matrix: softmax(scale·Q·Kᵀ + mask)·V by blocks of queries and keys.
//
//   Tq, Tk  tokens of queries, keys   H  query heads   G  key/value heads, H divisible by G (head h uses h·G/H)
//   D  head dim   B  sequences        lse  log of the sum of exp of a row's scaled scores
// Sequences are packed along T: sequence i has queries [cu_q[i], cu_q[i+1]) and keys [cu_k[i], cu_k[i+1]).
// Causal masks are aligned at the end: of nq queries over nk keys, query j sees keys ≤ j + nk − nq, so one call serves
// training (nq = nk) and generation over a cache (nq < nk). A query that sees no key gives zeros and lse = −infinity.
// Extra memory is linear in Tq + Tk. Source: Dao et al., arXiv:2205.14135.
// Code: ops/attention.cc, ops/cpu/attention*.cc, ops/cuda/attention*.cu, ops/cuda/cudnn_attention.cu.
// Tests: tests/ops/attention_test.cc, attention_choice_test.cc, cudnn_attention_test.cc.

#include "device/stream.h"
#include "ops/attention_mode.h"
#include "ops/cost.h"
#include "ops/dropout.h"
#include "tensor/view.h"

namespace mt::ops {

struct AttentionShape {
  View cu_q, cu_k;  // i32 [B + 1], ascending from 0 to Tq, Tk
  View used_k;      // i32 [B]: keys of each sequence that are filled (a cache with spare room); absent: all
  bool causal = true;
  float scale = 1;  // usually 1/sqrt(D)
  AttentionDropout dropout;
  AttentionLengths lengths;
  AttentionMode mode;
};

struct AttentionForwardArgs {
  View q;     // [Tq, H, D]; f32, bf16 or f16; last stride 1, the others free (a slice of a fused qkv)
  View k, v;  // [Tk, G, D], dtype of q
  View out;   // [Tq, H, D], dtype of q, or f32
  View lse;   // f32 [Tq, H]
  AttentionShape shape;
};

// cost  attention_cost per sequence; parallel over sequences, heads and blocks of queries
void attention_forward(Stream& stream, const AttentionForwardArgs& args);

struct AttentionBackwardArgs {
  View q, k, v;     // as in forward
  View out, lse;    // of forward (of the merged result, when partial results were merged)
  View dout;        // [Tq, H, D], dtype of q or f32
  View dq, dk, dv;  // shapes of q, k, v, dtype of q or f32; overwritten
  AttentionShape shape;
};

// cost  2.5 × forward; parallel over sequences and key/value heads
void attention_backward(Stream& stream, const AttentionBackwardArgs& args);

// Whether attention of such arguments goes to cuDNN on a device of this compute capability, where there is cuDNN and it has
// a plan: 9.0 and above, bf16 or f16 throughout, head dims of multiples of 8 up to 256, rows on borders of 16 bytes, no
// dropout, a positive scale, every key filled; lengths known, and either equal (causal: no more queries than keys) or the
// same for queries and keys.   cost  nothing: looks at nothing but the arguments
bool cudnn_takes(const AttentionForwardArgs& args, int capability);
bool cudnn_takes(const AttentionBackwardArgs& args, int capability);

struct AttentionMergeArgs {
  View out;       // [Tq, H, D]: result so far, replaced by the merged one
  View lse;       // f32 [Tq, H], likewise
  View part_out;  // [Tq, H, D]: result over other keys; any float
  View part_lse;  // f32 [Tq, H]
};

// Join two results of the same queries over disjoint keys: lse = log(e^a + e^b), out = weighted by e^(lse_i − lse).
// cost  3·Tq·H·D elements moved
void attention_merge(Stream& stream, const AttentionMergeArgs& args);

}  // namespace mt::ops
