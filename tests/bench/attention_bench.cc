// Attention at growing lengths beside the f32 matrix-product peak of the machine (its maths is f32 for every dtype).
//
//   bench_attention [f32|bf16] [THREADS]
// A row a shape: pass, sequences, tokens, heads, groups, dim, causal, milliseconds, GFLOP/s (unmasked pairs only),
// share of peak.

#include <cstdio>
#include <cstdlib>

#include "bench/limits.h"
#include "ops/attention_cases.h"

int main(int argc, char** argv) {
  using namespace mt;
  using namespace mt::bench;
  const DType t = argc > 1 && std::string(argv[1]) == "f32" ? DType::f32 : DType::bf16;
  const int threads = argc > 2 ? std::atoi(argv[2]) : usable_cores();
  omp_set_num_threads(threads);
  Stream stream({}, threads);
  const double peak = gemm_peak(DType::f32);
  std::printf("pass\tsequences\ttokens\theads\tgroups\tdim\tcausal\tms\tgflops\tshare_of_f32_peak\n");
  struct Row {
    test::I sequences, tokens, heads, groups, dim;
    bool causal;
  };
  for (const Row& r : {Row{4, 256, 12, 12, 64, true}, Row{1, 1024, 12, 12, 64, true}, Row{1, 4096, 4, 4, 64, true},
                       Row{1, 1024, 8, 2, 128, true}, Row{2, 512, 8, 8, 64, false}})
    for (bool backward : {false, true}) {
      const std::vector<test::I> lengths(test::z(r.sequences), r.tokens);
      test::Prepared p =
          test::attention_case({lengths, lengths, r.heads, r.groups, r.dim, t, r.causal}, backward, false).prepare();
      const double s = median_s(7, [&] { p.run(stream); });
      std::printf("%s\t%ld\t%ld\t%ld\t%ld\t%ld\t%d\t%.3f\t%.0f\t%.2f\n", backward ? "backward" : "forward", r.sequences,
                  r.tokens, r.heads, r.groups, r.dim, r.causal, s * 1e3, p.cost.flop / s / 1e9, p.cost.flop / s / peak);
      std::fflush(stdout);
    }
  return 0;
}
