#include "train/trainer.h"

#include <cstdio>
#include <string_view>

#include "base/error.h"
#include "base/log.h"
#include "comm/device_world.h"
#include "comm/timed.h"
#include "comm/world.h"
#include "train/evaluate.h"
#include "train/pipeline_schedule.h"
#include "train/save.h"
#include "train/stop_request.h"
#include "train/timers.h"
#include "train/trace_file.h"
#include "train/train_step.h"
#include "train/training_run.h"

namespace mt {

namespace {

// Why to stop after this step, agreed on by all ranks; 0: go on.
int stop_code(TrainingRun& run) {
  const int code = agreed_stop(run);
  const std::int64_t limit = run.options.non_finite_limit;
  return limit > 0 && run.at.skipped_in_a_row >= limit ? static_cast<int>(Code::non_finite_limit) : code;
}

constexpr const char* kEmulatedLabel = "emulated compute: ";

bool is_multiple(std::int64_t iteration, std::int64_t interval) { return interval > 0 && iteration % interval == 0; }

void announce(TrainingRun& run) {
  const auto& p = run.options.parallel;
  Json layout{{"parallel", to_json(p)}, {"world_size", run.world.size()}};
  if (const auto& ms = run.options.emulated_ms) {
    const double step_ms = predicted_step(run.options, *ms);
    layout["emulated"] = {{"forward_ms", ms->forward},
                          {"backward_input_ms", ms->backward_input},
                          {"backward_weight_ms", ms->backward_weight},
                          {"recompute_ms", ms->recompute},
                          {"predicted_step_ms", step_ms}};
    log::warn("emulated compute: acts are waits and nothing is trained; the clock predicts {:.2f} ms a step", step_ms);
  }
  const auto plans = run.data.plans();
  const Json data = data::plan_json(plans);
  for (const auto& line : data::plan_lines(plans)) log::info("{}", line);
  if (!run.data.cache_text.empty()) log::info("{}", run.data.cache_text);
  run.report->start(layout, data);
  if (p.pp == 1) return;
  for (const auto& s : stage_map(p, run.model.num_layers()))
    log::info("stage {}: pipeline rank {}, chunk {}: {}", s.stage, s.pp_rank, s.chunk, s.holds);
}

// The timers and the straggler line, at the steps that have a log line. Collective.
void tell_times(TrainingRun& run, std::int64_t& since) {
  const auto& timers = run.options.timers;
  if ((timers.log_level == 0 && !timers.straggler) || !log_is_due(run.options, run.at.iteration)) return;
  std::vector<std::map<std::string, Timeline::Total>> ranks;
  for (const auto& text : gather_texts(run.world, run.stream, totals_text(run.timeline->take_totals())))
    ranks.push_back(totals_from_text(text));
  const std::int64_t steps = run.at.iteration - since;
  since = run.at.iteration;
  if (!run.speaks()) return;
  const char* label = run.options.emulated_ms ? kEmulatedLabel : "";
  std::FILE* to = run.options.json_lines ? stderr : stdout;  // text beside objects would make both unreadable
  if (const auto text = timers_text(ranks, timers, steps); !text.empty()) std::fprintf(to, "%s%s\n", label, text.c_str());
  if (timers.straggler) std::fprintf(to, "%s%s\n", label, straggler_text(ranks, steps).c_str());
  std::fflush(to);
}

std::vector<std::string> row_names(const TrainingRun& run) {
  std::vector<std::string> names;
  for (std::size_t r = 0; r < run.groups.placement.coordinates.size(); ++r) {
    const Coordinate& c = run.groups.placement.coordinates[r];
    names.push_back(fmt::format("rank {}: tp {}, dp {}, pp {}", r, c.tp, c.dp, c.pp));
  }
  return names;
}

void tell_early_end(const TrainingRun& run, int code) {
  const bool by_signal = code == static_cast<int>(Code::signal_saved);
  if (!run.speaks() || (!by_signal && code != static_cast<int>(Code::time_limit))) return;
  const auto& o = run.options;
  log::line(fmt::format("{} after iteration {} of {}; {}",
                        by_signal ? "left on a signal" : "left at the limit of --exit-duration-in-mins",
                        run.at.iteration, o.train_iters,
                        o.save.empty() ? "nothing is saved: there is no --save" : "saved, --load goes on from there"));
}

void tell_graphs(const TrainingRun& run) {
  const StepGraphs* graphs = run.executor->graphs();
  if (!run.speaks() || graphs == nullptr) return;
  if (graphs->captured() == 0)
    log::warn("cuda-graph-impl local made no graph: an act first runs --cuda-graph-warmup-steps {} times as ever",
              run.options.cuda_graph_warmup_steps);
  else log::info("{} CUDA graphs were made and launched {} times", graphs->captured(), graphs->launched());
}

int run_loop(TrainingRun& run, TraceFile* trace) {
  const auto& o = run.options;
  const auto& at = run.at;
  if (run.speaks() && o.train_iters > 0 && at.iteration >= o.train_iters)
    log::warn("the checkpoint is at iteration {}, --train-iters is {}: nothing is left to train", at.iteration,
              o.train_iters);
  if (run.report) announce(run);
  int code = 0;
  bool leave = false;
  std::int64_t timed_from = at.iteration;  // totals are of the steps since
  const bool trained = at.iteration < o.train_iters;
  while (!leave && at.iteration < o.train_iters) {
    train_step(run);
    tell_times(run, timed_from);
    if (trace) trace->follow(*run.timeline, run.stream);
    follow_save(run);
    code = stop_code(run);
    // Before the save: where validation stands is part of the checkpoint.
    if (is_multiple(at.iteration, o.eval_interval)) {
      const int heard = validate_now(run);
      if (code == 0) code = heard;
    }
    // A run of non-finite steps must not replace the last good checkpoint.
    if (code != static_cast<int>(Code::non_finite_limit) && at.skipped_in_a_row == 0 && !o.save.empty() &&
        is_multiple(at.iteration, o.save_interval))
      save_checkpoint(run);
    leave = code != 0 || is_multiple(at.iteration, o.exit_interval);
  }
  // As Megatron: at the end of training the test set is scored, and validation once more where it was not just done.
  if (code == 0 && !leave && trained && !o.emulated_ms) {
    if (o.eval_interval > 0 && at.iteration % o.eval_interval != 0) code = validate_now(run);
    if (code == 0) code = test_now(run);
  }
  const bool good = code != static_cast<int>(Code::non_finite_limit);
  if (good && !o.save.empty() && run.saved_iteration != at.iteration) save_checkpoint(run);
  finish_save(run);
  if (!good && run.speaks())
    log::line(fmt::format("giving up at iteration {}: {} steps in a row had gradients that are not finite; {}", at.iteration,
                          at.skipped_in_a_row, o.save.empty() ? "nothing is saved: there is no --save" : "what was saved before is untouched"));
  tell_early_end(run, code);
  tell_graphs(run);
  if (run.report) run.report->end(code == 0 ? "done" : code_name(static_cast<Code>(code)));
  run.store->finish_reduce(run.stream, run.groups);  // gathers of the last step's weights
  if (trace) trace->finish(*run.timeline, run.stream);
  run.world.barrier(run.stream).wait_host();
  return code;
}

// What ends the run is in its record too; the exit status says the same.
int recorded_loop(TrainingRun& run, TraceFile* trace) {
  const auto end = [&](Code code) {
    if (run.report) run.report->end(code_name(code));
  };
  try {
    return run_loop(run, trace);
  } catch (const Error& e) {
    end(e.code());
    throw;
  } catch (const std::bad_alloc&) {
    end(Code::device);
    throw;
  }
}

}  // namespace

int train(Communicator& job, const TrainingOptions& options, const TrainerHooks& hooks) {
  const StopRequest stop;
  require_same_options(options, job);
  const Device device = device_of_rank(options.device, comm::local_rank(job));
  const auto there = comm::device_world(job, device, {options.distributed_backend, options.deterministic});
  Communicator& world = there ? *there : job;
  if (options.trace.empty() && options.timers.log_level == 0 && !options.timers.straggler) {
    TrainingRun run(world, options, hooks);
    return recorded_loop(run, nullptr);
  }
  Timeline timeline(!options.trace.empty());
  const char* phase = "";  // of the step, for what of its time is spent standing still
  TrainerHooks noting = hooks;
  noting.on_phase = [&](const char* name, std::int64_t iteration) {
    phase = name;
    if (hooks.on_phase) hooks.on_phase(name, iteration);
  };
  const comm::StandStillSink sink = [&](const comm::StandStill& s) {
    const bool bubble = std::string_view(s.operation) == "recv" && s.group != "world";
    timeline.add(bubble ? Timeline::Kind::bubble : Timeline::Kind::exposed, s.group + " " + s.operation, s.begin, s.end,
                 {s.bytes});
    if (std::string_view(phase) == "forward-backward")
      timeline.add_seconds("exposed in forward-backward", std::chrono::duration<double>(s.end - s.begin).count());
  };
  const auto watched = comm::timed(world, sink);
  TrainingRun run(*watched, options, noting);
  run.timeline = &timeline;
  if (device.kind != DeviceKind::cpu) timeline.settle_with([&run] { run.stream.synchronize(); });
  watched->barrier(run.stream).wait_host();
  timeline.restart();
  std::optional<TraceFile> trace;
  if (!run.options.trace.empty())
    trace.emplace(run.options.trace, options.emulated_ms ? "mt-train, emulated compute" : "mt-train", row_names(run), world);
  return recorded_loop(run, trace ? &*trace : nullptr);
}

}  // namespace mt
