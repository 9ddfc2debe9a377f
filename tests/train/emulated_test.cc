// Emulated compute: nothing is computed and every output says so; messages are those of a real run; acts last as told.

#include <fstream>

#include "base/error.h"
#include "base/files.h"
#include "comm/world.h"
#include "registry/event_log.h"
#include "registry/trace_summary.h"
#include "train/pipeline_schedule.h"
#include "train/tiny_run.h"

namespace mt {
namespace {

TrainingOptions emulated_options(const test::TempDir& dir, double ms = 1) {
  auto o = test::tiny_options(dir, "gpt2");
  o.deferred_stream = false;
  o.train_iters = 2;
  o.log_interval = 1;
  o.eval_iters = 0;
  o.emulated_ms = Durations{ms, ms, ms, ms};
  return o;
}

// What each rank sent in a run, by group and operation.
std::vector<std::string> sent_in(TrainingOptions o, int ranks) {
  const TrainingOptions complete = complete_options(o, ranks);
  std::vector<std::string> texts(static_cast<std::size_t>(ranks));
  comm::run_local_ranks(ranks, {}, [&](std::unique_ptr<Communicator> world) {
    const auto rank = static_cast<std::size_t>(world->rank());
    comm::TrafficLog log;
    world = comm::recording(std::move(world), log);
    train(*world, complete, {});
    for (const auto& r : log.rows()) texts[rank] += fmt::format("{} {} {} {}\n", r.group, r.operation, r.calls, r.bytes_sent);
  });
  return texts;
}

TEST(EmulatedCompute, SendsWhatARealRunSends) {
  struct Case {
    const char* schedule;
    int pp, vpp, stage;
    bool recompute, overlap;
  };
  for (const Case& c : {Case{"zb-h1", 4, 1, 0, false, false}, {"interleaved", 2, 2, 1, false, true}, {"zb-v", 2, 2, 2, false, false},
                        {"1f1b", 2, 1, 3, true, false}, {"dualpipe-v", 4, 2, 0, false, false}, {"gpipe", 1, 1, 3, true, false}}) {
    const test::TempDir dir;
    auto o = emulated_options(dir, 0.01);
    o.parallel.pp = c.pp;
    o.parallel.vpp = c.vpp;
    o.schedule = c.schedule;
    o.batch = {16, 1, 16};
    o.model.num_layers = 8;
    o.model.untie_embeddings_and_output_weights = c.stage >= 2;
    o.use_megatron_fsdp = c.stage == 3;
    o.sharding_strategy = std::vector<std::string>{"", "optim", "optim_grads", "optim_grads_params"}[static_cast<std::size_t>(c.stage)];
    o.overlap.grad_reduce = o.overlap.param_gather = c.overlap;
    if (c.recompute) o.recompute.granularity = "full", o.recompute.method = "uniform", o.recompute.num_layers = 1;
    const auto emulated = sent_in(o, 4);
    o.emulated_ms.reset();
    const auto real = sent_in(o, 4);
    for (std::size_t r = 0; r < 4; ++r) EXPECT_EQ(emulated[r], real[r]) << c.schedule << ", rank " << r;
    if (c.pp > 1) {
      EXPECT_NE(real[0].find("send"), std::string::npos) << real[0];
    }
  }
}

TEST(EmulatedCompute, SaysSoInEveryOutput) {
  const test::TempDir dir;
  auto o = emulated_options(dir);
  o.parallel.pp = 2;
  o.trace = dir / "trace.json";
  o.tensorboard_dir = dir / "curves";
  o.timers = {2, "minmax", true};
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  test::run_tiny(o, 2);
  const auto out = testing::internal::GetCapturedStdout(), err = testing::internal::GetCapturedStderr();
  EXPECT_NE(err.find("emulated compute: acts are waits and nothing is trained; the clock predicts"), std::string::npos) << err;
  std::istringstream lines(out);
  int log_lines = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind("    ", 0) == 0) continue;  // of the block whose head says it
    EXPECT_NE(line.find("emulated compute"), std::string::npos) << line;
    EXPECT_EQ(line.find("lm loss"), std::string::npos) << line;
    EXPECT_EQ(line.find("throughput"), std::string::npos) << line;
    log_lines += line.find("] iteration ") != std::string::npos ? 1 : 0;
  }
  EXPECT_EQ(log_lines, 2);
  const auto record = read_event_log(o.metrics_file);
  EXPECT_EQ(record.runs.at(0)["tool"], "mt-train (emulated compute)");
  EXPECT_EQ(record.runs[0]["emulated"], true);
  EXPECT_EQ(record.runs[0]["layout"]["emulated"]["forward_ms"], 1);
  for (const auto& [i, step] : record.steps) {
    EXPECT_EQ(step["emulated"], true);
    for (const char* absent : {"loss", "grad_norm", "tflops", "tokens_per_s", "mfu"}) EXPECT_FALSE(step.contains(absent)) << absent;
  }
  EXPECT_EQ(record.ends.at(0)["emulated"], true);
  EXPECT_EQ(read_trace(o.trace).process, "mt-train, emulated compute");
  for (const auto& file : fs::directory_iterator(dir / "curves")) {
    const auto curves = read_file(file.path());
    EXPECT_NE(curves.find("emulated iteration-time"), std::string::npos);
    EXPECT_EQ(curves.find("lm loss"), std::string::npos);
  }
}

// A wait is never shorter than told, so neither are an act and a step; how much longer is for the bench.
TEST(EmulatedCompute, ActsAndStepsLastAtLeastWhatTheClockSays) {
  for (const char* schedule : {"1f1b", "zb-h1", "interleaved", "zb-v"}) {
    const test::TempDir dir;
    auto o = emulated_options(dir, 4);
    o.emulated_ms->backward_weight = 2;
    o.parallel.pp = 2;
    o.parallel.vpp = std::string(schedule) == "interleaved" ? 2 : 1;
    o.schedule = schedule;
    o.trace = dir / "trace.json";
    test::run_tiny(o, 2);
    const auto complete = complete_options(o, 2);
    const double ms = predicted_step(complete, *o.emulated_ms);
    const int micro_batches = complete.batch.num_micro_batches(complete.parallel);
    EXPECT_GT(ms, micro_batches * 10) << "work of a rank, and a bubble";
    const auto record = read_event_log(o.metrics_file);
    EXPECT_EQ(record.runs.at(0)["layout"]["emulated"]["predicted_step_ms"], ms);
    for (const auto& [i, step] : record.steps) EXPECT_GE(step["step_s"].get<double>() * 1e3, ms - 0.01) << schedule;
    for (const auto& row : read_trace(o.trace).rows) {
      EXPECT_EQ(row.steps, 2);
      EXPECT_GE(row.compute_s * 1e3, 2 * micro_batches * 10 - 0.01) << schedule << ", rank " << row.rank;
      EXPECT_GT(row.bubble_s, 0);
    }
  }
}

TEST(EmulatedCompute, IsRefusedWhereSomethingWouldBeMadeOfIt) {
  const test::TempDir dir;
  const auto said = [&](auto set) -> std::string {
    auto o = emulated_options(dir);
    set(o);
    try {
      complete_options(o, 2);
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Code::config);
      return e.what();
    }
    return "nothing";
  };
  EXPECT_EQ(said([](auto&) {}), "nothing");
  const std::pair<std::string, std::string> cases[] = {
      {said([&](auto& o) { o.save = dir / "x"; }), "emulate-compute with save: nothing is trained"},
      {said([&](auto& o) { o.load = dir / "x", o.load_if_present = true; }), "emulate-compute with load"},
      {said([](auto& o) { o.eval_interval = 1; }), "emulate-compute with eval-interval: there is no model to score"},
      {said([](auto& o) { o.deferred_stream = true; }), "emulate-compute with deferred-stream"},
      {said([](auto& o) { o.parallel.tp = 2; }), "emulate-compute with tensor-model-parallel-size above 1"}};
  for (const auto& [text, words] : cases) EXPECT_NE(text.find(words), std::string::npos) << text;
}

}  // namespace
}  // namespace mt
