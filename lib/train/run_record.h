#pragma once
// What a run says while it goes: Megatron's log line on stdout, run.jsonl, the registry. On rank 0 alone.
//
// Of emulated compute (--emulate-compute) every line, event, curve and the tool's name in the registry say so, and have no
// numbers of training.
// Nothing here stops a run: a record that cannot be written is a warning. Code: train/run_record.cc.
// Tests: tests/train/emulated_test.cc, source_loss_test.cc, tests/cli/.

#include <cstdio>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "engine/async_save.h"
#include "engine/durable_copy.h"
#include "registry/event_log.h"
#include "registry/index.h"
#include "train/tensorboard.h"
#include "train/training_options.h"

namespace mt {

// Mean loss of a blend's member since the last log line.
struct SourceLoss {
  std::int64_t member = 0, samples = 0, tokens = 0;
  double loss = 0;
};

struct StepReport {
  std::int64_t iteration = 0, consumed_samples = 0, global_batch = 0;
  double loss = 0, grad_norm = 0, learning_rate = 0;
  double step_s = 0;
  // TFLOP/s a rank in three readings (layout/flops.h); mfu: the causal one's share of the peak.
  double tokens_per_s = 0, tflops = 0, tflops_non_causal = 0, tflops_with_recompute = 0, mfu = 0;
  double loss_scale = 1;
  bool skipped = false;                          // non-finite: nothing was updated
  bool spike = false;
  std::int64_t skipped_samples = 0;              // read over by --iterations-to-skip, so far
  std::int64_t skipped_so_far = 0;
  std::vector<SourceLoss> sources;  // of a blend, at steps that get a line
  std::int64_t cut_samples = 0, cut_answer_tokens = 0;  // of answers beyond the sequence length, since the last line
};

// The line, without newline, as Megatron formats it (its readers' regular expressions match), then " mfu: ".
//   mean over the steps since the last line of time and loss
std::string log_line(const StepReport& report, std::int64_t train_iters, double mean_step_s, double mean_loss);

// " loss by source | NAME: 3.1 (24 samples) | ..." of up to 8 members, else how many there are.
//   names  of all members
std::string source_line(const std::vector<SourceLoss>& sources, const std::vector<std::string>& names);

// The line of a step whose acts were waits: no loss, no throughput.
std::string emulated_log_line(const StepReport& report, std::int64_t train_iters, double mean_step_s);

// Where the record of a run stands: --metrics-file, else run.jsonl in --save, else here.
std::filesystem::path metrics_path(const TrainingOptions& options);

// True at steps that get a line: the first, the last, and multiples of the interval.
bool log_is_due(const TrainingOptions& options, std::int64_t iteration);

class RunReporter {
 public:
  // Opens the metrics file and the registry. A run that does not continue another gets a record of its own: what stands
  // at its place is moved aside (registry/event_log.h).
  RunReporter(const TrainingOptions& options, const std::string& tool, bool continues);
  ~RunReporter();

  //   data  the sets' plan (data/run_sets.h), empty where samples are made up; its training members name sources
  void start(const Json& layout, const Json& data);
  void step(const StepReport& report);  // prints on the log interval, records always
  // An iteration that was read over: a step event without numbers.
  void skipped(std::int64_t iteration, std::int64_t consumed_samples, std::int64_t global_batch);
  void checkpoint(const std::string& path, const SavedIteration& saved);
  // What was saved into a fast directory is in the durable one, too.
  void durable(const std::string& path, const DurableIteration& copied);
  void evaluation(std::int64_t iteration, const std::string& name, double loss, std::int64_t tokens);
  void end(const std::string& status);

 private:
  void record(Json event, bool shown = true);
  void print(const std::string& text);  // a line of Megatron's, unless events are printed
  void draw(const StepReport& report);
  // Curves are no reason to end a run: a file that cannot be written is a warning, once.
  void write_curves(const std::function<void(TensorboardWriter&)>& write);
  // A point of a curve over steps, and of the same over samples.
  void point(const std::string& tag, double value, std::int64_t iteration);
  TrainingOptions options_;
  std::string tool_;
  std::optional<EventLog> log_;
  RunIndex index_;
  std::unique_ptr<TensorboardWriter> tensorboard_;
  std::vector<std::string> source_names_;
  std::int64_t consumed_samples_ = 0;
  double interval_s_ = 0, interval_loss_ = 0;
  std::int64_t interval_steps_ = 0, interval_losses_ = 0;
  Clock::time_point started_ = Clock::now(), last_follow_{};
};

}  // namespace mt
