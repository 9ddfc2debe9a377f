#pragma once
// Products cut in pieces of tokens, so that a gather or a sum over tp is under way beside them.
//
//   n   ranks of tp      Ts  tokens of this rank's shard      T  all tokens, n·Ts, shard after shard
// Before a product of all tokens: the gather is n−1 exchanges, the s-th to the rank s places on and from the one s places
// back, all started at once. The product of this rank's own tokens runs first, then each shard's when it has come. As many
// bytes as an all-gather, every link used both ways, and the whole lies in rank order for who needs it later.
// Before a sum: piece j of at most kSumPieces takes the j-th part of every shard, is one product of n matrices with the same
// weight, and one reduce-scatter, started while the next piece is multiplied. What is summed has the order of the ranks it had.
//
// The bits are those of nn/parallel_linear.h where an element of a product does not depend on how many rows are multiplied with
// it. No library promises that: cuBLASLt chooses an algorithm by shape, oneDNN a kernel. Seen with oneDNN: bf16 never depends on
// it, f32 does with fewer than 16 rows, and at times where 4096 terms are summed. Runs with and without then differ as two layouts
// do. A product with fp8 operands is never cut, since one scale may be of all its rows.
// Source: Jangda et al. 2022 and Transformer Engine's userbuffers have the idea. Code: nn/overlapped_linear.cc. Tests:
// tests/nn/overlapped_linear_test.cc.

#include "nn/parallel_linear.h"

namespace mt {

inline constexpr int kSumPieces = 4;

// Start: all tokens of `shard` into `full`, for a product with `product`'s weight: in pieces where ctx.tp_overlap.gather is
// set and the product can be cut, else as start_gather. `full` lies in ctx.scratch, or in flow.kept.
//   cost  bytes sent per rank: (n−1)/n of the full view, in n−1 messages instead of n−1 parts of one; a copy of the shard
void start_gather_for(Ctx& ctx, Flow& flow, const Product& product, View shard, View& full);
void start_gather_kept_for(Ctx& ctx, Flow& flow, const Product& product, View shard, View& full);

// linear and linear_backward_input of what start_gather_for is bringing; awaits its pieces, the others need await_gather
// before.   needs  `full` as that gave it
void linear_of_gathered(Ctx& ctx, Flow& flow, const Product& product, View full, View y);
void linear_backward_input_of_gathered(Ctx& ctx, Flow& flow, const Product& product, View full, View dx);

// flow.partial = the product of x [T, k] with the weight, over all its outputs (forward) or inputs (backward), in the compute
// dtype, for start_sum, which starts the sum or finds it started: in pieces where ctx.tp_overlap.sum (forward) or sum_dgrad
// (backward) is set and the product can be cut.
//   cost  bytes sent per rank as start_sum, in up to kSumPieces messages; no memory beside start_sum's
void linear_to_sum(Ctx& ctx, Flow& flow, const Product& product, View x);
void linear_backward_input_to_sum(Ctx& ctx, Flow& flow, const Product& product, View dy);

}  // namespace mt
