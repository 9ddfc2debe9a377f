#pragma once
// Every problem of a configuration at once, with no device and no MPI.
//
// Code: layout/validate.cc. Tests: tests/layout/validate_test.cc.

#include <optional>
#include <string>
#include <vector>

#include "layout/model_spec.h"
#include "layout/parallel_spec.h"

namespace mt {

// One clash: two named numbers, and what would be legal.
struct Problem {
  std::string what;     // "num-attention-heads 12 is not divisible by tensor-model-parallel-size 8"
  std::string nearest;  // "tensor-model-parallel-size 6 or 12"
};

// Facts from floors that layout may not ask itself.
struct Limits {
  int world = 0;               // ranks there are; 0: not known, world follows from the degrees
  int max_pp = 1, max_cp = 1, max_ep = 1, max_etp = 1;  // what the running program can execute
  int max_zero_stage = 0;
  std::optional<std::int64_t> vocab_of_data;  // largest token id + 1, when data is known
  int max_experts = 0;  // what the running program can execute
  bool any_model = false;  // nothing is executed: what no sub-layer computes is no problem (layout/not_computed.h)
};

// Empty when the run is legal. `precision_flags` is the number of half-precision flags given (two is a problem).
std::vector<Problem> validate(const ModelSpec& model, const ParallelSpec& parallel, const BatchSpec& batch,
                              const Limits& limits, int precision_flags);

// What is wrong with the spec's order string: an axis unknown, missing or named twice, or a pp that the dense and the
// expert grid would place differently.   needs  degrees of at least 1
std::optional<Problem> order_problem(const ParallelSpec& parallel);

// Values near `wanted` that are divisors (of `n`), as text: "4 or 6".
std::string nearest_divisors(std::int64_t n, std::int64_t wanted);

// Throw Error{config} with every problem, one a line.
void require_valid(const std::vector<Problem>& problems);

}  // namespace mt
