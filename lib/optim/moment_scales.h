#pragma once
// Scales of moments that are kept in f16 or e4m3: a power of two for each moment of each logical tensor.
//
//   value = stored · scale;  scale = the least power of two (2^-100 at least) with max|moment| / scale ≤ 448 (e4m3), 65504 (f16)
// A step first finds the largest magnitudes the new moments will have, over all ranks that hold parts of a tensor, then
// rounds by the scale that follows. A maximum does not depend on cuts or order, so neither does what is stored; and a power
// of two rounds nothing. Second moments above zero are never rounded to zero, where the update would be m / epsilon.
// bf16 has f32's range and no scale. Code: optim/moment_scales.cc. Tests: tests/optim/moments_test.cc.

#include <memory>
#include <string>
#include <vector>

#include "comm/groups.h"
#include "layout/state_spec.h"
#include "ops/adamw.h"
#include "params/parameter_store.h"
#include "tensor/tensor.h"

namespace mt {

class MomentScales {
 public:
  // Scales of 1 for every piece of the store's table.   needs  a moment of the spec is scaled
  MomentScales(const ParameterStore& store, const StateSpec& spec, Device device);

  // One scaled moment of a piece; null where that moment has no scale.
  ops::MomentScale exp_avg(int param, std::size_t piece) const { return scale(param, piece, 0); }
  ops::MomentScale exp_avg_sq(int param, std::size_t piece) const { return scale(param, piece, 1); }
  // Where largest magnitudes of a step are noted.
  float* largest(int param, std::size_t piece, int moment) const;

  // Before a step's maxima are noted.
  void begin_step(Stream& stream);
  // The next scales from all ranks' maxima. Collective over the ranks of a pipeline stage.
  void agree(Stream& stream, const Groups& groups);
  // The next scales are those of what is stored.
  void end_step(Stream& stream);

  // A scale as a checkpoint holds it: one f32 under the logical tensor's name.
  struct Stored {
    std::string name, kind;
    float* value;
    bool tie_copy;
  };
  std::vector<Stored> stored() const;
  void reset(Stream& stream);

 private:
  std::int64_t slot(int param, std::size_t piece, int moment) const;
  float* at(int row, std::int64_t slot) const;
  ops::MomentScale scale(int param, std::size_t piece, int moment) const;

  const ParameterStore& store_;
  DType dtypes_[2];
  std::vector<std::int64_t> first_;  // piece of each parameter, among all
  std::int64_t slots_ = 0;
  Tensor values_;  // rows: now, next, largest
  std::unique_ptr<Communicator> group_;
};

}  // namespace mt
