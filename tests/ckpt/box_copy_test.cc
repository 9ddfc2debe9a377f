#include "ckpt/box_copy.h"

#include <random>
#include <set>

#include <gtest/gtest.h>

namespace mt {
namespace {

// A random box around `inner`.
Box around(const Box& inner, std::mt19937& rng) {
  Box b = inner;
  for (std::size_t i = 0; i < b.extent.size(); ++i) {
    const auto lo = std::min<std::int64_t>(b.offset[i], static_cast<std::int64_t>(rng() % 3));
    b.offset[i] -= lo;
    b.extent[i] += lo + static_cast<std::int64_t>(rng() % 3);
  }
  return b;
}

TEST(BoxCopy, RunsVisitEveryElementOfThePartOnceAtTheRightOffsets) {
  std::mt19937 rng(3);
  for (int round = 0; round < 500; ++round) {
    const auto dims = rng() % 5;
    Box part;
    for (std::size_t i = 0; i < dims; ++i) {
      part.offset.push_back(static_cast<std::int64_t>(rng() % 4));
      part.extent.push_back(1 + static_cast<std::int64_t>(rng() % 4));
    }
    const auto from = around(part, rng), to = around(part, rng);
    const bool split = rng() % 2 == 0;
    // Walk all coordinates one by one as the oracle.
    std::vector<std::pair<std::int64_t, std::int64_t>> right, got;
    Dims at = part.offset;
    for (std::int64_t k = 0; k < part.size(); ++k) {
      std::int64_t a = 0, b = 0;
      for (std::size_t i = 0; i < dims; ++i) {
        a = a * from.extent[i] + at[i] - from.offset[i];
        b = b * to.extent[i] + at[i] - to.offset[i];
      }
      right.emplace_back(a, b);
      for (std::size_t i = dims; i-- > 0;) {
        if (++at[i] < part.offset[i] + part.extent[i]) break;
        at[i] = part.offset[i];
      }
    }
    for_each_common_run(from, to, part, split, [&](auto a, auto b, auto n) {
      if (split && dims > 0) {
        EXPECT_LE(n, part.extent.back());
      }
      for (std::int64_t i = 0; i < n; ++i) got.emplace_back(a + i, b + i);
    });
    ASSERT_EQ(got, right) << box_text(from) << box_text(to) << box_text(part);
  }
}

TEST(BoxCopy, RunsThatAreWholeInBothBoxesAreJoined) {
  const Box b{{0, 0, 0}, {3, 4, 5}};
  int runs = 0;
  for_each_common_run(b, b, b, false, [&](auto, auto, auto n) {
    ++runs;
    EXPECT_EQ(n, 60);
  });
  EXPECT_EQ(runs, 1);
}

TEST(BoxCopy, ContiguousOffsetIsGivenExactlyWhenThePartIsOneRun) {
  std::mt19937 rng(11);
  for (int round = 0; round < 500; ++round) {
    Box part;
    for (std::size_t i = 0, n = 1 + rng() % 4; i < n; ++i) {
      part.offset.push_back(static_cast<std::int64_t>(rng() % 2));
      part.extent.push_back(1 + static_cast<std::int64_t>(rng() % 3));
    }
    const auto outer = around(part, rng);
    std::set<std::int64_t> offsets;
    for_each_run(outer, part, [&](auto off, auto, auto n) {
      for (std::int64_t i = 0; i < n; ++i) offsets.insert(off + i);
    });
    const bool one_run = *offsets.rbegin() - *offsets.begin() + 1 == part.size();
    const auto off = contiguous_offset(outer, part);
    ASSERT_EQ(off.has_value(), one_run) << box_text(outer) << box_text(part);
    if (off) {
      EXPECT_EQ(*off, *offsets.begin());
    }
  }
}

}  // namespace
}  // namespace mt
