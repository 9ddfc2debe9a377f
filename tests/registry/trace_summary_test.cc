#include "registry/trace_summary.h"

#include <fstream>

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/temporary_directory.h"

namespace mt {
namespace {

std::string event(int rank, const char* kind, double begin_us, double length_us) {
  return fmt::format(",\n{{\"ph\":\"X\",\"pid\":0,\"tid\":{},\"ts\":{},\"dur\":{},\"name\":\"n\",\"cat\":\"{}\"}}", rank, begin_us,
                     length_us, kind);
}

// Of rank 0 two steps of a second: a forward of 0.4 s that stands still for 0.1 s, a wait of 0.2 s for a tensor.
std::string two_ranks() {
  std::string text = std::string(kTraceBegins) + "\"args\":{\"name\":\"a run\"}}";
  text += ",\n{\"ph\":\"M\",\"pid\":0,\"tid\":0,\"name\":\"thread_name\",\"args\":{\"name\":\"first\"}}";
  for (const double at : {0.0, 2e6}) {
    text += event(0, "exposed", at + 2e5, 1e5) + event(0, "lane", at + 1e5, 4e5);
    text += event(0, "bubble", at + 6e5, 2e5) + event(0, "lane", at + 6e5, 2e5);
    text += event(0, "phase", at, 9e5) + event(0, "step", at, 1e6);
    text += event(0, "exposed", at + 1.2e6, 5e5);  // between steps: a save
  }
  return text + event(1, "lane", 10, 1e6) + event(1, "step", 0, 2e6);
}

TEST(TraceSummary, SplitsStepsIntoWhatTheyWere) {
  const test::TemporaryDirectory dir;
  std::ofstream(dir / "t") << two_ranks() << "\n]\n";
  const auto t = read_trace(dir / "t");
  EXPECT_TRUE(t.whole);
  EXPECT_EQ(t.process, "a run");
  ASSERT_EQ(t.rows.size(), 2u);
  const auto& r = t.rows[0];
  EXPECT_EQ(r.name, "first");
  EXPECT_EQ(r.steps, 2);
  EXPECT_NEAR(r.step_s, 2, 1e-9);
  EXPECT_NEAR(r.compute_s, 0.6, 1e-9);
  EXPECT_NEAR(r.exposed_s, 0.2, 1e-9);
  EXPECT_NEAR(r.bubble_s, 0.4, 1e-9);
  EXPECT_NEAR(r.other_s(), 0.8, 1e-9);
  EXPECT_NEAR(t.rows[1].compute_s, 1, 1e-9);
  const auto second = read_trace(dir / "t", 1).rows[0];
  EXPECT_EQ(second.steps, 1);
  EXPECT_NEAR(second.step_s, 1, 1e-9);
  EXPECT_NEAR(second.exposed_s, 0.1, 1e-9);
}

TEST(TraceSummary, RefusesRowsAndTimesNoRunHas) {
  const test::TemporaryDirectory dir;
  for (const std::string& wrong :
       {event(-1, "step", 0, 1), event(1 << 30, "step", 0, 1), event(0, "step", 0, -5), event(0, "step", 0, 1e308),
        event(0, "step", 1e300, 1), std::string(",\n{\"ph\":\"X\",\"tid\":1e300,\"ts\":0,\"dur\":1,\"cat\":\"step\"}")}) {
    std::ofstream(dir / "t") << two_ranks() << wrong << "\n]\n";
    try {
      read_trace(dir / "t");
      FAIL() << wrong;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Code::corrupt);
      EXPECT_NE(std::string(e.what()).find("a line is no event"), std::string::npos) << e.what();
    }
  }
}

TEST(TraceSummary, SaysThatThereIsMoreBehindTheEnd) {
  const test::TemporaryDirectory dir;
  std::ofstream(dir / "t") << two_ranks() << "\n]\n";
  const auto one = read_trace(dir / "t");
  EXPECT_TRUE(one.whole);
  EXPECT_FALSE(one.more);
  std::ofstream(dir / "t", std::ios::app) << two_ranks() << "\n]\n";
  const auto t = read_trace(dir / "t");
  EXPECT_TRUE(t.more);
  EXPECT_EQ(t.rows[0].steps, one.rows[0].steps);
}

TEST(TraceSummary, ReadsAFileThatIsCutAnywhereBehindItsHead) {
  const test::TemporaryDirectory dir;
  const std::string text = two_ranks();
  for (std::size_t length = kTraceBegins.size(); length < text.size(); length += 7) {
    std::ofstream(dir / "t") << text.substr(0, length);
    const auto t = read_trace(dir / "t");
    EXPECT_FALSE(t.whole);
    if (!t.rows.empty()) {
      EXPECT_LE(t.rows[0].step_s, 2 + 1e-9);
    }
  }
}

TEST(TraceSummary, OfAnotherFileIsAnError) {
  const test::TemporaryDirectory dir;
  const auto code = [&](const std::string& text) {
    std::ofstream(dir / "t") << text;
    try {
      read_trace(dir / "t");
    } catch (const Error& e) {
      return e.code();
    }
    return Code::difference;
  };
  EXPECT_EQ(code("{\"event\":\"run\"}\n"), Code::corrupt);
  EXPECT_EQ(code(""), Code::corrupt);
  EXPECT_EQ(code(two_ranks() + ",\nnonsense,\n{}\n"), Code::corrupt);
  EXPECT_THROW(read_trace(dir / "absent"), Error);
}

}  // namespace
}  // namespace mt
