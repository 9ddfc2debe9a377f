#include "train/evaluate.h"

#include "base/log.h"
#include "train/stop_request.h"
#include "train/train_step.h"

namespace mt {

namespace {

constexpr std::int64_t kAskEvery = 4;  // batches; to ask holds up a pipeline

// Batches from sample `first` on.
//   gives  0, or why all ranks left off before the end; then nothing is reported
int score_set(TrainingRun& run, const RunData::Set& set, std::int64_t first, std::int64_t num_batches) {
  const TimedSpan span(run.timeline, Timeline::Kind::phase, "evaluate");
  double sum = 0, count = 0;
  for (std::int64_t i = 0; i < num_batches; ++i) {
    if (i > 0 && i % kAskEvery == 0)
      if (const int code = agreed_stop(run); code != 0) {
        if (run.speaks())
          log::info("iteration {}: asked to stop, the evaluation of the {} set is left at batch {} of {}",
                    run.at.iteration, set.name, i, num_batches);
        return code;
      }
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
  return 0;
}

}  // namespace

int validate_now(TrainingRun& run) {
  const auto& o = run.options;
  if (run.data.valid.empty() || (o.eval_iters == 0 && !o.full_validation)) return 0;
  run.phase("evaluate");
  const std::int64_t batch = o.batch.global_batch;
  std::int64_t from = run.at.consumed_valid_samples;
  // Samples of an evaluation that is left off count as read: later ones are then of the same samples as without a stop.
  for (const auto& set : run.data.valid)
    if (set.samples == 0) run.at.consumed_valid_samples += o.eval_iters * batch;
  int code = 0;
  for (std::size_t i = 0; i < run.data.valid.size() && code == 0; ++i) {
    const auto& set = run.data.valid[i];
    if (i > 0) code = agreed_stop(run);
    if (code != 0) break;
    if (set.samples > 0) {
      code = score_set(run, set, 0, (set.samples + batch - 1) / batch);
      continue;
    }
    code = score_set(run, set, from, o.eval_iters);
    from += o.eval_iters * batch;
  }
  return code;
}

int test_now(TrainingRun& run) {
  if (!run.data.test || run.options.eval_iters == 0) return 0;
  run.phase("evaluate");
  return score_set(run, *run.data.test, 0, run.options.eval_iters);
}

}  // namespace mt
