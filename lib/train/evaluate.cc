#include "train/evaluate.h"

#include "train/train_step.h"

namespace mt {

namespace {

// Batches from sample `first` on.
void score_set(TrainingRun& run, const RunData::Set& set, std::int64_t first, std::int64_t num_batches) {
  const TimedSpan span(run.timeline, Timeline::Kind::phase, "evaluate");
  double sum = 0, count = 0;
  for (std::int64_t i = 0; i < num_batches; ++i) {
    const auto batches = set.batches->step(first + i * run.options.batch.global_batch, run.options.parallel.dp,
                                           run.groups.coordinate.dp);
    std::vector<std::vector<float>> losses;
    for (const auto& b : batches) losses.push_back(run.executor->score(b));
    sum += masked_sum(batches, losses);
    count += unmasked(batches);
  }
  sum = loss_sum(run, sum);
  count = global_sum(run, count);
  if (run.report && count > 0)
    run.report->evaluation(run.at.iteration, set.name, sum / count, static_cast<std::int64_t>(count));
}

}  // namespace

void validate_now(TrainingRun& run) {
  const auto& o = run.options;
  if (run.data.valid.empty() || (o.eval_iters == 0 && !o.full_validation)) return;
  run.phase("evaluate");
  const std::int64_t batch = o.batch.global_batch;
  for (const auto& set : run.data.valid) {
    if (set.samples > 0) {
      score_set(run, set, 0, (set.samples + batch - 1) / batch);
      continue;
    }
    score_set(run, set, run.at.consumed_valid_samples, o.eval_iters);
    run.at.consumed_valid_samples += o.eval_iters * batch;
  }
}

void test_now(TrainingRun& run) {
  if (!run.data.test || run.options.eval_iters == 0) return;
  run.phase("evaluate");
  score_set(run, *run.data.test, 0, run.options.eval_iters);
}

}  // namespace mt
