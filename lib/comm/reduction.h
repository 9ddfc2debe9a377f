#pragma once
// The loops of sum and max: rank order, f32 inside, rounded once.
//
// Code: comm/reduction.cc. Tests: tests/comm/reduction_test.cc.

#include <span>

#include "comm/communicator.h"

namespace mt::comm {

// out[i] = reduction over sources, in their order, of sources[r][i]. `out` must be none of the sources unless it is
// read before written element by element (it may be sources[0]).
//   needs  sum: f64 f32 bf16 f16 i64 i32; max: f32 (a NaN wins) i64 i32
//   fails  MT_CHECK on another dtype
void reduce_local(DType dtype, Reduce op, std::span<const std::byte* const> sources, std::byte* out, std::int64_t n);

}  // namespace mt::comm
