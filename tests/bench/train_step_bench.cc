// A whole training step of the GPT-2 124M shape, micro-batch 4 × 256 tokens, one rank, all cores.
//
//   bench_train_step [f32|bf16] [THREADS] [STEPS]
// Prints model FLOP/s (causal reading) over the oneDNN GEMM peak (2048³, same dtype, same process, oneDNN's own
// threads), as the median of pairs measured in turn; the spread; and peak memory beside what plan/memory.h said before.
// The classes of the step beside their own limits: bench_ops.

#include <cstdio>
#include <cstdlib>

#include "bench/limits.h"
#include "bench/timing.h"
#include "comm/world.h"
#include "engine/executor.h"
#include "layout/flops.h"
#include "optim/optimizer.h"
#include "plan/memory.h"

namespace {

using namespace mt;
using test::median;

HostBatch made_up_batch(const BatchSpec& spec, std::int64_t vocab) {
  HostBatch b;
  b.cu_seqlens.push_back(0);
  for (int s = 0; s < spec.micro_batch; ++s) {
    for (int t = 0; t < spec.seq_length; ++t) {
      b.ids.push_back(static_cast<std::int32_t>((s * 7919 + t * 104729) % vocab));
      b.labels.push_back(static_cast<std::int32_t>((s * 6101 + t * 1299709) % vocab));
      b.mask.push_back(1);
      b.ordinals.push_back(s);
      b.positions.push_back(t);
    }
    b.cu_seqlens.push_back((s + 1) * spec.seq_length);
  }
  return b;
}

ModelSpec gpt2_124m() {
  ModelOptions o;
  o.num_layers = 12;
  o.hidden_size = 768;
  o.num_attention_heads = 12;
  o.max_position_embeddings = 1024;
  o.attention_dropout = o.hidden_dropout = 0;
  return build_model(o, 50257);
}

}  // namespace

int main(int argc, char** argv) {
  const DType dtype = argc > 1 && std::string(argv[1]) == "f32" ? DType::f32 : DType::bf16;
  const int threads = argc > 2 ? std::atoi(argv[2]) : usable_cores();
  const int steps = argc > 3 ? std::atoi(argv[3]) : 10;
  omp_set_num_threads(threads);
  const ModelSpec spec = gpt2_124m();
  const BatchSpec batch{256, 4, 4};
  const ParallelSpec parallel;
  const MemoryPlan plan = plan_memory(spec, parallel, batch, {}, dtype, one_f_one_b(1, 1).lanes[0]);
  const auto world = comm::solo_world();
  const Groups groups = make_groups(*world, place(parallel), kv_heads_of(spec));
  Stream stream({}, threads);
  reset_peak_buffer_bytes();
  ParameterStore store(param_specs(spec, parallel, {}), dtype, {});
  Optimizer optimizer(store, {}, {});
  const Model model(spec, batch, groups, store, 0, {});
  Executor executor(ExecutorParts{stream, groups, store, 1234, plan.arenas,
                                  static_cast<std::size_t>(plan.scratch_bytes)},
                    model, batch, {});
  optimizer.initialize(stream, groups, 1234);
  const std::vector<HostBatch> batches{made_up_batch(batch, spec.vocab_size)};
  const Lane lane = one_f_one_b(1, 1).lanes[0];
  const auto step = [&] {
    store.zero_grads(stream);
    executor.run_lane(lane, batches, 1.0 / static_cast<double>(batch.tokens_per_micro_batch()), {});
    optimizer.step(stream, groups, 1e-4, 0.01);
    stream.synchronize();
  };
  step();
  const double peak_bytes = static_cast<double>(peak_buffer_bytes());
  bench::NativeGemm gemm(2048, 2048, 2048, dtype, dtype, false, false);
  gemm.run();
  const double flop = step_flops(spec, parallel, batch).causal, gemm_flop = 2.0 * 2048 * 2048 * 2048;
  std::vector<double> step_s, gemm_s, share;
  for (int i = 0; i < steps; ++i) {
    gemm_s.push_back(std::min(bench::time_once([&] { gemm.run(); }), bench::time_once([&] { gemm.run(); })));
    step_s.push_back(bench::time_once(step));
    share.push_back(flop / step_s.back() / (gemm_flop / gemm_s.back()));
  }
  std::printf("dtype\tthreads\tsteps\tstep_ms\tmodel_gflops\tgemm_peak_gflops\tshare\tshare_min\tshare_max\n");
  std::printf("%s\t%d\t%d\t%.0f\t%.1f\t%.1f\t%.3f\t%.3f\t%.3f\n", std::string(dtype_name(dtype)).c_str(), threads, steps,
              median(step_s) * 1e3, flop / median(step_s) * 1e-9, gemm_flop / median(gemm_s) * 1e-9, median(share),
              *std::min_element(share.begin(), share.end()), *std::max_element(share.begin(), share.end()));
  std::printf("peak_mib\tplanned_mib\tratio\n%.1f\t%.1f\t%.4f\n", peak_bytes / (1 << 20),
              static_cast<double>(plan.total()) / (1 << 20), peak_bytes / static_cast<double>(plan.total()));
  return 0;
}
