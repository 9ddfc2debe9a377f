#pragma once
// The loops of sum and max on an accelerator: sources in rank order, in f32 (f64 for f64), rounded once.
//
// Code: comm/cuda/rank_order.cu. Tests: tests/comm/nccl_test.cc, the conformance suite on nccl.

#include <cstddef>
#include <cstdint>

#include "base/dtype.h"
#include "device/stream.h"

namespace mt::comm {

// out[i] = source 0 [i] op source 1 [i] … ; source r lies at received + r·stride bytes, this rank's own at `own`.
//   out  may be `own`
struct RankOrder {
  DType dtype = DType::f32;
  bool max = false;  // else sum; a NaN wins
  int ranks = 1, rank = 0;
  const std::byte *received = nullptr, *own = nullptr;
  std::int64_t stride = 0;
  std::byte* out = nullptr;
  std::int64_t count = 0;  // elements
};

// Bits are those of reduce_local (comm/reduction.h).
//   needs  sum of f64 f32 bf16 f16, or max of f32; integers are exact in any order, so nobody asks
void reduce_in_rank_order(const Stream& stream, const RankOrder& args);

}  // namespace mt::comm
