#pragma once
// What an op costs by formula: floating-point operations and bytes moved between memory and the processor.
//
// Both are what the mathematics needs, not what a kernel happens to do: a causal score that is masked counts no flop, a
// tensor read twice because it fell out of the cache counts once. A multiply-add is 2 flop.
// Code: each op's x_cost beside the op. Tests: tests/ops/cost_test.cc.

#include <cstdint>

namespace mt::ops {

struct Cost {
  double flop = 0;
  double bytes = 0;
};
inline Cost operator+(Cost a, Cost b) { return {a.flop + b.flop, a.bytes + b.bytes}; }

// The formulas that a plan needs before any tensor exists.
Cost gemm_cost(std::int64_t batch, std::int64_t m, std::int64_t n, std::int64_t k, int bytes_per_element,
               int bytes_per_result);

// One sequence of nq queries over nk keys, `heads` query heads of `head_dim`. forward: 4·pairs·head_dim·heads flop,
// pairs = nq·nk, or the unmasked ones when causal (query i sees keys ≤ i + nk − nq). backward: 2.5 times that, the
// recomputed scores included.
Cost attention_cost(std::int64_t nq, std::int64_t nk, std::int64_t heads, std::int64_t head_dim, bool causal,
                    int bytes_per_element);
std::int64_t causal_pairs(std::int64_t nq, std::int64_t nk);

}  // namespace mt::ops
