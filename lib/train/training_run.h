#pragma once
// What one rank holds while it trains, and where the run stands. Private to train: the loop, the step, saving, resuming
// and validating are functions over it, a file each.
//
// Code: train/training_run.cc. Tests: through tests/train/.

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "ckpt/save_lock.h"
#include "engine/async_save.h"
#include "engine/durable_copy.h"
#include "engine/executor.h"
#include "layout/flops.h"
#include "optim/optimizer.h"
#include "plan/memory.h"
#include "train/run_data.h"
#include "train/run_record.h"
#include "train/source_loss.h"
#include "train/timeline.h"
#include "train/trainer.h"

namespace mt {

class Reader;

// Ranks started with different options would train different things and call it one run.
//   fails  Error{comm}: they were. Collective
void require_same_options(const TrainingOptions& options, Communicator& world);

// Where a run stands; all of it is in a checkpoint.
struct Position {
  std::int64_t iteration = 0, consumed_samples = 0, consumed_valid_samples = 0;
  std::int64_t schedule_samples = 0;  // samples of successful steps: the clock of the learning rate
  std::int64_t skipped = 0, skipped_in_a_row = 0;
  std::int64_t skipped_samples = 0;  // read over by --iterations-to-skip
  double largest_early_loss = 0;     // of the first kEarlyLosses steps: what a spike is measured by
  std::int64_t early_losses = 0;
};

struct TrainingRun {
  // Build everything and load what is to be loaded. Collective over `world`.
  //   fails  Error, on every rank, before memory for tensors is taken where the options or the checkpoint are wrong
  TrainingRun(Communicator& world, TrainingOptions options, const TrainerHooks& hooks);

  DType compute() const { return options.compute(); }
  // This rank's lane for a global batch of one of the batch schedule's sizes.
  const Lane& lane(int global_batch) const;
  bool speaks() const { return world.rank() == 0; }
  void phase(const char* name) const {
    if (hooks.on_phase) hooks.on_phase(name, at.iteration);
  }

  Communicator& world;
  TrainingOptions options;
  const TrainerHooks& hooks;
  Clock::time_point started = Clock::now();
  Device device;
  Stream stream;
  Groups groups;
  ModelSpec model;
  LrSchedule lr;
  RunData data;
  Json training_files = Json::array();  // as train/remembered_data.h has them; on rank 0, where the run saves or goes on
  std::unique_ptr<ParameterStore> store;
  std::unique_ptr<Optimizer> optimizer;
  LossScaler loss_scaler;
  Fp8State fp8;
  std::vector<std::unique_ptr<Model>> chunks;
  std::unique_ptr<Executor> executor;
  std::map<int, Lane> lanes;  // by number of micro-batches
  std::optional<SourceLosses> source_losses;  // of a blend; nothing where acts are waits
  std::unique_ptr<RunReporter> report;  // rank 0 alone
  std::optional<SaveLock> save_lock, local_lock;  // rank 0 alone
  // After the locks, so that they end their writing before.
  std::unique_ptr<AsyncSaver> async_saver;    // with async_save
  std::unique_ptr<DurableCopy> durable_copy;  // with save_local
  Position at;
  std::int64_t saved_iteration = -1;
  double peak_flop_per_s = 0;
  StepFlops step_flop;           // of a whole batch
  Timeline* timeline = nullptr;  // where time is noted; null: nowhere

 private:
  void build(const std::vector<ParamSpec>& specs, const MemoryPlan& plan, int gradient_buffers);
  int make_lanes(int pp_rank);  // gives the gradient buffers they need
};

}  // namespace mt
