// Where the host waits for the device in a step: so often whatever the model and the batch are.

#include <map>
#include <string>

#include "comm/device_world.h"
#include "device/backend.h"
#include "train/tiny_run.h"
#include "train/train_step.h"
#include "train/training_run.h"

namespace mt::emulation {
// Of the emulated device, where it is linked: tests/cuda_emulation/emulation.h.
__attribute__((weak)) std::map<std::string, int> take_host_waits();
}  // namespace mt::emulation

namespace mt {
namespace {

using Waits = std::map<std::string, int>;

// Of one step of rank 0 over NCCL, after two others.
Waits waits_of_a_step(TrainingOptions o, int ranks) {
  Waits waits;
  const auto complete = complete_options(o, ranks);
  CommOptions limit;
  limit.timeout_s = 60;
  comm::run_local_ranks(ranks, limit, [&](std::unique_ptr<Communicator> host) {
    const auto world = comm::device_world(*host, test::rank_device(*host), {});
    const TrainerHooks hooks;
    TrainingRun run(*world, complete, hooks);
    for (int i = 0; i < 2; ++i) train_step(run);
    emulation::take_host_waits();
    train_step(run);
    Waits mine = emulation::take_host_waits();
    // The emulation gives pinned memory back at once, to see who still touches it; a device's stays with the backend.
    mine.erase("cudaHostAlloc");
    mine.erase("cudaFreeHost");
    run.store->await_gathers(run.stream);
    if (host->rank() == 0) waits = mine;
  });
  return waits;
}

TEST(OnTheDeviceWaits, AStepWaitsWhereTheHostNeedsANumberHoweverManyLayersAndMicroBatchesThereAre) {
  if (test::on_cpu() || !cuda_backend().emulated) GTEST_SKIP() << "counted by the emulation";
  const struct { const char* name; int tp, pp, dp; bool graphs; } layouts[] = {
      {"dp 2", 1, 1, 2, false}, {"tp 2", 2, 1, 1, false}, {"pp 2", 1, 2, 1, false}, {"tp 2, graphs", 2, 1, 1, true}};
  for (const auto& l : layouts) {
    Waits of[2];
    for (const int times : {1, 2}) {
      const test::TempDir dir;
      auto o = test::tiny_options(dir);
      o.model.num_layers = 2 * times;
      o.parallel.tp = l.tp;
      o.parallel.pp = l.pp;
      o.parallel.sequence_parallel = l.tp > 1;
      o.batch = {8, 1, 2 * times * l.dp};
      o.train_iters = 3;
      if (l.dp > 1) o.sharding_strategy = "optim", o.overlap = {true, true};
      if (l.graphs) o.cuda_graph_impl = "local", o.cuda_graph_warmup_steps = 1;
      of[times - 1] = waits_of_a_step(o, l.tp * l.pp * l.dp);
    }
    EXPECT_EQ(of[0], of[1]) << l.name;
    // The losses, the norm, and the end of the step; before numbers of the host are summed over a group, whose messages
    // go behind what the device does: the count of tokens, and the loss over dp and over the pipeline. The update's
    // scalars are a few bytes, which a device takes at the call.
    const Waits wanted{{"cudaStreamSynchronize", 3},
                       {"cudaEventSynchronize", l.dp > 1 ? 2 : l.pp > 1 ? 1 : 0},
                       {"cudaMemcpyAsync of ordinary memory", 1}};
    Waits there = wanted;
    std::erase_if(there, [](const auto& w) { return w.second == 0; });
    EXPECT_EQ(of[1], there) << l.name;
  }
}

}  // namespace
}  // namespace mt
