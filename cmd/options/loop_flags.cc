#include "options/training_flags.h"

namespace mt::options {

// How long, in what portions, what is done about bad steps, and what is scored on the way.
void add_loop(OptionTable& t, TrainingOptions& o) {
  t.group("Batch and length");
  t.add("train-samples", o.train_samples, "N", "length of the run in samples, instead of train-iters", "samples")
      .at_least(0);
  t.add("rampup-batch-size", o.rampup_batch_size, "N", "START INCREMENT SAMPLES: the global batch grows to its size",
        "samples");
  t.add("step-batch-size-schedule", o.step_batch_sizes, "T:N", "the global batch is N samples from T tokens (K, M, B, T) on, "
        "as 0:32 1B:64").multiple = true;
  t.add("iterations-to-skip", o.iterations_to_skip, "N", "steps whose samples are read over", "steps").at_least(1);
  t.group("Optimizer");
  t.add("lr-decay-samples", o.lr.decay_samples, "N", "length of the decay, with train-samples; default that", "samples")
      .at_least(1);
  t.add("lr-wsd-decay-samples", o.lr.wsd_decay_samples, "N", "length of the last part of WSD", "samples").at_least(1);
  t.add("lr-warmup-samples", o.lr.warmup_samples, "N", "linear warm-up, with train-samples", "samples").at_least(0);
  t.add("mean-of-means-loss", o.mean_of_means_loss, "",
        "weigh micro-batches alike, whatever tokens they have, as Megatron does by default");
  t.add("check-for-nan-in-loss-and-grad", o.check_for_nan, "",
        "leave (status 40) at the first loss or gradient that is not finite");
  t.add("check-for-spiky-loss", o.check_for_spiky_loss, "", "tell of losses ten times those of the beginning");
  t.group("Validation");
  t.add("full-validation", o.full_validation, "", "score each validation set whole, not eval-iters batches");
  t.add("multiple-validation-sets", o.multiple_validation_sets, "",
        "every file of valid-data-path is a set with its own loss; needs full-validation");
  t.add("validation-set-names", o.validation_set_names, "NAME", "their names; default those of the files");
}

void add_telemetry(OptionTable& t, TrainingOptions& o) {
  t.group("Logging");
  t.add("timing-log-level", o.timers.log_level, "N", "after a log line, times of a step's phases (1), and its acts (2)")
      .between(0, 2);
  t.add("timing-log-option", o.timers.log_option, "HOW", "over ranks").choices = {"minmax", "max", "all"};
  t.add("log-straggler", o.timers.straggler, "", "after a log line, the slowest and the fastest rank's compute");
  t.add("trace", o.trace, "FILE", "a timeline of all ranks for Perfetto; mt-runs trace adds it up");
  t.add("tensorboard-dir", o.tensorboard_dir, "DIR", "curves for TensorBoard");
  t.add("tensorboard-log-interval", o.tensorboard_log_interval, "N", "a point every N steps", "steps").at_least(1);
}

}  // namespace mt::options
