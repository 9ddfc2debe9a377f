#pragma once
// The end of a sub-layer: y = x + dropout(sum + bias), on this rank's tokens; and its backward.
//
//   sum  [Ts, C] the row-parallel product after the exchange (Flow::partial)
// The bias gradient is the column sum of this rank's rows: whole without sequence parallelism, partial with it (the
// ParamSpec table says so). Code: nn/residual.cc. Tests: tests/nn/.

#include "nn/sub_layer.h"

namespace mt {

struct Residual {
  double dropout = 0;
  std::uint64_t name_hash = 0;
  int bias = -1;
};

void residual_forward(Ctx& ctx, const Residual& residual, Flow& flow);
// flow.dz = gradient of the sum in the compute dtype (dy itself where it is that, without dropout); dbias accumulates. dy also goes on unchanged.
void residual_backward(Ctx& ctx, const Residual& residual, Flow& flow);

// As start_gather, but the full view lives in flow.kept, for backward_weight.
void start_gather_kept(Ctx& ctx, Flow& flow, View shard, View& full);

}  // namespace mt
