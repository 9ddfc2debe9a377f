#pragma once
// What this rank's cores reach in a square matrix product: the peak that MFU on a CPU is a share of.
//
// Code: probe/gemm_peak.cc. Tests: tests/probe/gemm_peak_test.cc.

#include "base/dtype.h"
#include "device/stream.h"

namespace mt {

// FLOP/s of an n×n×n product through ops::gemm, the best of `tries` after one warm-up.
//   cost  (tries + 1)·2n³ flop and 3n² elements: 20-60 ms a core for n = 1024
double gemm_peak_flop_per_s(Stream& stream, DType dtype, std::int64_t n = 1024, int tries = 3);

}  // namespace mt
