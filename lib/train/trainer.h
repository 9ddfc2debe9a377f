#pragma once
// The training loop of one rank: build, load, step, validate, save, resume.
//
// Collective over `world`: every rank calls train() with equal options. Rank 0 talks (train/run_record.h).
// A step: fetch this rank's micro-batches, all-reduce the unmasked count, run the lane with every gradient scaled by
// 1/count, update; so loss and gradients are those of the whole batch in every layout. Learning rate follows samples of
// successful steps, as in Megatron. Signals TERM and INT on any rank end all ranks at the same step.
// The loop is train/trainer.cc; a step train/train_step.h, the start train/training_run.h and train/resume.h, the rest
// train/save.h and train/evaluate.h. Tests: tests/train/.

#include <functional>

#include "comm/communicator.h"
#include "engine/executor.h"
#include "optim/lr_schedule.h"
#include "train/training_options.h"

namespace mt {

// Places where tests and tracing look in; all may be empty.
struct TrainerHooks {
  std::function<void(std::vector<ParamSpec>&)> on_specs;  // a test plants a wrong table
  std::function<void(const char* phase, std::int64_t iteration)> on_phase;  // "forward-backward", "optimizer", "save", …
  std::function<void(std::int64_t iteration, const std::vector<HostBatch>&)> on_batches;  // this rank's
  std::function<void(std::int64_t iteration, ParameterStore&)> after_backward;  // gradients are final
  std::function<void(std::int64_t iteration, double loss, double grad_norm)> after_step;
};

// Fill in what follows from other options (global batch, dp from the world, sequence parallel without tp) and refuse
// what does not fit, with every problem listed. world 0: the degrees say how many ranks.
// A rehearsal may ask for what is laid out and not trainable yet (context parallelism, experts).
//   fails  Error{config}; Error{usage} for names that do not exist
enum class Purpose { train, rehearse };
TrainingOptions complete_options(TrainingOptions options, int world, Purpose purpose = Purpose::train);
// The model: the checkpoint's with use_checkpoint_args, else from the options.   fails  as resolve() and read_manifest()
ModelSpec model_of(const TrainingOptions& options);
// True when the run starts from nothing: no `load`, or load_if_present and no checkpoint there yet.
bool nothing_to_load(const TrainingOptions& options);
LrSchedule lr_schedule_of(const TrainingOptions& options);

// Run to the end.
//   gives  exit status: 0, or Code::signal_saved, time_limit, non_finite_limit
//   fails  Error: options, data, checkpoint or communication
int train(Communicator& world, const TrainingOptions& options, const TrainerHooks& hooks = {});

}  // namespace mt
