#pragma once
// Column- and row-parallel linear layers and the exchanges around them.
//
//   column parallel  W [out/tp, in]: every rank needs all tokens' full input, gives a part of the features
//   row parallel     W [out, in/tp]: every rank gives a partial sum of all features; its bias is added after the sum
// Without sequence parallelism the sum is an all-reduce; with it, gather is an all-gather along tokens and the sum a
// reduce-scatter, so that norms, dropout and residual work on Ts tokens.
// Source: Shoeybi et al. 2019; Korthikanti et al. 2022. Code: nn/parallel_linear.cc. Tests: tests/nn/.

#include "nn/sub_layer.h"

namespace mt {

// Start: all tokens of a sharded view into `full` (the view itself when nothing is sharded). Await with
// await_gather.   cost  bytes sent per rank: (tp−1)/tp of the full view, with sequence parallelism; else none
void start_gather(Ctx& ctx, Flow& flow, View shard, View& full);
// A gather in pieces (nn/overlapped_linear.h) is left to the product it is for.
void await_gather(Ctx& ctx, Flow& flow);
// Start: the sum over tp of `partial` [T, n] into `sum`: [Ts, n] with sequence parallelism, else `partial` itself. One that was
// started with its product (nn/overlapped_linear.h) goes on.
//   cost  bytes sent per rank: (tp−1)/tp of partial with sequence parallelism, twice that without
void start_sum(Ctx& ctx, Flow& flow, View partial, View& sum);
void await_sum(Ctx& ctx, Flow& flow);
// What is in flow.pending.
void await_exchange(Ctx& ctx, Flow& flow);
// Whether tokens are sharded: sequence parallelism over more than one rank.
bool is_sharded(const Ctx& ctx);

// A product with a parameter, in the compute dtype or with operands rounded to fp8.
struct Product {
  int weight = -1, bias = -1;  // parameters; bias −1: none
  int slot = 0;                // of the weight's gradient
  bool fp8 = false;
  int unit = 0, place = 0;     // of fp8: whose magnitudes (nn/fp8_state.h)
};

// y = x·Wᵀ (+ bias). y is overwritten.   cost  2·T·in·out flop
void linear(Ctx& ctx, const Product& product, View x, View y);
// dx = dy·W. An fp8 product leaves dy's copy for the weight gradient in the flow.
void linear_backward_input(Ctx& ctx, Flow& flow, const Product& product, View dy, View dx);
// dW += dyᵀ·x in the weight's gradient slot, and dbias += column sums of dy.
//   needs  the flow and dy of linear_backward_input
void linear_backward_weight(Ctx& ctx, Flow& flow, const Product& product, View dy, View x);

// Index of a parameter this rank must hold; a missing one is a bug.
int require_param(const ParameterStore& params, const std::string& name);

}  // namespace mt
