#include "train/save.h"

#include <filesystem>

#include "base/cli.h"
#include "base/log.h"
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
                {"compute_dtype", std::string(dtype_name(run.compute()))},
                {"optimizer", state_name(o.state())}};
  meta.training = {{"seed", o.seed},
                   {"optimizer_steps", run.optimizer->num_steps()},
                   {"schedule_samples", run.at.schedule_samples},
                   {"consumed_valid_samples", run.at.consumed_valid_samples},
                   {"skipped_steps", run.at.skipped},
                   {"skipped_samples", run.at.skipped_samples},
                   {"largest_early_loss", run.at.largest_early_loss},
                   {"early_losses", run.at.early_losses},
                   {"lr_schedule", to_json(run.lr)},
                   {"seq_length", o.batch.seq_length},
                   {"global_batch_size", o.batch.global_batch},
                   {"options", remembered_options(o)}};
  if (run.fp8.spec().recipe == Fp8Spec::Recipe::delayed) meta.training["fp8_amax"] = run.fp8.state();
  if (run.loss_scaler.dynamic()) meta.training["loss_scaler"] = run.loss_scaler.state();
  return meta;
}

void report(TrainingRun& run, const SavedIteration& saved) {
  if (!run.report) return;
  const auto path = std::filesystem::path(run.options.save) / iteration_name(saved.iteration);
  run.report->checkpoint(path.string(), saved);
  const auto& w = saved.written;
  if (codec_of(run.options.ckpt_codec) != Codec::none && w.file_bytes > 0)
    log::info("packed to {:.1f} % of {} bytes, {:.2f} GB/s with the disk", 100.0 * static_cast<double>(w.file_bytes) /
              static_cast<double>(w.tensor_bytes), w.tensor_bytes, static_cast<double>(w.tensor_bytes) / w.seconds / 1e9);
}

}  // namespace

void save_checkpoint(TrainingRun& run) {
  if (run.async_saver && run.async_saver->under_way()) {
    if (run.speaks()) log::warn("the save before is still under way: training waits for it");
    finish_save(run);
  }
  run.phase("save");
  const TimedSpan span(run.timeline, Timeline::Kind::phase, "save-checkpoint");
  const auto meta = meta_of(run);
  run.saved_iteration = run.at.iteration;
  if (run.async_saver) return run.async_saver->start(meta);
  const auto start = Clock::now();
  const auto written = save_training({run.options.save, run.options.save_retain_interval, codec_of(run.options.ckpt_codec)}, meta,
                                     {run.stream, run.groups, *run.store, *run.optimizer});
  report(run, {meta.iteration, written, seconds_since(start), seconds_since(start)});
}

void follow_save(TrainingRun& run) {
  if (!run.async_saver) return;
  if (const auto saved = run.async_saver->poll()) report(run, *saved);
}

void finish_save(TrainingRun& run) {
  if (!run.async_saver) return;
  if (run.async_saver->under_way()) run.phase("save");
  if (const auto saved = run.async_saver->finish()) report(run, *saved);
}

}  // namespace mt
