// Micro-batches out of samples: which samples, and how their parts lie in the batch.

#include "train/batch_source.h"

#include <gtest/gtest.h>

namespace mt {
namespace {

using Ints = std::vector<std::int32_t>;

// Samples of four tokens, all their number; odd ones are of two parts.
void numbered(std::int64_t k, data::TrainingSample& s) {
  const auto n = static_cast<std::int32_t>(k);
  s.ids = s.labels = Ints(4, n);
  s.loss_mask = {1, 1, 1, 0};
  s.positions = k % 2 == 0 ? Ints{0, 1, 2, 3} : Ints{0, 0, 1, 2};
  s.bounds = k % 2 == 0 ? Ints{0, 4} : Ints{0, 1, 4};
}

TEST(BatchSource, LaysPartsOfSamplesOneBehindTheOther) {
  const BatchSource source(numbered, {4, 2, 4});
  const auto batches = source.step(0, 1, 0);
  ASSERT_EQ(batches.size(), 2u);
  EXPECT_EQ(batches[0].ids, (Ints{0, 0, 0, 0, 1, 1, 1, 1}));
  EXPECT_EQ(batches[0].cu_seqlens, (Ints{0, 4, 5, 8}));
  EXPECT_EQ(batches[0].positions, (Ints{0, 1, 2, 3, 0, 0, 1, 2}));
  EXPECT_EQ(batches[0].ordinals, (std::vector<std::int64_t>{0, 0, 0, 0, 1, 1, 1, 1}));
  EXPECT_EQ(batches[0].unmasked(), 6);
}

TEST(BatchSource, TokensAtOnePositionOfASampleHaveTwoPlacesForDropout) {
  const BatchSource source(numbered, {4, 2, 4});
  EXPECT_EQ(source.step(0, 1, 0)[0].places, (Ints{0, 1, 2, 3, 0, 1, 2, 3}));
  const BatchSource even([](std::int64_t k, data::TrainingSample& s) { numbered(2 * k, s); }, {4, 2, 4});
  EXPECT_TRUE(even.step(0, 1, 0)[0].places.empty());  // positions serve
}

TEST(BatchSource, EveryRankReadsItsOwnOfTheSameSamples) {
  const BatchSource source(numbered, {4, 1, 4});
  std::vector<std::int32_t> seen;
  for (int rank = 0; rank < 2; ++rank)
    for (const auto& b : source.step(8, 2, rank)) seen.push_back(b.ids[0]);
  EXPECT_EQ(seen, (Ints{8, 10, 9, 11}));
}

}  // namespace
}  // namespace mt
