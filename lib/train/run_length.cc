#include "train/run_length.h"

#include <algorithm>

#include "train/trainer.h"

namespace mt {

namespace {

using Problems = std::vector<Problem>;

void check_sizes(const TrainingOptions& o, const char* flag, Problems& problems) {
  const std::int64_t unit = std::int64_t{std::max(1, o.batch.micro_batch)} * std::max(1, o.parallel.dp);
  for (int size : o.batch_schedule.sizes()) {
    if (size % unit == 0) continue;
    problems.push_back({fmt::format("{} passes {}, not divisible by micro-batch-size·data-parallel-size {}", flag, size, unit),
                        fmt::format("sizes in multiples of {}", unit)});
    return;
  }
}

void fill_step_schedule(TrainingOptions& o, Problems& problems) {
  const auto add = [&](std::string what, std::string near) { problems.push_back({std::move(what), std::move(near)}); };
  if (o.global_batch_given) add("step-batch-size-schedule and global-batch-size exclude each other", "one of them");
  if (!o.rampup_batch_size.empty()) add("step-batch-size-schedule and rampup-batch-size exclude each other", "one of them");
  const auto steps = BatchSchedule::read_steps(o.step_batch_sizes, std::max(1, o.batch.seq_length));
  if (!steps.problem.empty()) return add(steps.problem, "--step-batch-size-schedule '0:32 1B:64'");
  o.batch_schedule = BatchSchedule::of_steps(steps);
  check_sizes(o, "step-batch-size-schedule", problems);
}

void fill_batch_schedule(TrainingOptions& o, Problems& problems) {
  o.batch_schedule = BatchSchedule(std::max(1, o.batch.global_batch));
  if (!o.step_batch_sizes.empty()) return fill_step_schedule(o, problems);
  if (o.rampup_batch_size.empty()) return;
  if (const auto text = BatchSchedule::ramp_up_problem(o.rampup_batch_size, o.batch.global_batch); !text.empty()) {
    // One increment from half the batch, or from the whole of an odd one.
    const int full = std::max(1, o.batch.global_batch), half = full % 2 == 0 ? full / 2 : full;
    problems.push_back({text, fmt::format("--rampup-batch-size {} {} 1000000", half, half)});
    return;
  }
  o.batch_schedule = BatchSchedule::ramp_up(o.rampup_batch_size, o.batch.global_batch);
  check_sizes(o, "rampup-batch-size", problems);
}

// Lengths in steps are counted in samples.
void check_countable(const TrainingOptions& o, Problems& problems) {
  const std::int64_t most = BatchSchedule::kMostSamples / std::max(1, o.batch.global_batch);
  for (const auto& [name, steps] : std::initializer_list<std::pair<const char*, std::int64_t>>{
           {"train-iters", o.train_iters}, {"eval-iters", o.eval_iters}, {"lr-warmup-iters", o.lr.warmup_iters},
           {"lr-decay-iters", o.lr.decay_iters.value_or(0)}, {"lr-wsd-decay-iters", o.lr.wsd_decay_iters.value_or(0)}})
    if (steps > most)
      problems.push_back({fmt::format("{} {} of global-batch-size {} are more than {} samples", name, steps,
                                      o.batch.global_batch, BatchSchedule::kMostSamples),
                          fmt::format("--{} {}", name, most)});
  for (const auto& [name, samples] : std::initializer_list<std::pair<const char*, std::int64_t>>{
           {"train-samples", o.train_samples.value_or(0)}, {"lr-warmup-samples", o.lr.warmup_samples},
           {"lr-decay-samples", o.lr.decay_samples.value_or(0)},
           {"lr-wsd-decay-samples", o.lr.wsd_decay_samples.value_or(0)}})
    if (samples > BatchSchedule::kMostSamples)
      problems.push_back({fmt::format("{} {} is more than {}", name, samples, BatchSchedule::kMostSamples),
                          fmt::format("--{} {}", name, BatchSchedule::kMostSamples)});
}

// In steps or in samples, not both; as in Megatron.
void check_units(const TrainingOptions& o, Problems& problems) {
  const auto add = [&](std::string what, std::string near) { problems.push_back({std::move(what), std::move(near)}); };
  if (o.train_samples && o.train_iters >= 0) add("train-iters and train-samples exclude each other", "one of them");
  if (!o.train_samples && o.train_iters < 0) add("train-iters is not given", "--train-iters 100, or --train-samples");
  const std::pair<const char*, bool> by_iters[] = {{"lr-decay-iters", o.lr.decay_iters.has_value()},
                                                   {"lr-wsd-decay-iters", o.lr.wsd_decay_iters.has_value()},
                                                   {"lr-warmup-iters", o.lr.warmup_iters > 0}};
  const std::pair<const char*, bool> by_samples[] = {{"lr-decay-samples", o.lr.decay_samples.has_value()},
                                                     {"lr-wsd-decay-samples", o.lr.wsd_decay_samples.has_value()},
                                                     {"lr-warmup-samples", o.lr.warmup_samples > 0}};
  for (int i = 0; i < 3; ++i) {
    if (o.train_samples && by_iters[i].second)
      add(fmt::format("{} with train-samples", by_iters[i].first), fmt::format("--{}", by_samples[i].first));
    if (!o.train_samples && by_samples[i].second)
      add(fmt::format("{} with train-iters", by_samples[i].first), fmt::format("--{}", by_iters[i].first));
  }
}

void check_curve(const TrainingOptions& o, Problems& problems) {
  const auto add = [&](std::string what, std::string near) { problems.push_back({std::move(what), std::move(near)}); };
  const bool samples = o.train_samples.has_value();
  const char* unit = samples ? "samples" : "iters";
  if (o.lr.decay_style == "WSD" && !o.lr.wsd_decay_iters && !o.lr.wsd_decay_samples)
    add(fmt::format("lr-decay-style WSD needs lr-wsd-decay-{}", unit),
        fmt::format("--lr-wsd-decay-{} 1, or --lr-decay-style constant", unit));
  const std::int64_t decay = samples ? o.lr.decay_samples.value_or(*o.train_samples) : o.lr.decay_iters.value_or(o.train_iters);
  const std::int64_t warm = samples ? o.lr.warmup_samples : o.lr.warmup_iters;
  const std::int64_t last = (samples ? o.lr.wsd_decay_samples : o.lr.wsd_decay_iters).value_or(0);
  if (o.train_iters > 0 && warm > 0 && warm >= decay)
    add(fmt::format("lr-warmup-{} {} is not below lr-decay-{} {}", unit, warm, unit, decay),
        fmt::format("--lr-warmup-{} {}", unit, decay - 1));
  if (last > 0 && last > decay)
    add(fmt::format("lr-wsd-decay-{} {} is more than the decay, {}", unit, last, decay),
        fmt::format("--lr-wsd-decay-{} {}", unit, decay));
}

}  // namespace

void complete_run_length(TrainingOptions& o, Problems& problems) {
  fill_batch_schedule(o, problems);
  const std::size_t before = problems.size();
  check_countable(o, problems);
  if (problems.size() > before) return;
  check_units(o, problems);
  if (o.train_samples && o.train_iters < 0) {
    o.train_iters = o.batch_schedule.iterations_within(*o.train_samples);
    const std::int64_t used = o.batch_schedule.samples_after(o.train_iters);
    if (used < *o.train_samples)
      o.notices.push_back(fmt::format("--train-samples {}: the last {} do not fill a batch and are not trained",
                                      *o.train_samples, *o.train_samples - used));
  } else if (!o.step_batch_sizes.empty() && o.train_iters > 0) {
    o.notices.push_back(fmt::format("--step-batch-size-schedule: lengths in iterations are counted through the changing "
                                    "batch, so --train-iters {} are {} samples", o.train_iters,
                                    o.batch_schedule.samples_after(o.train_iters)));
  } else if (!o.rampup_batch_size.empty() && o.train_iters > 0) {
    o.notices.push_back(fmt::format(
        "--rampup-batch-size: lengths in iterations are counted through the growing batch, so --train-iters {} are {} "
        "samples; Megatron would take {}", o.train_iters, o.batch_schedule.samples_after(o.train_iters),
        o.train_iters * o.batch.global_batch));
  }
  check_curve(o, problems);
  for (const std::int64_t i : o.iterations_to_skip)
    if (o.train_iters > 0 && i > o.train_iters)
      problems.push_back({fmt::format("iterations-to-skip {} is behind the last of {} iterations", i, o.train_iters),
                          "the same without it"});
}

LrSchedule lr_schedule_of(const TrainingOptions& o) {
  const auto samples = [&](std::int64_t iterations) { return o.batch_schedule.samples_after(iterations); };
  const std::int64_t decay_iters = o.lr.decay_iters.value_or(o.train_iters);
  LrSchedule s;
  s.max_lr = std::max(0.0, o.lr.lr);
  s.min_lr = o.lr.min_lr;
  s.warmup_init = o.lr.warmup_init;
  s.decay_samples = o.lr.decay_samples.value_or(o.train_samples.value_or(samples(decay_iters)));
  s.decay_samples = std::max<std::int64_t>(1, s.decay_samples);
  s.warmup_samples = o.lr.warmup_samples > 0 ? o.lr.warmup_samples : samples(o.lr.warmup_iters);
  if (o.lr.warmup_fraction > 0)
    s.warmup_samples = static_cast<std::int64_t>(o.lr.warmup_fraction * static_cast<double>(s.decay_samples));
  // The last steps of the decay, whatever their batch.
  s.wsd_decay_samples = o.lr.wsd_decay_samples.value_or(
      o.lr.wsd_decay_iters ? s.decay_samples - samples(decay_iters - *o.lr.wsd_decay_iters) : 0);
  s.style = parse_lr_style(o.lr.decay_style);
  s.wsd_style = parse_wsd_style(o.lr.wsd_decay_style);
  s.start_weight_decay = o.lr.start_weight_decay.value_or(o.lr.weight_decay);
  s.end_weight_decay = o.lr.end_weight_decay.value_or(o.lr.weight_decay);
  s.weight_decay_samples = o.train_samples.value_or(samples(o.train_iters));
  s.weight_decay_style = parse_weight_decay_style(o.lr.weight_decay_incr_style);
  return s;
}

}  // namespace mt
