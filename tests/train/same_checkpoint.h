#pragma once
// Two runs, or two checkpoints with every tensor of weights and optimizer state, bit for bit.

#include <filesystem>

#include <gtest/gtest.h>

#include "ckpt/diff.h"
#include "ckpt/reader.h"
#include "train/tiny_run.h"

namespace mt::test {

inline void expect_same(const std::filesystem::path& a, const std::filesystem::path& b) {
  int compared = 0;
  diff_checkpoints(Reader(a), Reader(b), {}, [&](const TensorDifference& d) {
    EXPECT_EQ(d.kind_of, TensorDifference::Kind::same) << d.text;
    return ++compared > 0;
  });
  EXPECT_GT(compared, 30);
}

// Losses, norms (NaN equals NaN) and the last checkpoint of two runs, which save into `dir`.
inline void expect_same_run(TrainingOptions without, TrainingOptions with, int ranks, const TempDir& dir) {
  without.save = dir / "without";
  with.save = dir / "with";
  const Curve want = run_tiny(without, ranks), got = run_tiny(with, ranks);
  ASSERT_EQ(want.loss.size(), static_cast<std::size_t>(without.train_iters));
  EXPECT_EQ(got.loss, want.loss);
  EXPECT_EQ(fmt::format("{}", fmt::join(got.grad_norm, " ")), fmt::format("{}", fmt::join(want.grad_norm, " ")));
  const std::string last = fmt::format("iter_{:07}", without.train_iters);
  expect_same(dir / "without" / last, dir / "with" / last);
  fs::remove_all(without.save);
  fs::remove_all(with.save);
}

}  // namespace mt::test
