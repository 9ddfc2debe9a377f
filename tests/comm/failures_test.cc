// What goes wrong between ranks is said with names: time-outs, disagreement, a failing rank, a forgotten handle.
//
// A failed operation leaves messages behind, so under MPI each of these has a job of its own (tests/comm/comm.cmake).

#include <chrono>
#include <thread>

#include "base/error.h"
#include "comm/ranks.h"

namespace mt::test {
namespace {

class Failures : public OnRanks {
 protected:
  void SetUp() override {
    if (ranks() < 2) GTEST_SKIP() << "one rank has no peer";
    if (GetParam().name == "mpi" && !std::getenv("MT_TEST_FAILURES"))
      GTEST_SKIP() << "leaves messages behind: has a job of its own";
  }
  // The error a rank's body ended with, "" for none.
  std::string error_of(Communicator& c, const Body& body) {
    try {
      body(c);
      return "";
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Code::comm);
      return e.what();
    }
  }
  // Stay away until the others have given up.
  void outlast() {
    const double limit = GetParam().name == "mpi" ? comm_options().timeout_s : short_limit().timeout_s;
    std::this_thread::sleep_for(std::chrono::duration<double>(limit + 0.3));
  }
  CommOptions short_limit() {
    CommOptions o = comm_options();
    o.timeout_s = GetParam().name == "nccl" ? 2 : 0.3;  // the emulated device takes its time
    return o;
  }
};

void expect_says(const std::string& text, std::initializer_list<std::string> parts) {
  for (const auto& part : parts) EXPECT_NE(text.find(part), std::string::npos) << "'" << part << "' not in: " << text;
}

TEST_P(Failures, ATimeOutNamesGroupOperationNumberAndTheMissingRank) {
  on_ranks(GetParam(), [&](Communicator& world) {
    const auto c = world.make_group(world.world_ranks(), "tp");
    Stream s;
    std::vector<float> x(1000);
    const View v(x.data(), DType::f32, {1000});
    c->all_reduce(s, v, Reduce::sum).wait_host();
    const std::string error = error_of(*c, [&](Communicator&) {
      if (world.rank() != 1) c->all_reduce(s, v, Reduce::sum).wait_host();
    });
    if (world.rank() == 1) outlast();
    if (world.rank() != 1) expect_says(error, {"group tp", "all_reduce", "number 1", "from rank 1"});
  }, short_limit());
}

TEST_P(Failures, AMessageThatNeverComesNamesThePeer) {
  on_ranks(GetParam(), [&](Communicator& c) {
    Stream s;
    float x = 0;
    if (c.rank() == 0)
      expect_says(error_of(c, [&](Communicator&) { c.recv(s, View(&x, DType::f32, {1}), 1).wait_host(); }),
                  {"group world", "recv", "1"});
    else
      outlast();
  }, short_limit());
}

TEST_P(Failures, RanksThatCallDifferentOperationsAreTold) {
  if (GetParam().name == "nccl") GTEST_SKIP() << "NCCL does not compare; the emulated one stops the program";
  CommOptions o = comm_options();
  o.timeout_s = 5;
  std::string first;
  try {
    on_ranks(GetParam(), [&](Communicator& c) {
      Stream s;
      std::vector<float> x(8), y(8 * static_cast<std::size_t>(c.size()));
      const std::string error = error_of(c, [&](Communicator&) {
        if (c.rank() == 0)
          c.all_gather(s, View(x.data(), DType::f32, {8}), View(y.data(), DType::f32, {8 * c.size()})).wait_host();
        else
          c.all_reduce(s, View(x.data(), DType::f32, {8}), Reduce::sum).wait_host();
      });
      EXPECT_NE(error, "");
      if (GetParam().name == "mpi" && c.rank() == 0) expect_says(error, {"disagree", "all_reduce", "all_gather", "rank"});
      // In process the later rank finds out, and its failure ends the others.
      if (GetParam().name == "threads") throw Error(Code::comm, error);
    }, o);
  } catch (const Error& e) {
    first = e.what();
    expect_says(first, {"all_reduce", "all_gather", "rank 0 calls"});
  }
  if (GetParam().name == "threads") {
    EXPECT_NE(first, "");
  }
}

TEST_P(Failures, RanksThatDisagreeOnTheSizeAreTold) {
  if (GetParam().name == "nccl") GTEST_SKIP() << "NCCL does not compare; the emulated one stops the program";
  CommOptions o = comm_options();
  o.timeout_s = 5;
  std::string first;
  try {
    on_ranks(GetParam(), [&](Communicator& c) {
      Stream s;
      std::vector<float> x(2000);
      const View v(x.data(), DType::f32, {c.rank() == 0 ? 1000 : 2000});
      const std::string error = error_of(c, [&](Communicator&) { c.all_reduce(s, v, Reduce::sum).wait_host(); });
      EXPECT_NE(error, "");
      if (GetParam().name == "mpi" && c.rank() == 0) expect_says(error, {"disagree", "size"});
      if (GetParam().name == "threads") throw Error(Code::comm, error);
    }, o);
  } catch (const Error& e) {
    first = e.what();
    expect_says(first, {"4000", "8000"});
  }
  if (GetParam().name == "threads") {
    EXPECT_NE(first, "");
  }
}

TEST_P(Failures, OfOneThreadEndTheOthersAndComeOutFirst) {
  if (GetParam().name != "threads") GTEST_SKIP() << "under MPI a drill does this (tests/drills/)";
  try {
    on_ranks(GetParam(), [&](Communicator& c) {
      Stream s;
      std::vector<float> x(100000, 1);
      const View v(x.data(), DType::f32, {100000});
      c.all_reduce(s, v, Reduce::sum).wait_host();
      Handle h = c.all_reduce(s, v, Reduce::sum);
      if (c.rank() == c.size() - 1) throw Error(Code::data, "broken on purpose");
      h.wait_host();
      c.all_reduce(s, v, Reduce::sum).wait_host();
      ADD_FAILURE() << "rank " << c.rank() << " went on";
    });
    ADD_FAILURE() << "nothing thrown";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::data);
    EXPECT_STREQ(e.what(), "broken on purpose");
  }
}

INSTANTIATE_TEST_SUITE_P(Comm, Failures, testing::ValuesIn(backends()), backend_text);

struct NeverDone final : Handle::Work {
  bool test() override { return false; }
  void wait() override {}
};

TEST(HandleDeathTest, DroppedBeforeItWasWaitedForIsABug) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_DEATH({ Handle h(std::make_unique<NeverDone>()); }, "dropped before it was waited for");
  EXPECT_DEATH(
      {
        Handle h(std::make_unique<NeverDone>());
        h = Handle();
      },
      "overwritten before it was waited for");
}

TEST(Handle, MovedFromIsComplete) {
  Handle a(std::make_unique<NeverDone>());
  Handle b = std::move(a);
  EXPECT_TRUE(a.test());  // NOLINT: that is the question
  EXPECT_FALSE(b.test());
  b.wait_host();
  EXPECT_TRUE(b.test());
}

}  // namespace
}  // namespace mt::test
