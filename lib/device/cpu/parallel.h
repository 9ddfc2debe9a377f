#pragma once
// The one way CPU kernels use threads: a loop over blocks whose borders do not depend on the number of threads.
//
// Code: header only. Tests: tests/device/parallel_test.cc.

#include <cstdint>

#if defined(_OPENMP)
#include <omp.h>
#endif

#include "device/stream.h"

namespace mt::cpu {

// f(block) for block in [0, blocks), in any order, on up to stream.threads() threads; returns when all ran.
// The launching thread polls the stream after each of its own blocks.
//   needs  f writes nothing another block reads, and throws nothing
template <class F>
void parallel_blocks(const Stream& stream, std::int64_t blocks, const F& f) {
#if defined(_OPENMP)
  if (stream.threads() > 1 && blocks > 1) {
#pragma omp parallel for schedule(dynamic, 1) num_threads(stream.threads())
    for (std::int64_t b = 0; b < blocks; ++b) {
      f(b);
      if (omp_get_thread_num() == 0) stream.poll();
    }
    return;
  }
#endif
  for (std::int64_t b = 0; b < blocks; ++b) {
    f(b);
    stream.poll();
  }
}

// f(begin, end) over [0, n) in blocks of `block` elements.
template <class F>
void parallel_ranges(const Stream& stream, std::int64_t n, std::int64_t block, const F& f) {
  parallel_blocks(stream, (n + block - 1) / block, [&](std::int64_t b) {
    const std::int64_t lo = b * block;
    f(lo, lo + block < n ? lo + block : n);
  });
}

}  // namespace mt::cpu
