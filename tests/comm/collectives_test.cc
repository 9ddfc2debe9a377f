// Every collective on every backend against references written here: sums in rank order in f32, moved bytes as bytes.

#include <atomic>
#include <cmath>
#include <cstring>
#include <numeric>
#include <thread>

#include "comm/ranks.h"

namespace mt::test {
namespace {

constexpr DType kAllTypes[] = {DType::f64, DType::f32, DType::bf16, DType::f16, DType::e4m3, DType::e5m2,
                               DType::i64, DType::i32, DType::i16,  DType::u16, DType::i8,   DType::u8};
constexpr DType kSumTypes[] = {DType::f64, DType::f32, DType::bf16, DType::f16, DType::i64, DType::i32};
constexpr DType kMaxTypes[] = {DType::f32, DType::i64, DType::i32};

// Pseudo-random and the same on every rank: what rank r holds at element i.
std::uint64_t bits_of_element(int rank, std::int64_t i) {
  std::uint64_t x = static_cast<std::uint64_t>(rank + 1) * 0x9e3779b97f4a7c15u + static_cast<std::uint64_t>(i);
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}
double real_of(int rank, std::int64_t i) {  // in [-8, 8), no short sums
  return (static_cast<double>(bits_of_element(rank, i) >> 11) * 0x1p-53 - 0.5) * 16;
}

template <class T>
T value_of(int rank, std::int64_t i) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(bits_of_element(rank, i) % 100000) - 50000;
  else if constexpr (std::is_same_v<T, double>)
    return real_of(rank, i);
  else
    return from_f32<T>(static_cast<float>(real_of(rank, i)));
}

using Bytes = std::vector<std::byte>;
Bytes room(DType t, std::int64_t n) { return Bytes(static_cast<std::size_t>(bytes_of(t, n)), std::byte{0xab}); }
View view(Bytes& b, DType t, std::int64_t n) { return View(b.data(), t, {n}); }

template <class T>
void put(Bytes& b, std::int64_t i, T v) {
  std::memcpy(b.data() + static_cast<std::size_t>(i) * sizeof(T), &v, sizeof(T));
}

template <class T>
Bytes input_as(int rank, std::int64_t n) {
  Bytes b = room(dtype_of<T>, n);
  for (std::int64_t i = 0; i < n; ++i) put(b, i, value_of<T>(rank, i));
  return b;
}

template <class T>
Bytes reduced_as(Reduce op, int ranks, std::int64_t n) {
  Bytes b = room(dtype_of<T>, n);
  for (std::int64_t i = 0; i < n; ++i) {
    if constexpr (std::is_integral_v<T> || std::is_same_v<T, double> || std::is_same_v<T, float>) {
      T a = value_of<T>(0, i);
      for (int r = 1; r < ranks; ++r) {
        const T v = value_of<T>(r, i);
        a = op == Reduce::sum ? static_cast<T>(a + v) : std::max(a, v);
      }
      put(b, i, a);
    } else {
      float a = to_f32(value_of<T>(0, i));
      for (int r = 1; r < ranks; ++r) a += to_f32(value_of<T>(r, i));
      put(b, i, from_f32<T>(a));
    }
  }
  return b;
}

template <class F>
auto for_type(DType t, F f) {
  switch (t) {
    case DType::f64: return f(double{});
    case DType::f32: return f(float{});
    case DType::bf16: return f(bf16{});
    case DType::f16: return f(f16{});
    case DType::i64: return f(std::int64_t{});
    default: return f(std::int32_t{});
  }
}
Bytes input(DType t, int rank, std::int64_t n) {
  return for_type(t, [&](auto v) { return input_as<decltype(v)>(rank, n); });
}
Bytes reduced(DType t, Reduce op, int ranks, std::int64_t n) {
  return for_type(t, [&](auto v) { return reduced_as<decltype(v)>(op, ranks, n); });
}

Bytes noise(DType t, int rank, std::int64_t n) {
  Bytes b = room(t, n);
  for (std::size_t i = 0; i < b.size(); ++i)
    b[i] = static_cast<std::byte>(bits_of_element(rank, static_cast<std::int64_t>(i)));
  return b;
}
Bytes part_of(const Bytes& b, std::size_t index, std::size_t parts) {
  const auto n = static_cast<std::ptrdiff_t>(b.size() / parts), at = static_cast<std::ptrdiff_t>(index) * n;
  return Bytes(b.begin() + at, b.begin() + at + n);
}

// Zero, fewer than ranks, odd, around the border of direct exchange (2 KiB), several pieces.
std::vector<std::int64_t> sizes() { return {0, 1, 2, 3, 7, 8, 511, 512, 513, 1000, 5003}; }

class Collectives : public OnRanks {};

TEST_P(Collectives, AllReduceAddsInRankOrderBitForBit) {
  run([&](Communicator& c) {
    Stream s;
    for (DType t : kSumTypes)
      for (auto n : sizes()) {
        Bytes x = input(t, c.rank(), n);
        c.all_reduce(s, view(x, t, n), Reduce::sum).wait_host();
        EXPECT_EQ(x, reduced(t, Reduce::sum, c.size(), n)) << dtype_name(t) << " " << n;
      }
  });
}

TEST_P(Collectives, AllReduceOfManyPiecesAddsInRankOrder) {
  // Under cut messages the same count of pieces comes from fewer elements.
  const std::int64_t n = comm_options().max_chunk_bytes < 1000 ? 4001 : 300007 * ranks() + 3;
  run([&](Communicator& c) {
    Stream s;
    Bytes x = input(DType::f32, c.rank(), n);
    c.all_reduce(s, view(x, DType::f32, n), Reduce::sum).wait_host();
    EXPECT_TRUE(x == reduced(DType::f32, Reduce::sum, c.size(), n));
  });
}

TEST_P(Collectives, SumsAreCloseToTheDoubleSum) {
  run([&](Communicator& c) {
    Stream s;
    const std::int64_t n = 1000;
    Bytes x = input(DType::f32, c.rank(), n);
    c.all_reduce(s, view(x, DType::f32, n), Reduce::sum).wait_host();
    for (std::int64_t i = 0; i < n; ++i) {
      double sum = 0, size = 0;
      for (int r = 0; r < c.size(); ++r) sum += real_of(r, i), size += std::abs(real_of(r, i));
      float got;
      std::memcpy(&got, x.data() + i * 4, 4);
      EXPECT_NEAR(got, sum, size * c.size() * 0x1p-24) << i;
    }
  });
}

TEST_P(Collectives, MaximumIsExact) {
  run([&](Communicator& c) {
    Stream s;
    for (DType t : kMaxTypes)
      for (auto n : sizes()) {
        Bytes x = input(t, c.rank(), n);
        c.all_reduce(s, view(x, t, n), Reduce::max).wait_host();
        EXPECT_EQ(x, reduced(t, Reduce::max, c.size(), n)) << dtype_name(t) << " " << n;
      }
  });
}

TEST_P(Collectives, ANaNOfAnyRankWinsTheMaximum) {
  run([&](Communicator& c) {
    Stream s;
    std::vector<float> x(static_cast<std::size_t>(c.size()), 1.0f + static_cast<float>(c.rank()));
    x[static_cast<std::size_t>(c.rank())] = NAN;
    c.all_reduce(s, View(x.data(), DType::f32, {c.size()}), Reduce::max).wait_host();
    for (float v : x) EXPECT_TRUE(std::isnan(v));
  });
}

TEST_P(Collectives, ReduceScatterGivesEachRankItsPart) {
  run([&](Communicator& c) {
    Stream s;
    for (DType t : kSumTypes)
      for (auto each : sizes()) {
        const std::int64_t n = each * c.size();
        Bytes in = input(t, c.rank(), n), out = room(t, each);
        const Bytes want = part_of(reduced(t, Reduce::sum, c.size(), n), static_cast<std::size_t>(c.rank()),
                                   static_cast<std::size_t>(c.size()));
        c.reduce_scatter(s, view(in, t, n), view(out, t, each), Reduce::sum).wait_host();
        EXPECT_EQ(out, want) << dtype_name(t) << " " << each;
        // In place: the answer lands on its own part of the input.
        View whole = view(in, t, n);
        c.reduce_scatter(s, whole, whole.rows(c.rank() * each, (c.rank() + 1) * each), Reduce::sum).wait_host();
        EXPECT_EQ(part_of(in, static_cast<std::size_t>(c.rank()), static_cast<std::size_t>(c.size())), want)
            << "in place " << dtype_name(t) << " " << each;
      }
  });
}

TEST_P(Collectives, AllGatherPutsEveryPartInRankOrder) {
  run([&](Communicator& c) {
    Stream s;
    for (DType t : kAllTypes)
      for (auto each : sizes()) {
        Bytes want;
        for (int r = 0; r < c.size(); ++r) {
          const Bytes theirs = noise(t, r, each);
          want.insert(want.end(), theirs.begin(), theirs.end());
        }
        const std::int64_t n = each * c.size();
        Bytes in = noise(t, c.rank(), each), out = room(t, n);
        c.all_gather(s, view(in, t, each), view(out, t, n)).wait_host();
        EXPECT_EQ(out, want) << dtype_name(t) << " " << each;
        Bytes both = room(t, n);
        if (each > 0) std::memcpy(both.data() + in.size() * static_cast<std::size_t>(c.rank()), in.data(), in.size());
        View whole = view(both, t, n);
        c.all_gather(s, whole.rows(c.rank() * each, (c.rank() + 1) * each), whole).wait_host();
        EXPECT_EQ(both, want) << "in place " << dtype_name(t) << " " << each;
      }
  });
}

TEST_P(Collectives, AllToAllSendsPartRToRankR) {
  run([&](Communicator& c) {
    Stream s;
    for (DType t : kAllTypes)
      for (auto each : sizes()) {
        const std::int64_t n = each * c.size();
        Bytes in = noise(t, c.rank(), n), out = room(t, n), want;
        for (int r = 0; r < c.size(); ++r) {
          const Bytes p = part_of(noise(t, r, n), static_cast<std::size_t>(c.rank()), static_cast<std::size_t>(c.size()));
          want.insert(want.end(), p.begin(), p.end());
        }
        c.all_to_all(s, view(in, t, n), view(out, t, n)).wait_host();
        EXPECT_EQ(out, want) << dtype_name(t) << " " << each;
      }
  });
}

// Rows rank a sends to rank b; some pairs send none.
std::int64_t rows_between(int a, int b) { return (a * 5 + b * 3) % 4; }

TEST_P(Collectives, AllToAllVMovesUnequalRows) {
  run([&](Communicator& c) {
    Stream s;
    const std::int64_t width = 3;
    std::vector<std::int64_t> send, recv;
    for (int r = 0; r < c.size(); ++r) {
      send.push_back(rows_between(c.rank(), r));
      recv.push_back(rows_between(r, c.rank()));
    }
    const auto total = [](const std::vector<std::int64_t>& v) { return std::accumulate(v.begin(), v.end(), 0L); };
    std::vector<std::int32_t> in, want;
    for (int r = 0; r < c.size(); ++r)
      for (std::int64_t i = 0; i < send[static_cast<std::size_t>(r)] * width; ++i)
        in.push_back(static_cast<std::int32_t>(c.rank() * 10000 + r * 100 + i));
    for (int r = 0; r < c.size(); ++r)
      for (std::int64_t i = 0; i < recv[static_cast<std::size_t>(r)] * width; ++i)
        want.push_back(static_cast<std::int32_t>(r * 10000 + c.rank() * 100 + i));
    std::vector<std::int32_t> out(want.size(), -1);
    c.all_to_all_v(s, View(in.data(), DType::i32, {total(send), width}), send,
                   View(out.data(), DType::i32, {total(recv), width}), recv)
        .wait_host();
    EXPECT_EQ(out, want);
  });
}

TEST_P(Collectives, BroadcastReachesAllFromEveryRoot) {
  run([&](Communicator& c) {
    Stream s;
    for (DType t : kAllTypes)
      for (int root = 0; root < c.size(); ++root)
        for (std::int64_t n : {0, 1, 1001}) {
          Bytes x = c.rank() == root ? noise(t, root, n) : room(t, n);
          c.broadcast(s, view(x, t, n), root).wait_host();
          EXPECT_EQ(x, noise(t, root, n)) << dtype_name(t) << " " << n << " root " << root;
        }
  });
}

TEST_P(Collectives, MessagesCrossInBothDirectionsAndKeepTheirOrder) {
  if (ranks() == 1) GTEST_SKIP() << "one rank has no peer";
  run([&](Communicator& c) {
    Stream s;
    const int next = (c.rank() + 1) % c.size(), before = (c.rank() + c.size() - 1) % c.size();
    for (std::int64_t n : {0, 1, 1001, 50000}) {
      Bytes up = noise(DType::u8, c.rank(), n), up2 = noise(DType::u8, c.rank() + 50, n);
      Bytes down = noise(DType::u8, c.rank() + 100, n);
      Bytes got_up = room(DType::u8, n), got_up2 = room(DType::u8, n), got_down = room(DType::u8, n);
      std::vector<Handle> h;
      h.push_back(c.send(s, view(up, DType::u8, n), next));
      h.push_back(c.send(s, view(up2, DType::u8, n), next));
      // Between two ranks next and before are one peer, and order alone tells messages apart.
      if (c.size() > 2) h.push_back(c.send(s, view(down, DType::u8, n), before));
      h.push_back(c.recv(s, view(got_up, DType::u8, n), before));
      h.push_back(c.recv(s, view(got_up2, DType::u8, n), before));
      if (c.size() > 2) h.push_back(c.recv(s, view(got_down, DType::u8, n), next));
      for (auto it = h.rbegin(); it != h.rend(); ++it) it->wait_host();
      EXPECT_EQ(got_up, noise(DType::u8, before, n));
      EXPECT_EQ(got_up2, noise(DType::u8, before + 50, n));
      if (c.size() > 2) {
        EXPECT_EQ(got_down, noise(DType::u8, next + 100, n));
      }
    }
  });
}

TEST_P(Collectives, ManyOperationsInFlightMayBeWaitedForInAnotherOrderOnEachRank) {
  run([&](Communicator& c) {
    Stream s;
    constexpr std::size_t kMany = 24;
    const std::int64_t n = 3001;
    std::vector<Bytes> x, gathered;
    std::vector<Handle> h;
    x.reserve(kMany);
    gathered.reserve(kMany);
    for (std::size_t i = 0; i < kMany; ++i) {
      x.push_back(input(DType::f32, c.rank() + static_cast<int>(i), n));
      gathered.push_back(room(DType::f32, n * c.size()));
      if (i % 2 == 0)
        h.push_back(c.all_reduce(s, view(x[i], DType::f32, n), Reduce::sum));
      else
        h.push_back(c.all_gather(s, view(x[i], DType::f32, n), view(gathered[i], DType::f32, n * c.size())));
    }
    for (std::size_t k = 0; k < kMany; ++k)
      h[(k * 7 + static_cast<std::size_t>(c.rank()) * 5) % kMany].wait_host();
    for (std::size_t i = 0; i < kMany; i += 2) {
      std::vector<float> want(static_cast<std::size_t>(n));
      for (std::int64_t e = 0; e < n; ++e) {
        float a = value_of<float>(static_cast<int>(i), e);
        for (int r = 1; r < c.size(); ++r) a += value_of<float>(r + static_cast<int>(i), e);
        want[static_cast<std::size_t>(e)] = a;
      }
      EXPECT_EQ(std::memcmp(want.data(), x[i].data(), x[i].size()), 0) << i;
    }
    for (std::size_t i = 1; i < kMany; i += 2)
      for (int r = 0; r < c.size(); ++r)
        EXPECT_EQ(part_of(gathered[i], static_cast<std::size_t>(r), static_cast<std::size_t>(c.size())),
                  input(DType::f32, r + static_cast<int>(i), n));
  });
}

TEST_P(Collectives, BarrierHoldsUntilTheLastRankComes) {
  std::atomic<int> in_process{0};
  run([&](Communicator& c) {
    Stream s;
    for (int round = 0; round < 20; ++round) {
      ++in_process;
      c.barrier(s).wait_host();
      if (GetParam().name == "threads") {
        EXPECT_GE(in_process.load(), c.size() * (round + 1));
      }
      c.barrier(s).wait_host();
    }
  });
}

TEST_P(Collectives, TestMovesAnOperationToItsEnd) {
  run([&](Communicator& c) {
    Stream s;
    Bytes x = input(DType::f32, c.rank(), 9001);
    Handle h = c.all_reduce(s, view(x, DType::f32, 9001), Reduce::sum);
    while (!h.test()) std::this_thread::yield();
    EXPECT_EQ(x, reduced(DType::f32, Reduce::sum, c.size(), 9001));
  });
}

TEST_P(Collectives, ADeferredStreamsWorkIsSeen) {
  run([&](Communicator& c) {
    Stream s(Device{}, 1, Stream::Mode::deferred);
    const std::int64_t n = 700;
    Bytes x = room(DType::f32, n);
    s.launch([&] {
      const Bytes made = input(DType::f32, c.rank(), n);
      std::copy(made.begin(), made.end(), x.begin());
    });
    Handle h = c.all_reduce(s, view(x, DType::f32, n), Reduce::sum);
    Bytes copy;
    h.wait(s);
    s.launch([&] { copy = x; });
    s.synchronize();
    EXPECT_EQ(copy, reduced(DType::f32, Reduce::sum, c.size(), n));
  });
}

INSTANTIATE_TEST_SUITE_P(Comm, Collectives, testing::ValuesIn(backends()), backend_text);

}  // namespace
}  // namespace mt::test
