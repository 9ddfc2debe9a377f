#include "train/save.h"

#include <filesystem>

#include "base/cli.h"
#include "ckpt/store.h"
#include "engine/checkpoint.h"
#include "train/remembered_options.h"

namespace mt {

namespace {

CheckpointMeta meta_of(const TrainingRun& run) {
  const auto& o = run.options;
  CheckpointMeta meta;
  meta.iteration = run.at.iteration;
  meta.consumed_samples = run.at.consumed_samples;
  meta.world_size = run.world.size();
  meta.version = cli::version();
  meta.tokenizer = run.data.tokenizer_fingerprint;
  meta.specs = {{"model", to_json(run.model)},
                {"parallel", to_json(o.parallel)},
                {"compute_dtype", std::string(dtype_name(run.compute()))}};
  meta.training = {{"seed", o.seed},
                   {"optimizer_steps", run.optimizer->num_steps()},
                   {"schedule_samples", run.at.schedule_samples},
                   {"consumed_valid_samples", run.at.consumed_valid_samples},
                   {"skipped_steps", run.at.skipped},
                   {"lr_schedule", to_json(run.lr)},
                   {"seq_length", o.batch.seq_length},
                   {"global_batch_size", o.batch.global_batch},
                   {"options", remembered_options(o)}};
  return meta;
}

}  // namespace

void save_checkpoint(TrainingRun& run) {
  run.phase("save");
  const auto start = Clock::now();
  const std::uint64_t bytes =
      save_training({run.options.save, run.options.save_retain_interval}, meta_of(run),
                    {run.stream, run.groups, *run.store, *run.optimizer});
  run.saved_iteration = run.at.iteration;
  if (!run.report) return;
  const auto path = std::filesystem::path(run.options.save) / iteration_name(run.at.iteration);
  run.report->checkpoint(run.at.iteration, path.string(), bytes, seconds_since(start));
}

}  // namespace mt
