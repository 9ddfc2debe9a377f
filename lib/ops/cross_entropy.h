#pragma once
// Softmax cross-entropy over a vocabulary spread over tensor-parallel ranks, in three local steps.
//
//   T  tokens   V  columns held here   columns  how many of them are true vocabulary (the rest pads, and is outside)
// Between the steps the caller reduces over tp:
//   cross_entropy_max   row_max               then all-reduce max of row_max
//   cross_entropy_sum   sum_exp, target (…)   then all-reduce sum of them
//   cross_entropy_loss  loss, and the gradient written over the logits
// Maths in f32 whatever the logits' dtype; sums over a row are blocks of kLossColumns columns in block order.
// Code: ops/cross_entropy.cc, ops/cpu/cross_entropy.cc. Tests: tests/ops/cross_entropy_test.cc.

#include "device/stream.h"
#include "ops/cost.h"
#include "tensor/view.h"

namespace mt::ops {

inline constexpr std::int64_t kLossColumns = 4096;

struct CrossEntropyMaxArgs {
  View logits;               // [T, V], last stride 1; f32, bf16 or f16
  std::int64_t columns = 0;  // true columns, 0 ≤ columns ≤ V
  View row_max;              // f32 [T]; −infinity when columns is 0
};
// cost  T·V elements read
void cross_entropy_max(Stream& stream, const CrossEntropyMaxArgs& args);

struct CrossEntropySumArgs {
  View logits;
  std::int64_t columns = 0;
  View row_max;               // reduced
  View targets;               // i32 [T], ids in the whole vocabulary
  std::int64_t first_id = 0;  // id of column 0
  View sum_exp;               // f32 [T] = Σ exp(logit − max)
  View target_logit;          // f32 [T] = logit of the target − max where it is held here, else 0
  View sum_logits;            // f32 [T] = Σ (logit − max), for label smoothing; absent when not wanted
};
// cost  T·V elements read
void cross_entropy_sum(Stream& stream, const CrossEntropySumArgs& args);

struct CrossEntropyLossArgs {
  View logits;  // overwritten by the gradient when `gradient`; padding columns become 0
  std::int64_t columns = 0;
  View row_max, sum_exp, target_logit, sum_logits;  // reduced; sum_logits only with smoothing
  View targets;
  std::int64_t first_id = 0;
  View loss;                  // f32 [T], not scaled and not masked
  View token_scale;           // f32 [T]: factor of each token in the gradient (mask / count · loss scale); a token of
                              // scale 0 may have any target and gets exact zeros
  bool gradient = true;       // false: only loss (evaluation); logits stay
  float label_smoothing = 0;  // as Megatron: s = smoothing·V/(V − 1), loss = (1 − s)·nll − s·mean(log p)
  std::int64_t vocab = 0;     // true vocabulary over all ranks; read with smoothing
};
// dlogit = (softmax − (1 − s)·onehot − s/vocab)·token_scale.   cost  T·V elements read and written
void cross_entropy_loss(Stream& stream, const CrossEntropyLossArgs& args);

Cost cross_entropy_cost(std::int64_t tokens, std::int64_t columns, int bytes_per_element);

}  // namespace mt::ops
