// Layer shapes of GPT-2 124M at 1024 tokens: our tiles beside oneDNN with its own threading, interleaved pairs.
//
//   bench_gemm [f32|bf16] [THREADS] [PAIRS]
// A row a shape: m n k transposes, GFLOP/s of ours and of oneDNN, median of the ratios.

#include <cstdio>
#include <cstdlib>

#include "bench/limits.h"
#include "ops/gemm.h"
#include "ops/gemm_cases.h"

int main(int argc, char** argv) {
  using namespace mt;
  using namespace mt::bench;
  const DType t = argc > 1 && std::string(argv[1]) == "f32" ? DType::f32 : DType::bf16;
  const int threads = argc > 2 ? std::atoi(argv[2]) : usable_cores(), pairs = argc > 3 ? std::atoi(argv[3]) : 10;
  omp_set_num_threads(threads);
  Stream stream({}, threads);
  std::printf("pass\tm\tn\tk\tours_gflops\tonednn_gflops\tratio\n");
  const test::I tokens = 1024;
  for (auto [n, k] : {std::pair<test::I, test::I>{2304, 768}, {768, 768}, {3072, 768}, {768, 3072}, {50304, 768}})
    for (int pass = 0; pass < 3; ++pass) {
      const test::GemmShape s = pass == 0   ? test::GemmShape{0, tokens, n, k, t, t, false, true, false, false}
                                : pass == 1 ? test::GemmShape{0, tokens, k, n, t, t, false, false, false, false}
                                            : test::GemmShape{0, n, k, tokens, t, DType::f32, true, false, true, false};
      test::Prepared ours = test::gemm_case(s, false).prepare();
      NativeGemm native(s.m, s.n, s.k, s.in, s.out, s.ta, s.tb, s.accumulate);
      ours.run(stream);
      native.run();
      std::vector<double> a, b, ratio;
      for (int i = 0; i < pairs; ++i) {
        a.push_back(time_once([&] { ours.run(stream); }));
        b.push_back(time_once([&] { native.run(); }));
        ratio.push_back(b.back() / a.back());
      }
      for (auto* v : {&a, &b, &ratio}) std::sort(v->begin(), v->end());
      const std::size_t middle = a.size() / 2;
      std::printf("%s\t%ld\t%ld\t%ld\t%.0f\t%.0f\t%.3f\n",
                  pass == 0   ? "forward"
                  : pass == 1 ? "dx"
                              : "dw",
                  s.m, s.n, s.k, ours.cost.flop / a[middle] / 1e9, ours.cost.flop / b[middle] / 1e9, ratio[middle]);
      std::fflush(stdout);
    }
  return 0;
}
