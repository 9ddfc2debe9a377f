#include "train/evaluate.h"

#include "train/train_step.h"

namespace mt {

void validate_now(TrainingRun& run) {
  if (!run.data.valid) return;
  run.phase("evaluate");
  double sum = 0, count = 0;
  for (std::int64_t i = 0; i < run.options.eval_iters; ++i) {
    const auto batches =
        run.data.valid->step(run.at.consumed_valid_samples, run.options.parallel.dp, run.groups.coordinate.dp);
    std::vector<std::vector<float>> losses;
    for (const auto& b : batches) losses.push_back(run.executor->score(b));
    sum += masked_sum(batches, losses);
    count += unmasked(batches);
    run.at.consumed_valid_samples += run.options.batch.global_batch;
  }
  sum = loss_sum(run, sum);
  count = global_sum(run, count);
  if (run.report && count > 0)
    run.report->evaluation(run.at.iteration, "validation", sum / count, static_cast<std::int64_t>(count));
}

}  // namespace mt
