// Timers and the trace: what a viewer would read, checked for nesting, rows and sums.

#include "train/timeline.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/files.h"
#include "layout/flops.h"
#include "registry/event_log.h"
#include "registry/trace_summary.h"
#include "train/timers.h"
#include "train/tiny_run.h"

namespace mt {
namespace {

struct Span {
  double begin, end;
  std::string name, kind;
  Json args;
};

std::map<int, std::vector<Span>> read_rows(const fs::path& file, std::map<int, std::string>* names = nullptr) {
  const Json trace = Json::parse(read_file(file));
  std::map<int, std::vector<Span>> rows;
  for (const auto& e : trace) {
    if (e["ph"] == "M") {
      if (names && e["name"] == "thread_name") (*names)[e["tid"].get<int>()] = e["args"]["name"];
      continue;
    }
    EXPECT_EQ(e["ph"], "X");
    const double begin = e["ts"].get<double>(), length = e["dur"].get<double>();
    EXPECT_GE(begin, 0);
    EXPECT_GE(length, 0);
    rows[e["tid"].get<int>()].push_back({begin, begin + length, e["name"], e["cat"], e.value("args", Json::object())});
  }
  return rows;
}

// Any two spans of a row are apart or one lies in the other.
void expect_nested(std::vector<Span> row) {
  std::sort(row.begin(), row.end(), [](const Span& a, const Span& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end > b.end;
  });
  std::vector<Span> open;
  for (const auto& s : row) {
    // Times are whole nanoseconds; their sums in double are not quite.
    while (!open.empty() && open.back().end <= s.begin + 1e-4) open.pop_back();
    if (!open.empty()) {
      EXPECT_LE(s.end, open.back().end + 1e-4) << s.name << " in " << open.back().name;
    }
    open.push_back(s);
  }
}

TEST(Trace, HasARowARankWithNestedSpansOfEveryActAndWait) {
  const test::TempDir dir;
  auto o = test::tiny_options(dir);
  o.train_iters = 3;
  o.eval_interval = 3;
  o.eval_iters = 1;
  o.parallel.tp = 2;
  o.parallel.pp = 2;
  o.save = dir / "run";
  o.trace = dir / "trace.json";
  const auto curve = test::run_tiny(o, 8);
  std::map<int, std::string> names;
  const auto rows = read_rows(o.trace, &names);
  ASSERT_EQ(rows.size(), 8u);
  EXPECT_EQ(names[5], "rank 5: tp 1, dp 0, pp 1");
  const int micro_batches = 16 / (2 * 2);
  for (const auto& [rank, row] : rows) {
    expect_nested(row);
    std::map<std::string, int> count;
    std::set<std::pair<std::int64_t, std::int64_t>> forwards;
    std::map<std::string, double> sum;
    for (const auto& s : row) {
      ++count[s.name];
      sum[s.kind] += s.end - s.begin;
      if (s.name == "forward-compute") {
        forwards.emplace(s.args["chunk"].get<std::int64_t>(), s.args["micro_batch"].get<std::int64_t>());
      }
      if (s.kind == "exposed" && s.name.find("barrier") == std::string::npos) {
        EXPECT_GT(s.args["bytes"].get<std::int64_t>(), 0) << s.name;
      }
    }
    EXPECT_EQ(count["iteration"], 3) << rank;
    EXPECT_EQ(count["forward-backward"], 3);
    EXPECT_EQ(count["optimizer"], 3);
    EXPECT_EQ(count["batch-generator"], 3);
    EXPECT_EQ(count["evaluate"], 1);
    EXPECT_EQ(count["save-checkpoint"], 1);
    EXPECT_EQ(count["forward-compute"], 3 * micro_batches);
    EXPECT_EQ(count["backward-compute"], 3 * micro_batches);
    EXPECT_EQ(forwards.size(), static_cast<std::size_t>(micro_batches));
    EXPECT_GT(count["tp all_reduce"], 0);
    EXPECT_GT(sum["exposed"], 0);
    EXPECT_GT(sum["bubble"], 0) << "rank " << rank << " waits for its neighbour stage";
    EXPECT_LT(sum["exposed"] + sum["bubble"], sum["step"] + sum["phase"]);
    // The reader's sums against these: bubbles lie in acts alone, and evaluation and saving outside of steps.
    const TraceRow mine = read_trace(o.trace).rows.at(static_cast<std::size_t>(rank));
    EXPECT_EQ(mine.steps, 3);
    EXPECT_EQ(mine.name, names[rank]);
    EXPECT_NEAR(mine.step_s, sum["step"] * 1e-6, 1e-5);
    EXPECT_LE(mine.exposed_s, sum["exposed"] * 1e-6 + 1e-9);
    EXPECT_LE(mine.bubble_s, sum["bubble"] * 1e-6 + 1e-9);
    EXPECT_LE(mine.compute_s, sum["lane"] * 1e-6 + 1e-9);
    EXPECT_GT(mine.compute_s, 0);
    EXPECT_GT(mine.other_s(), 0);
  }
  // Looking changes nothing.
  o.trace = "";
  o.save = dir / "other";
  const auto blind = test::run_tiny(o, 8);
  EXPECT_EQ(blind.loss, curve.loss);
  EXPECT_EQ(blind.grad_norm, curve.grad_norm);
}

TEST(Timers, ASpanBeginsAndEndsWhenWhatWasLaunchedIsDone) {
  Timeline timeline(false);
  std::vector<std::string> order;
  timeline.settle_with([&] { order.push_back("done"); });
  {
    TimedSpan span(&timeline, Timeline::Kind::phase, "optimizer");
    order.push_back("inside");
  }
  EXPECT_EQ(order, (std::vector<std::string>{"done", "inside", "done"}));
  timeline.settle_with([] { throw Error(Code::device, "lost"); });
  { TimedSpan span(&timeline, Timeline::Kind::phase, "optimizer"); }  // the next call that may throw says it
  EXPECT_EQ(timeline.take_totals().count("optimizer"), 1u);
}

TEST(Timers, AreMegatronsLinesOverRanks) {
  using Kind = Timeline::Kind;
  const std::vector<std::map<std::string, Timeline::Total>> ranks = {
      {{"forward-backward", {Kind::phase, 0.2}}, {"optimizer", {Kind::phase, 0.02}}, {"forward-compute", {Kind::lane, 0.05}},
       {"iteration", {Kind::step, 0.3}}, {"exposed in forward-backward", {Kind::phase, 0.1}}},
      {{"forward-backward", {Kind::phase, 0.22}}, {"optimizer", {Kind::phase, 0.01}}, {"tp all_reduce", {Kind::exposed, 0.01}}}};
  const auto text = timers_text(ranks, {1, "minmax", false}, 2);
  EXPECT_NE(text.find("(min, max) time across ranks (ms):\n"), std::string::npos) << text;
  EXPECT_NE(text.find("\n    forward-backward ...............................: (100.00, 110.00)"), std::string::npos) << text;
  EXPECT_NE(text.find("\n    optimizer ......................................: (5.00, 10.00)"), std::string::npos) << text;
  EXPECT_EQ(text.find("forward-compute"), std::string::npos);
  EXPECT_EQ(text.find("iteration"), std::string::npos);
  const auto two = timers_text(ranks, {2, "max", false}, 2);
  EXPECT_NE(two.find("max time across ranks (ms):"), std::string::npos);
  EXPECT_NE(two.find("forward-compute"), std::string::npos);
  EXPECT_NE(two.find("tp all_reduce"), std::string::npos);
  EXPECT_NE(timers_text(ranks, {1, "all", false}, 1).find("\n     rank  1: 220.00"), std::string::npos);
  EXPECT_EQ(timers_text(ranks, {0, "minmax", false}, 1), "");
  EXPECT_EQ(straggler_text(ranks, 2), "straggler: compute (ms) min 50.00 on rank 0, max 110.00 on rank 1 (2.20 times)");
  EXPECT_EQ(totals_from_text(totals_text(ranks[0])).at("optimizer").seconds, 0.02);
}

TEST(Timers, OfARunAreTakenAtEachLogLineAndStartAnewBehindIt) {
  const test::TempDir dir;
  auto o = test::tiny_options(dir);
  o.train_iters = 5;
  o.log_interval = 2;
  o.timers = {2, "minmax", true};
  testing::internal::CaptureStdout();
  test::run_tiny(o, 2);
  const auto text = testing::internal::GetCapturedStdout();
  const auto times = [&](const std::string& what) {
    int n = 0;
    for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
    return n;
  };
  for (const char* want : {"(min, max) time across ranks", "    forward-backward ...", "    batch-generator ...",
                           "    optimizer ...", "    forward-compute ...", "    backward-compute ...", "straggler: compute"})
    EXPECT_EQ(times(want), 4) << want << " in:\n" << text;  // after iterations 1, 2, 4, 5
}

TEST(Throughput, StandsInTheRecordInThreeReadings) {
  const test::TempDir dir;
  auto o = test::tiny_options(dir);
  o.train_iters = 2;
  test::run_tiny(o, 1);
  const auto complete = complete_options(o, 1);
  const auto flops = step_flops(model_of(complete), complete.parallel, complete.batch);
  for (const auto& [i, s] : read_event_log(o.metrics_file).steps) {
    const double seconds = s["step_s"];
    EXPECT_NEAR(s["tflops"].get<double>() * seconds * 1e12, flops.causal, 1e-6 * flops.causal);
    EXPECT_NEAR(s["tflops_non_causal"].get<double>() * seconds * 1e12, flops.non_causal, 1e-6 * flops.causal);
    EXPECT_NEAR(s["tflops_with_recompute"].get<double>() * seconds * 1e12, flops.with_recompute, 1e-6 * flops.causal);
    EXPECT_GT(flops.non_causal, flops.causal);
  }
}

TEST(Trace, AFileThatIsNoTraceIsNotOverwritten) {
  const test::TempDir dir;
  auto o = test::tiny_options(dir);
  o.train_iters = 1;
  o.trace = dir / "notes.txt";
  const auto code = [&] {
    try {
      test::run_tiny(o, 1);
    } catch (const Error& e) {
      return static_cast<int>(e.code());
    }
    return 0;
  };
  for (const std::string text : {"{\"event\":\"run\"}\n", "{", "[\n{\"ph\":\"X\",\"pid\":0,\"name\":\"process_name\",\"args\":{}}]\n"}) {
    write_file_atomic(o.trace, text);
    EXPECT_EQ(code(), 3) << text;
    EXPECT_EQ(read_file(o.trace), text);
  }
  o.trace = o.metrics_file;  // the record this run makes
  fs::remove(o.trace);
  EXPECT_EQ(code(), 3);
  o.trace = dir / "trace.json";
  write_file_atomic(o.trace, "");
  EXPECT_EQ(code(), 0) << "an empty file";
  o.train_iters = 2;
  EXPECT_EQ(code(), 0) << "a trace of ours";
  EXPECT_NE(read_file(o.trace).find("\"iteration\":2"), std::string::npos);
}

}  // namespace
}  // namespace mt
