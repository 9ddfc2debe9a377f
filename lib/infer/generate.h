#pragma once
// Continue a prompt token by token with a key-value cache.
//
// Sampling: logits / temperature, then the k most probable, then the smallest set whose probability reaches p, then one
// draw from Philox(seed, sampling) at counter (sequence, position): the same text on every layout up to rounding.
// Temperature 0 is greedy; ties go to the lowest id. Code: infer/generate.cc. Tests: tests/infer/generate_test.cc.

#include <functional>
#include <optional>
#include <vector>

#include "infer/session.h"

namespace mt {

struct SamplingOptions {
  double temperature = 0;
  int top_k = 0;       // 0: all
  double top_p = 1.0;  // in (0, 1]
  std::uint64_t seed = 1234;
};

// The next id from logits over the vocabulary.   cost  n log n with top-p, n log k with top-k, n otherwise
//   fails  Error{data} when a logit is NaN
std::int32_t sample(std::vector<float> logits, const SamplingOptions& options, std::uint64_t sequence,
                    std::uint64_t position);

struct Generated {
  std::vector<std::int32_t> ids;  // new ones only, the stop id not included
  bool stopped = false;           // by the stop id
  double prefill_s = 0, decode_s = 0;
};

// Up to `max_new` tokens after `prompt`. Collective; every rank gives the same ids.
//   on_token  called with each new id on every rank; may be empty
//   fails  Error{config} when prompt + max_new is more than a learned table of positions has; Error{data}: empty prompt, ids
//          the vocabulary does not have
Generated generate(Session& session, const std::vector<std::int32_t>& prompt, std::int64_t max_new,
                   const SamplingOptions& sampling, std::optional<std::int32_t> stop_id, std::uint64_t sequence,
                   const std::function<void(std::int32_t)>& on_token);

}  // namespace mt
