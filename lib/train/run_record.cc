#include "train/run_record.h"

#include <chrono>
#include <cmath>
#include <ctime>
#include <filesystem>

#include "base/cli.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"

namespace mt {

namespace {

constexpr double kFollowEvery_s = 5;

std::string local_time_text() {
  const auto now = std::chrono::system_clock::now();
  const std::time_t t = std::chrono::system_clock::to_time_t(now);
  std::tm tm{};
  ::localtime_r(&t, &tm);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &tm);
  const auto us = std::chrono::duration_cast<std::chrono::microseconds>(now.time_since_epoch()).count() % 1000000;
  return fmt::format("{}.{:06d}", text, us);
}

}  // namespace

std::filesystem::path metrics_path(const TrainingOptions& o) {
  if (!o.metrics_file.empty()) return o.metrics_file;
  return o.save.empty() ? std::filesystem::path("run.jsonl") : std::filesystem::path(o.save) / "run.jsonl";
}

std::string log_line(const StepReport& r, std::int64_t train_iters, double mean_step_s, double mean_loss) {
  std::string s = fmt::format(" [{}] iteration {:8d}/{:8d} | consumed samples: {:12d} |", local_time_text(), r.iteration,
                              train_iters, r.consumed_samples);
  if (r.skipped_samples > 0) s += fmt::format(" skipped samples: {:12d} |", r.skipped_samples);
  s += fmt::format(" elapsed time per iteration (ms): {:.1f} |", mean_step_s * 1e3);
  s += fmt::format(" throughput per GPU (TFLOP/s/GPU): {:.3f} |", r.tflops);
  s += fmt::format(" learning rate: {:.6E} | global batch size: {:5d} |", r.learning_rate, r.global_batch);
  if (std::isfinite(mean_loss)) s += fmt::format(" lm loss: {:.6E} |", mean_loss);
  s += fmt::format(" loss scale: {:.1f} | grad norm: {:.3f} |", r.loss_scale, r.grad_norm);
  s += fmt::format(" number of skipped iterations: {:3d} | number of nan iterations: {:3d} |", r.skipped_so_far,
                   r.skipped_so_far);
  return s + fmt::format(" mfu: {:.3f} |", r.mfu);
}

std::string source_line(const std::vector<SourceLoss>& sources, const std::vector<std::string>& names) {
  constexpr std::size_t kMostShown = 8;
  std::string s = " loss by source |";
  if (sources.size() > kMostShown) return s + fmt::format(" {} of {} had samples |", sources.size(), names.size());
  for (const SourceLoss& source : sources) {
    const auto i = static_cast<std::size_t>(source.member);
    s += fmt::format(" {}: {:.6E} ({} samples) |", i < names.size() ? std::filesystem::path(names[i]).filename().string() : "",
                     source.loss, source.samples);
  }
  return s;
}

std::string emulated_log_line(const StepReport& r, std::int64_t train_iters, double mean_step_s) {
  return fmt::format(" [{}] iteration {:8d}/{:8d} | emulated compute, nothing is trained | consumed samples: {:12d} | "
                     "elapsed time per iteration (ms): {:.1f} | global batch size: {:5d} |",
                     local_time_text(), r.iteration, train_iters, r.consumed_samples, mean_step_s * 1e3, r.global_batch);
}

RunReporter::RunReporter(const TrainingOptions& options, const std::string& tool, bool continues)
    : options_(options),
      tool_(options.emulated_ms ? tool + " (emulated compute)" : tool),
      index_(RunIndex::open(options.registry)) {
  const auto path = metrics_path(options);
  try {
    if (path.has_parent_path()) std::filesystem::create_directories(path.parent_path());
    std::filesystem::path moved;
    log_.emplace(continues ? EventLog(path) : EventLog::start_new(path, &moved));
    if (!moved.empty()) log::info("{} was another run's record and is now {}", path.string(), moved.string());
    if (!moved.empty()) index_.follow(moved, 10000);
    if (log_->path() != path) log::warn("another run writes to {}: this one's record is {}", path.string(), log_->path().string());
  } catch (const std::exception& e) {
    log::warn("metrics are not recorded: {}", e.what());
  }
  if (options.tensorboard_dir.empty()) return;
  try {
    tensorboard_ = std::make_unique<TensorboardWriter>(options.tensorboard_dir);
  } catch (const Error& e) {
    log::warn("tensorboard: {}; no curves are written", e.what());
  }
}

RunReporter::~RunReporter() = default;

bool log_is_due(const TrainingOptions& o, std::int64_t iteration) {
  return iteration == 1 || iteration == o.train_iters || (o.log_interval > 0 && iteration % o.log_interval == 0);
}

void RunReporter::write_curves(const std::function<void(TensorboardWriter&)>& write) {
  if (!tensorboard_) return;
  try {
    write(*tensorboard_);
  } catch (const Error& e) {
    log::warn("tensorboard: {}; nothing more is written there", e.what());
    tensorboard_.reset();
  }
}

void RunReporter::point(const std::string& tag, double value, std::int64_t iteration) {
  write_curves([&](TensorboardWriter& to) {
    to.scalar(tag, value, iteration);
    to.scalar(tag + " vs samples", value, consumed_samples_);
  });
}

void RunReporter::draw(const StepReport& r) {
  consumed_samples_ = r.consumed_samples;
  if (!tensorboard_ || r.iteration % options_.tensorboard_log_interval != 0) return;
  if (options_.emulated_ms) {
    point("emulated iteration-time", r.step_s, r.iteration);
    point("emulated batch-size", static_cast<double>(r.global_batch), r.iteration);
    return write_curves([](TensorboardWriter& to) { to.flush(); });
  }
  const std::pair<const char*, double> points[] = {
      {"lm loss", r.loss},           {"learning-rate", r.learning_rate}, {"grad-norm", r.grad_norm},
      {"batch-size", static_cast<double>(r.global_batch)},               {"loss-scale", r.loss_scale},
      {"iteration-time", r.step_s},  {"throughput", r.tflops},           {"mfu", r.mfu},
      {"skipped-iterations", static_cast<double>(r.skipped_so_far)}};
  for (const auto& [tag, value] : points) point(tag, value, r.iteration);
  constexpr std::size_t kMostCurves = 64;
  if (source_names_.size() <= kMostCurves)
    for (const SourceLoss& source : r.sources)
      point(fmt::format("lm loss source {} {}", source.member,
                        std::filesystem::path(source_names_.at(static_cast<std::size_t>(source.member))).filename().string()),
            source.loss, r.iteration);
  write_curves([](TensorboardWriter& to) { to.flush(); });
}

void RunReporter::print(const std::string& text) {
  if (options_.json_lines) return;
  std::printf("%s\n", text.c_str());
  std::fflush(stdout);
}

void RunReporter::record(Json event, bool shown) {
  if (options_.emulated_ms) event["emulated"] = true;
  if (options_.json_lines && shown) {
    std::printf("%s\n", json_line(event).c_str());
    std::fflush(stdout);
  }
  if (!log_) return;
  const bool important = event["event"] != "step";
  try {
    log_->append(std::move(event));
  } catch (const Error& e) {
    log::warn("metrics are no longer recorded: {}", e.what());
    log_.reset();
    return;
  }
  if (!important && seconds_since(last_follow_) < kFollowEvery_s) return;
  last_follow_ = Clock::now();
  index_.follow(log_->path(), important ? 10000 : 200);
}

void RunReporter::start(const Json& layout, const Json& data) {
  Json event{{"event", "run"}, {"tool", tool_}, {"version", cli::version()}, {"options", options_.resolved}, {"layout", layout}};
  if (!data.empty()) event["data"] = data;
  if (data.contains("training"))
    for (const Json& m : data["training"]["members"]) source_names_.push_back(m["prefix"].get<std::string>());
  record(std::move(event));
}

void RunReporter::step(const StepReport& r) {
  Json e{{"event", "step"}, {"iteration", r.iteration}, {"consumed_samples", r.consumed_samples}, {"step_s", r.step_s}};
  if (!options_.emulated_ms)
    e.update({{"loss", r.loss},           {"grad_norm", r.grad_norm},       {"learning_rate", r.learning_rate},
              {"tflops", r.tflops},       {"tflops_non_causal", r.tflops_non_causal},
              {"tflops_with_recompute", r.tflops_with_recompute},
              {"tokens_per_s", r.tokens_per_s}, {"mfu", r.mfu}});
  e["global_batch_size"] = r.global_batch;
  if (r.loss_scale != 1) e["loss_scale"] = r.loss_scale;
  if (r.skipped) e["skipped"] = true;
  if (r.spike) e["spike"] = true;
  if (r.cut_samples > 0) e.update({{"cut_samples", r.cut_samples}, {"cut_answer_tokens", r.cut_answer_tokens}});
  for (const SourceLoss& source : r.sources)
    e["sources"].push_back({{"member", source.member}, {"samples", source.samples}, {"tokens", source.tokens},
                            {"loss", source.loss}});
  record(std::move(e), log_is_due(options_, r.iteration));
  draw(r);
  interval_s_ += r.step_s;
  ++interval_steps_;
  if (std::isfinite(r.loss)) {
    interval_loss_ += r.loss;
    ++interval_losses_;
  }
  if (!log_is_due(options_, r.iteration)) return;
  const double loss = interval_losses_ > 0 ? interval_loss_ / static_cast<double>(interval_losses_) : NAN;
  const double step_s = interval_s_ / static_cast<double>(interval_steps_);
  const std::string line = options_.emulated_ms ? emulated_log_line(r, options_.train_iters, step_s)
                                                : log_line(r, options_.train_iters, step_s, loss);
  print(line);
  if (!r.sources.empty()) print(source_line(r.sources, source_names_));
  if (r.cut_samples > 0)
    print(fmt::format(" answers cut off at the sequence length | samples: {} | answer tokens left out: {} |", r.cut_samples,
                      r.cut_answer_tokens));
  interval_s_ = interval_loss_ = 0;
  interval_steps_ = interval_losses_ = 0;
}

void RunReporter::skipped(std::int64_t iteration, std::int64_t consumed_samples, std::int64_t global_batch) {
  record({{"event", "step"}, {"iteration", iteration}, {"consumed_samples", consumed_samples},
          {"global_batch_size", global_batch}, {"skipped", true}, {"skipped_samples", global_batch}});
}

void RunReporter::checkpoint(const std::string& path, const SavedIteration& saved) {
  log::info("saved iteration {} to {} in {:.2f} s, training waited {:.2f} s", saved.iteration, path, saved.seconds,
            saved.stall_s);
  record({{"event", "checkpoint"},
          {"iteration", saved.iteration},
          {"path", path},
          {"bytes", saved.written.file_bytes},
          {"seconds", saved.seconds},
          {"stall_s", saved.stall_s}});
}

void RunReporter::durable(const std::string& path, const DurableIteration& copied) {
  log::info("iteration {} is durable in {}, {:.2f} s after it was saved", copied.iteration, path, copied.seconds);
  record({{"event", "checkpoint"},
          {"iteration", copied.iteration},
          {"path", path},
          {"bytes", copied.bytes},
          {"durable_s", copied.seconds}});
}

void RunReporter::evaluation(std::int64_t iteration, const std::string& name, double loss, std::int64_t tokens) {
  const double ppl = std::exp(std::min(20.0, loss));
  const std::string line = fmt::format(
      " validation loss at iteration {} on {} set | lm loss value: {:.6E} | lm loss PPL: {:.6E} | ", iteration, name,
      loss, ppl);
  const std::string dashes(line.size(), '-');
  print(dashes + "\n" + line + "\n" + dashes);
  record({{"event", "evaluation"}, {"iteration", iteration}, {"name", name}, {"loss", loss}, {"ppl", ppl},
          {"tokens", tokens}});
  const std::string tag = "lm loss " + (name == "validation" || name == "test" ? name : "validation-" + name);
  point(tag, loss, iteration);
  point(tag + " ppl", ppl, iteration);
  write_curves([](TensorboardWriter& to) { to.flush(); });
}

void RunReporter::end(const std::string& status) {
  record({{"event", "end"}, {"status", status}, {"seconds", seconds_since(started_)}});
}

}  // namespace mt
