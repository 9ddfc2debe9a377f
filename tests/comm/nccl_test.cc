// NCCL's own: streams and events without the host, sums of its fast path, channels, and what goes wrong there.

#include "comm/nccl.h"

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <numeric>
#include <thread>

#include "base/error.h"
#include "comm/device_ranks.h"
#include "comm/device_world.h"
#include "comm/graph_operations.h"
#include "comm/ranks.h"
#include "device/graph.h"
#include "tensor/tensor.h"

namespace mt::test {
namespace {

CommOptions limit(double seconds) {
  CommOptions o;
  o.timeout_s = seconds;
  return o;
}

void on_nccl_ranks(int n, const Body& body, const CommOptions& options = limit(60), bool rank_order = false) {
  if (const auto why = why_no_nccl(n); !why.empty()) GTEST_SKIP() << why;
  comm::run_local_ranks(n, options, [&](std::unique_ptr<Communicator> world) {
    body(*comm::nccl_world(*world, rank_device(*world), {rank_order}));
  });
}

// n floats on the rank's device: first, first + 1, …
Tensor numbers(Stream& stream, float first, std::int64_t n) {
  Tensor t(stream.device(), DType::f32, {n});
  std::vector<float> values(static_cast<std::size_t>(n));
  std::iota(values.begin(), values.end(), first);
  set_elements<float>(stream, t, values);
  return t;
}

std::string error_of(const std::function<void()>& body) {
  try {
    body();
    return "nothing was wrong";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::comm);
    return e.what();
  }
}

void expect_says(const std::string& text, std::initializer_list<std::string> parts) {
  for (const auto& part : parts) EXPECT_NE(text.find(part), std::string::npos) << "'" << part << "' not in: " << text;
}

TEST(Nccl, WorkLaunchedBeforeIsInWhatIsSentAndWhatFollowsSeesTheResult) {
  for (const bool rank_order : {false, true})
    on_nccl_ranks(2, [](Communicator& world) {
      Stream s(rank_device(world));
      const Tensor from = numbers(s, static_cast<float>(100 * world.rank()), 1000);
      const Tensor x(s.device(), DType::f32, {1000}), y(s.device(), DType::f32, {1000});
      for (int i = 0; i < 3; ++i) {
        copy_bytes(s, x.view().data, from.view().data, x.bytes());
        world.all_reduce(s, x, Reduce::sum).wait(s);
        copy_bytes(s, y.view().data, x.view().data, x.bytes());
        zero_bytes(s, x.view().data, x.bytes());
      }
      EXPECT_EQ(elements(s, y.view())[999], 100.0f + 2 * 999);
    }, limit(60), rank_order);
}

TEST(Nccl, EveryCollectiveAndMessageIsAwaitedByTheStreamAlone) {
  on_nccl_ranks(3, [](Communicator& world) {
    Stream s(rank_device(world)), other(rank_device(world));
    const int r = world.rank(), n = world.size();
    const Tensor x = numbers(s, static_cast<float>(100 * r), 6);
    const Tensor all(s.device(), DType::f32, {6 * n}), part(s.device(), DType::f32, {2}), turned(s.device(), DType::f32, {6});
    const Tensor got(s.device(), DType::f32, {6}), seen(s.device(), DType::f32, {6 * n});
    Handle gathered = world.all_gather(s, x, all), scattered = world.reduce_scatter(s, x, part, Reduce::sum);
    Handle crossed = world.all_to_all(s, x, turned);
    const auto pp = world.make_group({0, 1, 2}, "pp");
    Handle sent = pp->send(s, x, (r + 1) % n), arrives = pp->recv(s, got, (r + n - 1) % n);
    for (Handle* h : {&crossed, &arrives, &gathered, &sent, &scattered}) h->wait(other);
    copy_bytes(other, seen.view().data, all.view().data, all.bytes());
    zero_bytes(other, all.view().data, all.bytes());
    const auto whole = elements(other, seen.view());
    for (int q = 0; q < n; ++q) EXPECT_EQ(whole[static_cast<std::size_t>(6 * q + 5)], static_cast<float>(100 * q + 5));
    EXPECT_EQ(elements(other, part.view())[1], 300.0f + 3 * static_cast<float>(2 * r + 1));
    for (int q = 0; q < n; ++q)
      EXPECT_EQ(elements(other, turned.view())[static_cast<std::size_t>(2 * q)], static_cast<float>(100 * q + 2 * r));
    EXPECT_EQ(elements(other, got.view())[0], static_cast<float>(100 * ((r + n - 1) % n)));
    world.broadcast(other, x, 2).wait(other);
    EXPECT_EQ(elements(other, x.view())[0], 200.0f);
  });
}

TEST(Nccl, NeitherAStartNorAWaitHoldsUpTheHost) {
  std::atomic<bool> waited = false;
  on_nccl_ranks(2, [&](Communicator& world) {
    Stream s(rank_device(world));
    const Tensor x = numbers(s, 1, 100);
    // The other rank does not come before this one's host is through.
    while (world.rank() == 1 && !waited) std::this_thread::yield();
    world.all_reduce(s, x, Reduce::sum).wait(s);
    waited = true;
    EXPECT_EQ(elements(s, x.view())[0], 2.0f);
  });
}

// The same on every rank, near the exact sum, and integers exact; bits are NCCL's own.
TEST(Nccl, SumsOfItsFastPathAreEqualOnAllRanksAndNearTheExactOnes) {
  for (const std::int64_t chunk : {std::int64_t{1} << 30, std::int64_t{104}}) {
    CommOptions o = limit(60);
    o.max_chunk_bytes = chunk;
    on_nccl_ranks(3, [](Communicator& world) {
      Stream s(rank_device(world));
      const std::int64_t n = 300;
      const auto value = [](int rank, std::int64_t i) { return std::sin(static_cast<float>(i + 1000 * rank)); };
      std::vector<float> mine;
      for (std::int64_t i = 0; i < n; ++i) mine.push_back(value(world.rank(), i));
      const Tensor x(s.device(), DType::f32, {n}), part(s.device(), DType::f32, {n / 3}), all(s.device(), DType::f32, {3 * n});
      set_elements<float>(s, x, mine);
      world.reduce_scatter(s, x, part, Reduce::sum).wait(s);
      world.all_reduce(s, x, Reduce::sum).wait(s);
      world.all_gather(s, x, all).wait(s);
      const auto sums = elements(s, all.view()), parts = elements(s, part.view());
      for (std::int64_t i = 0; i < n; ++i) {
        double want = 0;
        for (int r = 0; r < 3; ++r) want += static_cast<double>(value(r, i));
        const auto at = static_cast<std::size_t>(i);
        EXPECT_NEAR(sums[at], want, 1e-6);
        for (std::size_t r = 1; r < 3; ++r) EXPECT_EQ(sums[r * static_cast<std::size_t>(n) + at], sums[at]);
        if (i / (n / 3) == world.rank()) {
          EXPECT_NEAR(parts[at % static_cast<std::size_t>(n / 3)], want, 1e-6);
        }
      }
      const Tensor big(s.device(), DType::i64, {3});
      const std::vector<std::int64_t> whole{(std::int64_t{1} << 53) + world.rank(), -1, world.rank()};
      set_elements<std::int64_t>(s, big, whole);
      world.all_reduce(s, big, Reduce::sum).wait(s);
      EXPECT_EQ(elements<std::int64_t>(s, big.view()), (std::vector<std::int64_t>{3 * (std::int64_t{1} << 53) + 3, -3, 3}));
      world.all_reduce(s, big, Reduce::max).wait(s);
      EXPECT_EQ(elements<std::int64_t>(s, big.view())[2], 3);
    }, o);
  }
}

TEST(Nccl, ANaNWinsAMaximumFromAnyRank) {
  for (const int from : {0, 1, 2})
    on_nccl_ranks(3, [from](Communicator& world) {
      Stream s(rank_device(world));
      const Tensor x(s.device(), DType::f32, {2});
      const std::vector<float> mine{world.rank() == from ? NAN : 5.0f, static_cast<float>(world.rank())};
      set_elements<float>(s, x, mine);
      world.all_reduce(s, x, Reduce::max).wait(s);
      const auto got = elements(s, x.view());
      EXPECT_TRUE(std::isnan(got[0])) << from;
      EXPECT_EQ(got[1], 2.0f);
    });
}

// A receive that waits for a whole round of other messages holds none of them up.
TEST(Nccl, MessagesOfAChannelDoNotWaitForThoseOfAnotherDirectionOrChannel) {
  on_nccl_ranks(3, [](Communicator& world) {
    Stream s(rank_device(world));
    const int r = world.rank();
    const auto down = world.make_group({0, 1, 2}, "pp-channel-0"), up = world.make_group({0, 1, 2}, "pp-channel-1");
    const Tensor x = numbers(s, static_cast<float>(r), 10), late(s.device(), DType::f32, {10});
    const Tensor early(s.device(), DType::f32, {10}), back(s.device(), DType::f32, {10});
    for (int round = 0; round < 2; ++round) {
      std::vector<Handle> h;
      if (r == 1) {
        h.push_back(down->recv(s, late, 0));  // comes last
        h.push_back(down->send(s, x, 2));
      } else if (r == 2) {
        down->recv(s, early, 1).wait(s);
        h.push_back(up->send(s, early, 0));
      } else {
        up->recv(s, back, 2).wait(s);
        h.push_back(down->send(s, back, 1));
      }
      for (auto& each : h) each.wait(s);
      if (r == 1) {
        EXPECT_EQ(elements(s, late.view())[9], 10.0f);
      }
    }
  });
}

TEST(Nccl, GroupsOfTheSameRanksKeepTheirNamesAndNumbersOfTheHostGoThroughTheHost) {
  on_nccl_ranks(2, [](Communicator& world) {
    Stream s(rank_device(world));
    const auto tp = world.make_group({0, 1}, "tp"), dp = world.make_group({0, 1}, "dp");
    const Tensor x = numbers(s, 1, 4), y = numbers(s, 2, 4);
    Handle a = tp->all_reduce(s, x, Reduce::sum), b = dp->all_reduce(s, y, Reduce::sum);
    b.wait(s);
    a.wait(s);
    EXPECT_EQ(elements(s, x.view())[3], 8.0f);
    EXPECT_EQ(elements(s, y.view())[3], 10.0f);
    EXPECT_EQ(dp->name(), "dp");
    std::int64_t count = world.rank() + 1;
    tp->all_reduce(s, View(&count, DType::i64, {1}), Reduce::sum).wait_host();
    EXPECT_EQ(count, 3);
  });
}

TEST(Nccl, ASynchroniseBehindAPeerThatNeverComesEndsAndTheNextCallSaysWhoIsMissing) {
  on_nccl_ranks(2, [](Communicator& world) {
    Stream s(rank_device(world));
    const auto tp = world.make_group({0, 1}, "tp");
    const Tensor x = numbers(s, 1, 100);
    tp->all_reduce(s, x, Reduce::sum).wait(s);
    s.synchronize();
    if (world.rank() == 1) return std::this_thread::sleep_for(std::chrono::seconds(4));
    tp->all_reduce(s, x, Reduce::sum).wait(s);
    s.synchronize();  // ended by the abort
    const std::string error = error_of([&] { world.barrier(s).wait_host(); });
    expect_says(error, {"no answer after", "from rank 1", "group tp all_reduce number 1", "400 bytes", "rank 0"});
    EXPECT_EQ(error_of([&] { tp->progress(); }), error);
  }, limit(2));
}

TEST(Nccl, AnAsynchronousErrorEndsTheRankThatSeesIt) {
  if (on_cpu() || !cuda_backend().emulated) GTEST_SKIP() << "planted by the emulation";
  ::setenv("MT_EMULATION_NCCL_ERROR", "0:2", 1);
  on_nccl_ranks(2, [](Communicator& world) {
    Stream s(rank_device(world));
    const Tensor x = numbers(s, 1, 100);
    world.all_reduce(s, x, Reduce::sum).wait(s);
    const std::string error = error_of([&] { world.all_reduce(s, x, Reduce::sum).wait_host(); });
    if (world.rank() == 0) expect_says(error, {"NCCL failed", "remote process exited", "group world all_reduce number 1"});
    else expect_says(error, {"no answer after", "group world all_reduce number 1"});
  }, limit(2));
  ::unsetenv("MT_EMULATION_NCCL_ERROR");
}

TEST(Nccl, ARankThatFailsEndsThoseThatWaitForTheDevice) {
  if (const auto why = why_no_nccl(3); !why.empty()) GTEST_SKIP() << why;
  try {
    on_nccl_ranks(3, [](Communicator& world) {
      Stream s(rank_device(world));
      const Tensor x = numbers(s, 1, 100);
      world.all_reduce(s, x, Reduce::sum).wait(s);
      if (world.rank() == 2) throw Error(Code::data, "broken on purpose");
      world.all_reduce(s, x, Reduce::sum).wait(s);
      s.synchronize();
      expect_says(error_of([&] { world.all_reduce(s, x, Reduce::sum); }), {"rank 2 failed while this rank waited"});
    });
    ADD_FAILURE() << "nothing thrown";
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "broken on purpose");
  }
}

// Collectives inside a graph of the device, launched as the trainer does.
struct Captured {
  std::unique_ptr<comm::GraphOperations> operations;
  Graph graph;
  Captured(Communicator& world, Stream& s, const std::function<void()>& work) {
    auto* capture = comm::graph_capture(world);
    MT_CHECK(capture != nullptr, "no graphs");
    capture->begin_capture();
    graph = Graph::capture(s, work);
    operations = capture->end_capture();
  }
  void launch(Stream& s) const {
    operations->before_launch(s);
    graph.launch(s);
    operations->after_launch(s);
  }
};

TEST(NcclGraph, EveryLaunchSendsWhatIsThereThen) {
  for (const bool rank_order : {false, true})
    on_nccl_ranks(3, [](Communicator& world) {
      Stream s(rank_device(world));
      const int r = world.rank();
      const auto tp = world.make_group({0, 1, 2}, "tp");
      const Tensor x(s.device(), DType::f32, {900}), y(s.device(), DType::f32, {900}), all(s.device(), DType::f32, {2700});
      const auto work = [&] {
        copy_bytes(s, y.view().data, x.view().data, x.bytes());
        tp->all_reduce(s, y, Reduce::sum).wait(s);
        tp->all_gather(s, y, all).wait(s);
        zero_bytes(s, y.view().data, y.bytes());
      };
      const auto set = [&](float first) {
        std::vector<float> values(900, first * static_cast<float>(r + 1));
        set_elements<float>(s, x, values);
      };
      set(1);
      work();
      s.synchronize();
      const Captured both(world, s, work);
      const Tensor beside = numbers(s, 1, 100), more = numbers(s, 1, 3000);
      Stream other(s.device());
      for (const float first : {2.0f, 3.0f, 5.0f}) {
        set(first);
        Handle before = tp->all_reduce(s, beside, Reduce::sum);  // under way when the graph is launched
        both.launch(s);
        both.launch(s);
        tp->all_reduce(other, more, Reduce::sum).wait(other);  // wants more memory than the graph's, and comes after it
        EXPECT_GT(elements(other, more.view())[2999], 3000.0f);
        before.wait(s);
        const auto got = elements(s, all.view());
        EXPECT_EQ(got[0], 6 * first);
        EXPECT_EQ(got[2699], 6 * first);
        EXPECT_EQ(elements(s, y.view())[3], 0.0f);
      }
      EXPECT_EQ(elements(s, beside.view())[0], 27.0f);
    }, limit(60), rank_order);
}

TEST(NcclGraph, ARankThatDoesNotLaunchIsNamedWithTheOperationItIsMissedIn) {
  on_nccl_ranks(2, [](Communicator& world) {
    Stream s(rank_device(world));
    const auto tp = world.make_group({0, 1}, "tp");
    const Tensor x = numbers(s, 1, 100);
    const auto work = [&] {
      for (int i = 0; i < 3; ++i) tp->all_reduce(s, x, Reduce::sum).wait(s);
    };
    work();
    const Captured graph(world, s, work);
    graph.launch(s);
    s.synchronize();
    if (world.rank() == 1) return std::this_thread::sleep_for(std::chrono::seconds(4));
    graph.launch(s);
    s.synchronize();  // ended by the abort
    const std::string error = error_of([&] { graph.launch(s); });
    expect_says(error, {"no answer after", "from rank 1", "group tp all_reduce number 6, 400 bytes, or one of the 2 behind it",
                        "rank 0"});
  }, limit(2));
}

TEST(NcclGraph, ARankThatFailsEndsThoseThatWaitForItsGraph) {
  if (const auto why = why_no_nccl(3); !why.empty()) GTEST_SKIP() << why;
  try {
    on_nccl_ranks(3, [](Communicator& world) {
      Stream s(rank_device(world));
      const auto tp = world.make_group({0, 1, 2}, "tp"), dp = world.make_group({0, 1, 2}, "dp"),
                 some = world.rank() < 2 ? world.make_group({0, 1}, "some") : nullptr;
      const Tensor x = numbers(s, 1, 100);
      tp->all_reduce(s, x, Reduce::sum).wait(s);
      const Captured graph(world, s, [&] { tp->all_reduce(s, x, Reduce::sum).wait(s); });
      graph.launch(s);
      s.synchronize();
      if (world.rank() == 2) throw Error(Code::data, "broken on purpose");
      graph.launch(s);
      some->all_reduce(s, x, Reduce::sum).wait(s);
      s.synchronize();
      expect_says(error_of([&] { dp->all_reduce(s, x, Reduce::sum); }), {"rank 2 failed while this rank waited"});
    });
    ADD_FAILURE() << "nothing thrown";
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "broken on purpose");
  }
}

TEST(NcclGraph, BytesAreCountedAtEveryLaunchAndNotWhenItIsCaptured) {
  if (const auto why = why_no_nccl(2); !why.empty()) GTEST_SKIP() << why;
  std::vector<comm::TrafficLog> logs(2);
  comm::run_local_ranks(2, limit(60), [&](std::unique_ptr<Communicator> host) {
    auto& log = logs[static_cast<std::size_t>(host->rank())];
    const auto world = comm::recording(comm::nccl_world(*host, rank_device(*host)), log);
    Stream s(rank_device(*world));
    const auto tp = world->make_group({0, 1}, "tp");
    const Tensor x = numbers(s, 1, 1000), all(s.device(), DType::f32, {2000});
    const auto work = [&] {
      tp->all_reduce(s, x, Reduce::sum).wait(s);
      tp->all_gather(s, x, all).wait(s);
    };
    const Captured graph(*world, s, work);
    EXPECT_TRUE(log.rows().empty());
    graph.launch(s);
    graph.launch(s);
    work();
    s.synchronize();
  });
  for (const auto& log : logs) {
    const auto rows = log.rows();
    ASSERT_EQ(rows.size(), 2u);
    for (const auto& row : rows) {
      EXPECT_EQ(row.group, "tp");
      EXPECT_EQ(row.calls, 3);
      EXPECT_EQ(row.bytes_sent, 3 * 4000) << row.operation;
    }
  }
}

TEST(NcclGraph, MessagesThroughTheHostAreInNone) {
  comm::run_local_ranks(2, limit(60), [](std::unique_ptr<Communicator> world) {
    EXPECT_EQ(comm::graph_capture(*world), nullptr);
    if (on_cpu()) return;
    EXPECT_EQ(comm::graph_capture(*comm::staged(*world, rank_device(*world))), nullptr);
  });
}

TEST(Nccl, IsChosenWhereEachRankHasADevice) {
  if (const auto why = why_no_nccl(2); !why.empty()) GTEST_SKIP() << why;
  const auto said = [](const std::string& backend, bool shared) {
    testing::internal::CaptureStderr();
    std::string error;
    comm::run_local_ranks(2, limit(60), [&](std::unique_ptr<Communicator> world) {
      const Device device{DeviceKind::cuda, shared ? 0 : world->rank()};
      try {
        const auto there = comm::device_world(*world, device, {backend});
        Stream s(device);
        const Tensor x = numbers(s, 1, 4);
        there->all_reduce(s, x, Reduce::sum).wait(s);
        EXPECT_EQ(elements(s, x.view())[0], 2.0f);
      } catch (const Error& e) {
        EXPECT_EQ(e.code(), Code::config);
        if (world->rank() == 0) error = e.what();
      }
    });
    return testing::internal::GetCapturedStderr() + error;
  };
  expect_says(said("", false), {"messages between devices go over NCCL 2."});
  expect_says(said("nccl", false), {"messages between devices go over NCCL 2."});
  expect_says(said("", true), {"go through the host: ranks share a device, which NCCL does not allow"});
  expect_says(said("mpi", false), {"go through the host, as --distributed-backend mpi says"});
  expect_says(said("nccl", true), {"NCCL cannot be used: ranks share a device"});
  EXPECT_FALSE(comm::is_distributed_backend("ucc"));
}

}  // namespace
}  // namespace mt::test
