#pragma once
// Dropout masks as a function of logical position: the same element is dropped in every layout, micro-batch and
// recompute.
//
// An element is kept when its Philox word's upper 24 bits are >= p·2^24, and is then scaled by 1/(1-p).
//   hidden     counter = (feature/4, position, ordinal low, ordinal high), word feature%4
//   attention  counter = (key position/4, query position, ordinal low, head << 16 | ordinal high 16), word key%4
// Code: the formulas in ops/scalar.h. Tests: tests/ops/bias_dropout_add_test.cc, tests/ops/attention_test.cc.

#include "base/philox.h"
#include "tensor/view.h"

namespace mt::ops {

// Dropout of a [T, C] activation. With p = 0 nothing else is looked at.
struct Dropout {
  float p = 0;                     // in [0, 1)
  PhiloxKey key{0, 0};             // make_key(seed, Purpose::hidden_dropout, hash of the sub-layer's name)
  View ordinals;                   // i64 [T]: ordinal in the run of the sample each token belongs to
  View positions;                  // i32 [T]: position of each token in its sample
  std::int64_t first_feature = 0;  // global index of column 0 (a tensor-parallel rank holds some columns)
};

// Dropout of attention probabilities; ordinals < 2^48, global heads < 2^16. With p = 0 nothing else is looked at.
struct AttentionDropout {
  float p = 0;
  PhiloxKey key{0, 0};          // make_key(seed, Purpose::attention_dropout, hash of the sub-layer's name)
  View ordinals;                // i64 [Tq]
  View query_positions;         // i32 [Tq]: position in the sample
  View key_positions;           // i32 [Tk]; ascending within a sequence, gaps allowed
  std::int64_t first_head = 0;  // global index of query head 0
};

}  // namespace mt::ops
