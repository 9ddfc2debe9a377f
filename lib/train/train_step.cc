#include "train/train_step.h"

#include <algorithm>
#include <cmath>

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
void note_outcome(TrainingRun& run, std::int64_t global_batch, bool skipped) {
  auto& at = run.at;
  at.consumed_samples += global_batch;
  const bool curable = run.loss_scaler.update(run.stream, !skipped);
  if (!skipped) {
    at.schedule_samples += global_batch;
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
    log::warn("iteration {}: loss or gradients are not finite, the step is skipped ({} in a row, limit {})", at.iteration,
              at.skipped_in_a_row, run.options.non_finite_limit);
}

void report_step(TrainingRun& run, StepReport r) {
  const auto& batch = run.options.batch;
  r.iteration = run.at.iteration;
  r.consumed_samples = run.at.consumed_samples;
  r.skipped_samples = run.at.skipped_samples;
  r.tokens_per_s = static_cast<double>(r.global_batch) * batch.seq_length / r.step_s;
  const double share = static_cast<double>(r.global_batch) / batch.global_batch;
  const double per_flop = share / r.step_s / run.world.size(), flop_per_s = run.step_flop.causal * per_flop;
  r.tflops = flop_per_s * 1e-12;
  r.tflops_non_causal = run.step_flop.non_causal * per_flop * 1e-12;
  r.tflops_with_recompute = run.step_flop.with_recompute * per_flop * 1e-12;
  r.mfu = run.peak_flop_per_s > 0 ? flop_per_s / run.peak_flop_per_s : 0;
  r.skipped_so_far = run.at.skipped;
  run.report->step(r);
}

// Megatron's rule: a loss of ten times the largest of the first hundred is a spike. It is told, not undone.
bool is_spike(TrainingRun& run, double loss) {
  constexpr std::int64_t kEarlyLosses = 100;
  constexpr double kSpike = 10;
  auto& at = run.at;
  if (!run.options.check_for_spiky_loss || !std::isfinite(loss)) return false;
  const bool spike = at.early_losses >= kEarlyLosses && loss >= kSpike * at.largest_early_loss;
  if (at.early_losses < kEarlyLosses) {
    at.largest_early_loss = std::max(at.largest_early_loss, loss);
    ++at.early_losses;
  }
  if (spike && run.speaks())
    log::warn("iteration {}: the loss {} is {:.0f} times the largest of the run's first {} steps", at.iteration, loss,
              loss / at.largest_early_loss, kEarlyLosses);
  return spike;
}

// The acts of a lane as spans: each ends where the next begins.
class LaneSpans {
 public:
  explicit LaneSpans(Timeline* timeline) : timeline_(timeline) {}
  std::function<void(const Step&)> on_step() {
    if (!timeline_) return {};
    return [this](const Step& step) {
      end();
      open_.emplace(timeline_, Timeline::Kind::lane, name_of(step.act), Timeline::Numbers{step.chunk, step.micro_batch});
    };
  }
  void end() { open_.reset(); }

 private:
  // Megatron's timer names where it has them.
  static const char* name_of(Act act) {
    switch (act) {
      case Act::forward: return "forward-compute";
      case Act::backward: return "backward-compute";
      default: return act_name(act);
    }
  }
  Timeline* timeline_;
  std::optional<TimedSpan> open_;
};

// The step is not taken; its samples are read over.
void skip_step(TrainingRun& run, std::int64_t global_batch) {
  run.at.consumed_samples += global_batch;
  run.at.skipped_samples += global_batch;
  if (run.speaks())
    log::info("iteration {}: skipped, as --iterations-to-skip says; {} samples are read over", run.at.iteration,
              global_batch);
  if (run.report) run.report->skipped(run.at.iteration, run.at.consumed_samples, global_batch);
}

// Each micro-batch's mask such that its tokens' weights sum to its share, 1 / (micro-batches · dp): Megatron's default.
std::vector<HostBatch> weighted_by_micro_batch(std::vector<HostBatch> batches, int dp) {
  const double share = 1.0 / (static_cast<double>(batches.size()) * dp);
  for (auto& b : batches) {
    const auto weight = static_cast<float>(share / std::max(1.0, b.unmasked()));
    for (auto& m : b.mask) m *= weight;
  }
  return batches;
}

}  // namespace

void train_step(TrainingRun& run) {
  const auto start = Clock::now();
  auto& at = run.at;
  const auto& o = run.options;
  ++at.iteration;
  const int global_batch = o.batch_schedule.at(at.consumed_samples);
  if (std::find(o.iterations_to_skip.begin(), o.iterations_to_skip.end(), at.iteration) != o.iterations_to_skip.end())
    return skip_step(run, global_batch);
  const TimedSpan whole(run.timeline, Timeline::Kind::step, "iteration", {at.iteration});
  run.phase("batch");
  TimedSpan fetching(run.timeline, Timeline::Kind::phase, "batch-generator");
  const auto batches =
      run.data.train->step(at.consumed_samples, global_batch, o.parallel.dp, run.groups.coordinate.dp);
  fetching.end();
  if (run.hooks.on_batches) run.hooks.on_batches(at.iteration, batches);
  const double count = global_sum(run, unmasked(batches));
  if (count <= 0)
    throw Error(Code::data, fmt::format("no token of the batch at iteration {} has a loss", at.iteration), "",
                o.data.sft ? "conversations without an answer, or answers beyond --seq-length"
                           : "look at --eod-mask-loss and the data");
  run.store->zero_grads(run.stream);
  run.phase("forward-backward");
  TimedSpan walking(run.timeline, Timeline::Kind::phase, "forward-backward");
  const Lane& lane = run.lane(global_batch);
  LaneSpans acts(run.timeline);
  const auto losses = o.mean_of_means_loss
                          ? run.executor->run_lane(lane, weighted_by_micro_batch(batches, o.parallel.dp), 1,
                                                    acts.on_step())
                          : run.executor->run_lane(lane, batches, 1 / count, acts.on_step());
  acts.end();
  walking.end();
  run.phase("loss");
  if (run.hooks.after_backward) run.hooks.after_backward(at.iteration, *run.store);
  StepReport report;
  report.global_batch = global_batch;
  report.loss = loss_sum(run, masked_sum(batches, losses)) / count;
  // As the line's mean: steps without a finite loss have no part in it.
  if (run.source_losses && std::isfinite(report.loss)) run.source_losses->add(batches, losses);
  if (run.source_losses && log_is_due(o, at.iteration)) report.sources = run.source_losses->take(run);
  if (run.data.cut && log_is_due(o, at.iteration)) {
    const RunData::Cut mine = run.data.take_cut();
    report.cut_samples = static_cast<std::int64_t>(global_sum(run, static_cast<double>(mine.samples)));
    report.cut_answer_tokens = static_cast<std::int64_t>(global_sum(run, static_cast<double>(mine.tokens)));
  }
  run.phase("optimizer");
  TimedSpan updating(run.timeline, Timeline::Kind::phase, "optimizer");
  report.learning_rate = run.lr.learning_rate(at.schedule_samples);
  report.loss_scale = run.loss_scaler.scale();
  // The loss is the same on all ranks, so all skip the update together.
  const auto result = std::isfinite(report.loss)
                          ? run.optimizer->step(run.stream, run.groups, report.learning_rate,
                                                run.lr.weight_decay(at.schedule_samples), report.loss_scale)
                          : Optimizer::StepResult{NAN, true};
  run.fp8.end_step(run.stream, run.world);
  run.stream.synchronize();
  updating.end();
  report.grad_norm = result.grad_norm;
  report.skipped = result.skipped;
  report.spike = is_spike(run, report.loss);
  note_outcome(run, global_batch, result.skipped);
  if (run.hooks.after_step) run.hooks.after_step(at.iteration, report.loss, report.grad_norm);
  report.step_s = seconds_since(start);
  if (run.report) report_step(run, report);
}

}  // namespace mt
