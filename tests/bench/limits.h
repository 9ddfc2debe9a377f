#pragma once
// What this machine can do at most, measured: a matrix product by oneDNN with its own threading, and a memory copy.

#include <algorithm>
#include <cstring>
#include <ctime>
#include <unordered_map>
#include <vector>

#include <omp.h>

#include <dnnl.hpp>

#include "device/cpu/parallel.h"
#include "ops/op_case.h"

namespace mt::bench {

// Wall clock; with one thread its processor time, so that neighbours on a busy machine count less.
inline double now_s() {
  timespec t{};
  ::clock_gettime(omp_get_max_threads() == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

template <class F>
double time_once(const F& f) {
  const double start = now_s();
  f();
  return now_s() - start;
}

// Median of `repeats`, after one call to warm up.
template <class F>
double median_s(int repeats, const F& f) {
  f();
  std::vector<double> t;
  for (int i = 0; i < repeats; ++i) t.push_back(time_once(f));
  std::sort(t.begin(), t.end());
  return t[t.size() / 2];
}

// C[m, n] = op(A)·op(B) by oneDNN with shapes known to it, C of dtype `out`.
class NativeGemm {
 public:
  NativeGemm(std::int64_t m, std::int64_t n, std::int64_t k, DType in, DType out, bool ta, bool tb,
             bool accumulate = false) {
    using D = dnnl::memory::desc;
    using T = dnnl::memory::data_type;
    const auto type = [](DType d) { return d == DType::bf16 ? T::bf16 : T::f32; };
    const D a({m, k}, type(in), ta ? dnnl::memory::dims{1, m} : dnnl::memory::dims{k, 1});
    const D b({k, n}, type(in), tb ? dnnl::memory::dims{1, k} : dnnl::memory::dims{n, 1});
    const D c({m, n}, type(out), dnnl::memory::dims{n, 1});
    dnnl::primitive_attr attr;
    if (accumulate) {
      dnnl::post_ops ops;
      ops.append_sum(1.0f);
      attr.set_post_ops(ops);
    }
#if DNNL_VERSION_MAJOR >= 3
    primitive_ = dnnl::matmul(dnnl::matmul::primitive_desc(engine_, a, b, c, attr));
#else
    primitive_ = dnnl::matmul(dnnl::matmul::primitive_desc(dnnl::matmul::desc(a, b, c), attr, engine_));
#endif
    const View va = data_.normal(in, {m, k}), vb = data_.normal(in, {k, n}), vc = data_.zeros(out, {m, n});
    args_ = {{DNNL_ARG_SRC, dnnl::memory(a, engine_, va.data)},
             {DNNL_ARG_WEIGHTS, dnnl::memory(b, engine_, vb.data)},
             {DNNL_ARG_DST, dnnl::memory(c, engine_, vc.data)}};
  }
  void run() {
    primitive_.execute(stream_, args_);
    stream_.wait();
  }

 private:
  test::Data data_;
  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  dnnl::matmul primitive_;
  std::unordered_map<int, dnnl::memory> args_;
};

// flop/s of 2048³.
inline double gemm_peak(DType dtype) {
  NativeGemm g(2048, 2048, 2048, dtype, dtype, false, false);
  return 2.0 * 2048 * 2048 * 2048 / median_s(5, [&] { g.run(); });
}

// bytes/s read plus written, 128 MiB to 128 MiB, by all threads.
inline double copy_bandwidth(const Stream& stream) {
  const std::size_t n = std::size_t{128} << 20;
  const Buffer from({}, n), to({}, n);
  return 2.0 * static_cast<double>(n) / median_s(5, [&] {
           cpu::parallel_ranges(stream, static_cast<std::int64_t>(n), 1 << 20, [&](std::int64_t lo, std::int64_t hi) {
             std::memcpy(to.data() + lo, from.data() + lo, static_cast<std::size_t>(hi - lo));
           });
         });
}

}  // namespace mt::bench
