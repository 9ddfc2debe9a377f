#include "ckpt/chunk_cache.h"

#include <atomic>
#include <cstring>
#include <random>
#include <thread>

#include <gtest/gtest.h>

namespace mt {
namespace {

// Each chunk's bytes say which it is.
std::uint64_t word_of(std::size_t shard, std::uint64_t chunk) { return shard * 1000 + chunk; }

TEST(ChunkCache, AChunkIsReadOnceWhileItIsAmongThoseUsedLast) {
  const std::vector<Shard> shards(2);
  ChunkCache cache(3, 8);
  int reads = 0;
  const auto use = [&](std::size_t s, std::uint64_t c) {
    cache.with(shards[s], c,
               [&](std::byte* out) {
                 const auto w = word_of(s, c);
                 std::memcpy(out, &w, 8);
                 ++reads;
               },
               [&](const std::byte* bytes) {
                 std::uint64_t w;
                 std::memcpy(&w, bytes, 8);
                 EXPECT_EQ(w, word_of(s, c));
               });
    return reads;
  };
  EXPECT_EQ(use(0, 0), 1);
  EXPECT_EQ(use(1, 0), 2);
  EXPECT_EQ(use(0, 0), 2);
  EXPECT_EQ(use(0, 1), 3);
  EXPECT_EQ(use(0, 0), 3);
  EXPECT_EQ(use(0, 2), 4) << "in place of shard 1's, which was used longest ago";
  EXPECT_EQ(use(0, 0), 4);
  EXPECT_EQ(use(1, 0), 5);
}

TEST(ChunkCache, WhatCannotBeReadIsNotKept) {
  const Shard shard;
  ChunkCache cache(1, 8);
  EXPECT_THROW(cache.with(shard, 0, [](std::byte*) { throw 1; }, [](const std::byte*) { FAIL(); }), int);
  bool read = false;
  cache.with(shard, 0, [&](std::byte*) { read = true; }, [](const std::byte*) {});
  EXPECT_TRUE(read);
}

TEST(ChunkCache, ThreadsThatWantTheSameChunksShareThemAndSeeOnlyWholeOnes) {
  const std::vector<Shard> shards(1);
  ChunkCache cache(4, 4096);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      std::mt19937 rng(static_cast<unsigned>(t));
      for (int i = 0; i < 2000; ++i) {
        const std::uint64_t c = rng() % 7;
        cache.with(shards[0], c, [&](std::byte* out) { std::memset(out, static_cast<int>(c), 4096); },
                   [&](const std::byte* bytes) {
                     for (int k = 0; k < 4096; k += 511) wrong += bytes[k] != static_cast<std::byte>(c);
                   });
      }
    });
  for (auto& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace mt
