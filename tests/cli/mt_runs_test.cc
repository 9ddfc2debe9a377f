#include <algorithm>
#include <fstream>

#include "cli/run_tool.h"
#include "registry/event_log.h"

namespace mt {
namespace {

struct MtRuns : test::ToolTest {
  std::string write_run(const std::string& name, const Json& options, int steps) {
    fs::create_directories(*this / name);
    EventLog log(*this / name / "run.jsonl");
    auto run = run_event("mt-train", "0.1.0", options);
    run["run_id"] = log.run_id();
    log.append(run);
    for (int i = 1; i <= steps; ++i) log.append({{"event", "step"}, {"iteration", i}, {"loss", 5.0 / i}});
    log.append({{"event", "evaluation"}, {"iteration", steps}, {"name", "valid"}, {"loss", 2.5}});
    log.append(end_event("done", 1));
    return log.run_id();
  }
};

TEST_F(MtRuns, IndexFindsEventFilesAndListShowsTheRuns) {
  const auto a = write_run("x/a", {{"lr", "0.001"}, {"seed", "1"}}, 4), b = write_run("x/b", {{"lr", "0.002"}, {"seed", "1"}}, 2);
  std::ofstream(*this / "x/b/run.jsonl", std::ios::app) << "not an event\n";
  const auto rows = good("mt-runs index x").rows();
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[1], (std::vector<std::string>{"x/a/run.jsonl", "indexed", "0"}));
  EXPECT_EQ(rows[2], (std::vector<std::string>{"x/b/run.jsonl", "indexed", "1"}));
  const auto runs = good("mt-runs list --json").objects();
  ASSERT_EQ(runs.size(), 2u);
  for (const auto& r : runs) {
    EXPECT_EQ(r["status"], "done");
    EXPECT_EQ(r["last_loss"], r["run_id"] == a ? 1.25 : 2.5);
    EXPECT_TRUE(r["run_id"] == a || r["run_id"] == b);
  }
  EXPECT_EQ(good("mt-runs list").rows().size(), 3u);
}

TEST_F(MtRuns, IndexRefusesWhatIsNoRegularFileAndPassesItOverInADirectory) {
  write_run("x/a", {{"lr", "0.001"}}, 2);
  good("mkfifo pipe && mkdir x/b && mkfifo x/b/run.jsonl");
  for (const char* file : {"pipe", "/dev/null", "x/b/run.jsonl"}) {
    const auto o = run(std::string("timeout 10 mt-runs index --registry zz.db ") + file);
    EXPECT_EQ(o.status, 4) << file;
    EXPECT_CONTAINS(o.err, "an event file is a regular file, this is none");
  }
  EXPECT_FALSE(fs::exists(*this / "zz.db"));
  for (const char* command : {"list", "index x/a"}) {
    const auto o = run(std::string("timeout 10 mt-runs ") + command + " --registry pipe");
    EXPECT_EQ(o.status, 5) << command;
    EXPECT_CONTAINS(o.err, "a registry is a regular file, this is none");
  }
  EXPECT_EQ(good("timeout 10 mt-runs index --registry zz.db x").rows().size(), 2u);
}

TEST_F(MtRuns, ShowPrintsOptionsEvaluationsAndStepsWhenAsked) {
  const auto id = write_run("a", {{"lr", "0.001"}}, 3);
  good("mt-runs index --registry r.db a/run.jsonl");
  const auto text = good("mt-runs show --registry r.db " + id).out;
  EXPECT_CONTAINS(text, "option\tlr\t0.001");
  EXPECT_CONTAINS(text, "evaluation\t{");
  EXPECT_EQ(text.find("step\t"), std::string::npos);
  EXPECT_CONTAINS(good("mt-runs show --steps --registry r.db " + id.substr(0, id.size() - 2)).out, "step\t{");
  EXPECT_EQ(good("MT_REGISTRY=r.db mt-runs show last --steps --json").objects()[0]["step_events"].size(), 3u);
}

TEST_F(MtRuns, CompareShowsWhatDiffers) {
  const auto a = write_run("a", {{"lr", "0.001"}, {"seed", "1"}}, 4), b = write_run("b", {{"lr", "0.002"}, {"seed", "1"}}, 2);
  good("mt-runs index");
  const auto text = good("mt-runs compare " + a + " " + b).out;
  EXPECT_CONTAINS(text, "option lr\t0.001\t0.002");
  EXPECT_CONTAINS(text, "last_loss\t1.250000\t2.500000");
  EXPECT_EQ(text.find("option seed"), std::string::npos);
  EXPECT_CONTAINS(good("mt-runs compare --all " + a + " " + b).out, "option seed\t1\t1");
}

// An evaluation is a run without steps; what it found is what two of them are compared by.
TEST_F(MtRuns, EvaluationsAreComparedByWhatTheyFound) {
  for (const char* name : {"a", "b"}) {
    fs::create_directories(*this / name);
    EventLog log(*this / name / "run.jsonl");
    auto start = run_event("mt-eval", "0.1.0", Json::object());
    start["run_id"] = name;
    log.append(start);
    log.append({{"event", "evaluation"}, {"iteration", 6}, {"name", "perplexity"}, {"token_ppl", *name == 'a' ? 12.5 : 13.5}});
    log.append(end_event("done", 1));
  }
  good("mt-runs index");
  const auto text = good("mt-runs compare a b").out;
  EXPECT_CONTAINS(text, "evaluation perplexity token_ppl\t12.5\t13.5");
  EXPECT_CONTAINS(text, "last_iteration\t-\t-");
  EXPECT_CONTAINS(good("mt-runs show a").out, "last_iteration\t-");
  EXPECT_TRUE(good("mt-runs show a --json").objects()[0]["last_iteration"].is_null());
}

TEST_F(MtRuns, LookingLeavesNothingBesideTheRegistry) {
  write_run("a", Json::object(), 2);
  good("mkdir '100% #1?' && mt-runs index --registry '100% #1?/r.db' a");
  const auto before = good("ls -A '100% #1?'").out;
  for (const char* command : {"list", "show last", "compare last last"})
    EXPECT_CONTAINS(good(std::string("mt-runs ") + command + " --registry '100% #1?/r.db'").out, "done");
  EXPECT_EQ(good("ls -A '100% #1?'").out, before);
  EXPECT_EQ(before, "r.db\n");
}

TEST_F(MtRuns, LookingNeverMakesARegistryAndErrorsHaveTheirStatus) {
  EXPECT_EQ(run("mt-runs list").status, 5);
  EXPECT_FALSE(fs::exists(*this / "mt-runs.db"));
  EXPECT_EQ(run("mt-runs index").status, 4);
  EXPECT_EQ(run("mt-runs index none").status, 5);
  std::ofstream(*this / "text.db") << std::string(2000, 'x');
  EXPECT_EQ(run("mt-runs list --registry text.db").status, 6);
  write_run("a", Json::object(), 1);
  good("mt-runs index");
  const auto refused = run("mt-runs index --registry /proc/x.db");
  EXPECT_EQ(refused.status, 5);
  EXPECT_EQ(std::count(refused.err.begin(), refused.err.end(), '\n'), 1) << refused.err;
  EXPECT_EQ(refused.out, "");
  EXPECT_EQ(run("mt-runs index --registry none").status, 2);
  EXPECT_EQ(run("mt-runs show zzz").status, 3);
  EXPECT_EQ(run("mt-runs show").status, 2);
  EXPECT_EQ(run("mt-runs compare last").status, 2);
}

}  // namespace
}  // namespace mt
