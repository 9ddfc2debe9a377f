#include "train/save.h"

#include <filesystem>

#include "base/cli.h"
#include "base/log.h"
#include "base/files.h"
#include "ckpt/store.h"
#include "engine/checkpoint.h"
#include "engine/save_agreement.h"
#include "train/remembered_options.h"

namespace mt {

namespace {

CheckpointMeta meta_of(TrainingRun& run) {
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
  meta.training["data"] = run.training_files;
  if (run.fp8.spec().recipe == Fp8Spec::Recipe::delayed) meta.training["fp8_amax"] = run.fp8.state(run.stream);
  if (run.loss_scaler.dynamic()) meta.training["loss_scaler"] = run.loss_scaler.state();
  return meta;
}

// Where a save goes first. Only what is durable is kept by the retain rule; save_local keeps the newest.
SaveTarget first_target(const TrainingOptions& o) {
  const Codec codec = codec_of(o.ckpt_codec);
  return o.save_local.empty() ? SaveTarget{o.save, o.save_retain_interval, codec} : SaveTarget{o.save_local, 0, codec};
}

std::string path_of(const fs::path& root, std::int64_t iteration) { return (root / iteration_name(iteration)).string(); }

void report(TrainingRun& run, const DurableIteration& copied) {
  if (run.report) run.report->durable(path_of(run.options.save, copied.iteration), copied);
}

void report(TrainingRun& run, const SavedIteration& saved) {
  if (!run.report) return;
  run.report->checkpoint(path_of(first_target(run.options).root, saved.iteration), saved);
  const auto& w = saved.written;
  if (codec_of(run.options.ckpt_codec) != Codec::none && w.file_bytes > 0)
    log::info("packed to {:.1f} % of {} bytes, {:.2f} GB/s with the disk", 100.0 * static_cast<double>(w.file_bytes) /
              static_cast<double>(w.tensor_bytes), w.tensor_bytes, static_cast<double>(w.tensor_bytes) / w.seconds / 1e9);
}

// A save is complete: the copy of it begins. The one before has ended, or this save had not begun.
void hand_on(TrainingRun& run, const SavedIteration& saved) {
  report(run, saved);
  if (run.durable_copy) run.durable_copy->start(saved.iteration);
}

// The run starts from what was saved into `dir`.
bool comes_from(const Reader* reader, const std::string& dir) {
  std::error_code ec;
  return reader && fs::equivalent(reader->dir().parent_path(), dir, ec);
}

// Of a run that does not continue what lies in --save: the first iteration it can write there.
std::optional<std::int64_t> first_save(const TrainingOptions& o, const Reader* reader) {
  if (!reader || o.finetune) return o.train_iters > 0 ? 1 : 0;
  std::error_code ec;
  const auto save = std::filesystem::weakly_canonical(o.save, ec);
  // An iteration in --save may be a link to one that was moved elsewhere.
  const auto named = std::filesystem::absolute(reader->dir(), ec).lexically_normal().parent_path();
  if (std::filesystem::weakly_canonical(reader->dir(), ec).parent_path() == save) return std::nullopt;
  if (std::filesystem::weakly_canonical(named, ec) == save) return std::nullopt;
  return reader->manifest().meta.iteration + 1;
}

// Whose save_local it is: its checkpoints are on their way to one --save.
constexpr const char* kOwnerName = ".on_the_way_to";

void claim(const std::string& local, const std::string& save) {
  const auto file = fs::path(local) / kOwnerName;
  const auto mine = fs::weakly_canonical(fs::absolute(save)).string();
  if (!fs::exists(file)) return write_file_atomic(file, mine + "\n");
  const auto theirs = read_file(file);
  if (theirs != mine + "\n")
    throw Error(Code::config, "holds saves on their way to " + theirs.substr(0, theirs.find('\n')), local,
                "name another --save-local, or remove it");
}

// The same of save_local: a run that goes on from --save goes on with what was on its way there.
std::optional<std::int64_t> first_local_save(const TrainingOptions& o, const Reader* reader) {
  return comes_from(reader, o.save_local) ? std::nullopt : first_save(o, reader);
}

// What is refused of save_local is not helped by another --save.
template <class Ask>
void ask_of_local(const Ask& ask) {
  try {
    ask();
  } catch (const Error& e) {
    throw Error(e.code(), e.message(), e.where(), "name another --save-local, or remove it");
  }
}

void lock_local(TrainingRun& run, const Reader* reader) {
  const auto& o = run.options;
  ask_of_local([&] { run.local_lock.emplace(o.save_local, first_local_save(o, reader)); });
  claim(o.save_local, o.save);
}

}  // namespace

void lock_saves(TrainingRun& run, const Reader* reader) {
  const auto& o = run.options;
  if (o.save.empty()) return;
  if (run.speaks()) run.save_lock.emplace(o.save, first_save(o, reader));
  if (o.save_local.empty()) return;
  if (run.speaks()) lock_local(run, reader);
  run.world.barrier(run.stream).wait_host();
  if (any_rank(run.stream, run.world, !fs::exists(fs::path(o.save_local) / kOwnerName)))
    throw Error(Code::config, "is not one directory for all ranks", o.save_local,
                "name a --save-local that all ranks see, or save straight into --save");
}

void look_at_saves(const TrainingOptions& o, const Reader* reader) {
  if (!o.save.empty()) require_free(o.save, first_save(o, reader));
  if (!o.save_local.empty()) ask_of_local([&] { require_free(o.save_local, first_local_save(o, reader)); });
}

void prepare_saves(TrainingRun& run, const Reader* reader) {
  const auto& o = run.options;
  if (o.save.empty()) return;
  if (o.async_save)
    run.async_saver = std::make_unique<AsyncSaver>(first_target(o), TrainingState{run.stream, run.groups, *run.store, *run.optimizer});
  if (o.save_local.empty()) return;
  run.durable_copy = std::make_unique<DurableCopy>(
      o.save_local, SaveTarget{o.save, o.save_retain_interval}, run.stream, run.world);
  if (!comes_from(reader, o.save_local)) return;
  if (run.speaks()) log::info("iteration {} is not in {} yet: it is copied there", reader->manifest().meta.iteration, o.save);
  run.durable_copy->start(reader->manifest().meta.iteration);
}

void save_checkpoint(TrainingRun& run) {
  const bool saving = run.async_saver && run.async_saver->under_way();
  const bool copying = run.durable_copy && run.durable_copy->under_way();
  if (saving || copying) {
    if (run.speaks()) log::warn("the {} before is still under way: training waits for it", saving ? "save" : "copy of the save");
    finish_save(run);
  }
  run.phase("save");
  const TimedSpan span(run.timeline, Timeline::Kind::phase, "save-checkpoint");
  const auto meta = meta_of(run);
  run.saved_iteration = run.at.iteration;
  if (run.async_saver) return run.async_saver->start(meta);
  const auto start = Clock::now();
  const auto written = save_training(first_target(run.options), meta, {run.stream, run.groups, *run.store, *run.optimizer});
  hand_on(run, {meta.iteration, written, seconds_since(start), seconds_since(start)});
}

void follow_save(TrainingRun& run) {
  if (run.durable_copy)
    if (const auto copied = run.durable_copy->poll()) report(run, *copied);
  if (!run.async_saver) return;
  if (const auto done = run.async_saver->poll()) hand_on(run, *done);
}

void finish_save(TrainingRun& run) {
  const auto under_way = [](const auto& save) { return save && save->under_way(); };
  if (under_way(run.async_saver) || under_way(run.durable_copy)) run.phase("save");
  if (run.async_saver)
    if (const auto done = run.async_saver->finish()) hand_on(run, *done);
  if (run.durable_copy)
    if (const auto copied = run.durable_copy->finish()) report(run, *copied);
}

}  // namespace mt
