#pragma once
// Every tensor of two checkpoints, weights and optimizer state, bit for bit.

#include <filesystem>

#include <gtest/gtest.h>

#include "ckpt/diff.h"
#include "ckpt/reader.h"

namespace mt::test {

inline void expect_same(const std::filesystem::path& a, const std::filesystem::path& b) {
  int compared = 0;
  diff_checkpoints(Reader(a), Reader(b), {}, [&](const TensorDifference& d) {
    EXPECT_EQ(d.kind_of, TensorDifference::Kind::same) << d.text;
    return ++compared > 0;
  });
  EXPECT_GT(compared, 30);
}

}  // namespace mt::test
