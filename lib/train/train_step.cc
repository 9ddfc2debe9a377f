#include "train/train_step.h"

#include "base/error.h"
#include "base/log.h"

namespace mt {

double global_sum(TrainingRun& run, double mine) {
  run.groups.dp_cp->all_reduce(run.stream, View(&mine, DType::f64, {1}), Reduce::sum).wait_host();
  return mine;
}

double loss_sum(TrainingRun& run, double mine) {
  mine = global_sum(run, mine);
  run.groups.pp->all_reduce(run.stream, View(&mine, DType::f64, {1}), Reduce::sum).wait_host();
  return mine;
}

double masked_sum(const std::vector<HostBatch>& batches, const std::vector<std::vector<float>>& losses) {
  double sum = 0;
  for (std::size_t m = 0; m < batches.size(); ++m)
    for (std::size_t t = 0; t < losses[m].size(); ++t)
      if (batches[m].mask[t] != 0) sum += static_cast<double>(batches[m].mask[t]) * static_cast<double>(losses[m][t]);
  return sum;
}

double unmasked(const std::vector<HostBatch>& batches) {
  double n = 0;
  for (const auto& b : batches) n += b.unmasked();
  return n;
}

namespace {

// The learning rate's clock moves with steps that changed weights; others are counted. An overflow that a smaller loss
// scale may cure is no step towards giving up.
void note_outcome(TrainingRun& run, bool skipped) {
  auto& at = run.at;
  at.consumed_samples += run.options.batch.global_batch;
  const bool curable = run.loss_scaler.update(run.stream, !skipped);
  if (!skipped) {
    at.schedule_samples += run.options.batch.global_batch;
    at.skipped_in_a_row = 0;
    return;
  }
  ++at.skipped;
  if (curable) {
    if (run.speaks())
      log::info("iteration {}: gradients overflow, the step is skipped; the loss scale is {}", at.iteration,
                run.loss_scaler.scale());
    return;
  }
  ++at.skipped_in_a_row;
  if (run.speaks())
    log::warn("iteration {}: gradients are not finite, the step is skipped ({} in a row, limit {})", at.iteration,
              at.skipped_in_a_row, run.options.non_finite_limit);
}

void report_step(TrainingRun& run, StepReport r) {
  const auto& batch = run.options.batch;
  r.iteration = run.at.iteration;
  r.consumed_samples = run.at.consumed_samples;
  r.global_batch = batch.global_batch;
  r.tokens_per_s = static_cast<double>(batch.global_batch) * batch.seq_length / r.step_s;
  const double flop_per_s = run.step_flop / r.step_s / run.world.size();
  r.tflops = flop_per_s * 1e-12;
  r.mfu = run.peak_flop_per_s > 0 ? flop_per_s / run.peak_flop_per_s : 0;
  r.skipped_so_far = run.at.skipped;
  run.report->step(r);
}

}  // namespace

void train_step(TrainingRun& run) {
  const auto start = Clock::now();
  auto& at = run.at;
  ++at.iteration;
  run.phase("batch");
  const auto batches = run.data.train->step(at.consumed_samples, run.options.parallel.dp, run.groups.coordinate.dp);
  const double count = global_sum(run, unmasked(batches));
  if (count <= 0)
    throw Error(Code::data, fmt::format("no token of the batch at iteration {} has a loss", at.iteration), "",
                "look at --eod-mask-loss and the data");
  run.store->zero_grads(run.stream);
  run.phase("forward-backward");
  const auto losses = run.executor->run_lane(run.lane, batches, 1 / count, {});
  if (run.hooks.after_backward) run.hooks.after_backward(at.iteration, *run.store);
  StepReport report;
  report.loss = loss_sum(run, masked_sum(batches, losses)) / count;
  run.phase("optimizer");
  report.learning_rate = run.lr.learning_rate(at.schedule_samples);
  report.loss_scale = run.loss_scaler.scale();
  const auto result = run.optimizer->step(run.stream, run.groups, report.learning_rate,
                                          run.lr.weight_decay(at.schedule_samples), report.loss_scale);
  run.stream.synchronize();
  report.grad_norm = result.grad_norm;
  report.skipped = result.skipped;
  note_outcome(run, result.skipped);
  if (run.hooks.after_step) run.hooks.after_step(at.iteration, report.loss, report.grad_norm);
  report.step_s = seconds_since(start);
  if (run.report) report_step(run, report);
}

}  // namespace mt
