#pragma once
// Compare two checkpoints tensor by tensor, whatever layouts or programs wrote them, in bounded memory.
//
// Code: ckpt/diff.cc. Tests: tests/ckpt/diff_test.cc.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ckpt/tensor_source.h"

namespace mt {

// How one tensor compares.
//   kind_of     same: equal bits. values: equal dtype and shape, other bits. dtype: another one, compared by value.
//               only_in_a, only_in_b; shape
//   num_differ  elements whose bits differ; of two dtypes those whose values do (zeros are equal, and NaN are)
//   largest     largest |a - b| among them; infinity where only one is finite or NaN; 0 when bits differ only in the
//               sign of zero or in the payload of NaN
//   at          coordinate of the first element that differs
struct TensorDifference {
  enum class Kind { same, values, only_in_a, only_in_b, dtype, shape };
  std::string name, kind;
  Kind kind_of = Kind::same;
  std::int64_t num_elements = 0, num_differ = 0;
  double largest = 0;
  Dims at;
  std::string text;  // one sentence, "" when same
};

const char* difference_name(TensorDifference::Kind kind);

// Which tensors take part: kinds to compare ("weight" ...); empty: all.
struct DiffOptions {
  std::vector<std::string> kinds;
};

// Compare every tensor of `a`, in a's order, then those only in `b`. `visit` gets each as it is done, equal ones too,
// and returns false to stop.
//   fails  as TensorSource::read
//   cost   reads both once (chunks at the border of two blocks twice); 64 MiB of memory, more where the second is wider
void diff_tensors(const TensorSource& a, const TensorSource& b, const DiffOptions& options,
                  const std::function<bool(const TensorDifference&)>& visit);
// Of two checkpoints of ours.
void diff_checkpoints(const Reader& a, const Reader& b, const DiffOptions& options,
                      const std::function<bool(const TensorDifference&)>& visit);

}  // namespace mt
