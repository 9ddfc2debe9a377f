// How long an asynchronous save keeps training, beside memcpy of the same bytes, interleaved pairs, medians.
//
//   bench_async_save DIRECTORY [LAYERS] [PAIRS] [THREADS]
//
// One rank, GPT-2's width and vocabulary in bf16 with f32 master weights and moments, its files on the disk of DIRECTORY.
// stall   AsyncSaver::start: directory, copy into the snapshot, thread; against one memcpy of as many bytes between
//         memory that was touched before
// durable from start() to a tracked checkpoint, against save_training() of the same state

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "bench/timing.h"
#include "ckpt/iterations.h"
#include "comm/world.h"
#include "engine/async_save.h"

namespace {

using namespace mt;
using test::median;
using test::seconds;

ModelSpec gpt2_width(int layers) {
  ModelOptions o;
  o.num_layers = layers;
  o.hidden_size = 768;
  o.num_attention_heads = 12;
  o.max_position_embeddings = 1024;
  return build_model(o, 50257);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return std::fprintf(stderr, "usage: bench_async_save DIRECTORY [LAYERS] [PAIRS] [THREADS]\n"), 2;
  const auto root = std::filesystem::path(argv[1]) / "bench_async_save.tmp";
  const ModelSpec model = gpt2_width(argc > 2 ? std::atoi(argv[2]) : 4);
  const int pairs = argc > 3 ? std::atoi(argv[3]) : 10, threads = argc > 4 ? std::atoi(argv[4]) : 1;
  const auto world = comm::solo_world();
  Stream stream({}, threads);
  const Groups groups = make_groups(*world, place(ParallelSpec{}), kv_heads_of(model));
  ParameterStore store(param_specs(model, {}, {}), DType::bf16, {}, ParameterStore::Gradients::absent);
  Optimizer optimizer(store, {}, {});
  optimizer.initialize(stream, groups, 1234);
  const TrainingState state{stream, groups, store, optimizer};
  AsyncSaver saver({root}, state);

  const std::uint64_t bytes = bytes_to_write(model, {}, {}, DType::bf16);
  Buffer from({}, bytes), to({}, bytes);
  std::memset(from.data(), 1, bytes);
  std::memset(to.data(), 2, bytes);
  CheckpointMeta meta;
  std::vector<double> stall, copy, durable, waited;
  for (int i = 0; i <= pairs; ++i) {
    meta.iteration = i;
    const double t_stall = seconds([&] { saver.start(meta); });
    const auto saved = saver.finish();
    std::filesystem::remove_all(root);
    const double t_copy = seconds([&] { std::memcpy(to.data(), from.data(), bytes); });
    const double t_waited = seconds([&] { save_training({root}, meta, state); });
    std::filesystem::remove_all(root);
    if (i == 0) continue;  // warms up
    stall.push_back(t_stall), copy.push_back(t_copy), durable.push_back(saved->seconds), waited.push_back(t_waited);
  }
  std::printf("what\tours_ms\tpeer_ms\tratio\tMiB\n");
  const auto row = [&](const char* name, const std::vector<double>& ours, const std::vector<double>& peer) {
    std::printf("%s\t%.1f\t%.1f\t%.2f\t%.0f\n", name, median(ours) * 1e3, median(peer) * 1e3, median(ours) / median(peer),
                static_cast<double>(bytes) / (1 << 20));
  };
  row("stall", stall, copy);
  row("durable", durable, waited);
  return 0;
}
