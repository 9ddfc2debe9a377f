// Megatron's mock data: lengths from numpy, and samples like those of a token file with the same documents.

#include "data/mock_dataset.h"

#include <numeric>

#include <gtest/gtest.h>

#include "data/blend.h"
#include "base/test_data.h"

namespace mt::data {
namespace {

TEST(MockDataset, has_numpys_lengths) {
  const auto lengths = mock_lengths();
  ASSERT_EQ(lengths.size(), 100000u);
  EXPECT_EQ(std::vector<std::int32_t>(lengths.begin(), lengths.begin() + 8),
            (std::vector<std::int32_t>{3484, 2609, 2094, 1105, 1261, 168, 309, 68}));
  EXPECT_EQ(std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0}), 204637097);
}

// Computed with numpy from Megatron's rules: first, middle and last token, and where a document starts.
TEST(MockDataset, its_order_is_numpys) {
  const MockDataset set({0, 100, 64, 1000, 999, 1234});
  ASSERT_EQ(set.size(), 1065473);
  const struct { std::int64_t k; std::int32_t first, middle, last; std::vector<std::int32_t> starts; } rows[] = {
      {0, 649, 681, 713, {}}, {1, 457, 489, 521, {}}, {2, 979, 11, 8, {57}}, {1000, 140, 172, 204, {}},
      {1065472, 668, 700, 732, {}}};
  std::vector<std::int32_t> out(65), starts;
  for (const auto& row : rows) {
    set.fetch(row.k, out, starts);
    EXPECT_EQ(out[0], row.first) << row.k;
    EXPECT_EQ(out[32], row.middle) << row.k;
    EXPECT_EQ(out[64], row.last) << row.k;
    EXPECT_EQ(starts, row.starts) << row.k;
  }
}

// The whole third would be a file of 270 MB: sizes are compared, and the tokens of single samples.
TEST(MockDataset, its_samples_hold_runs_that_end_in_the_end_token) {
  const MockDataset set({1, 500, 64, 1000, 999, 1234});
  const auto lengths = mock_lengths();
  const SequenceRange range = split_ranges(parse_split("1,1,1"), 100000)[1];
  EXPECT_EQ(range.begin, 33333);
  EXPECT_EQ(range.end, 66667);
  EXPECT_EQ(set.size(), (std::accumulate(lengths.begin() + range.begin, lengths.begin() + range.end, std::int64_t{0}) - 1) / 64);
  int ends = 0;
  std::vector<std::int32_t> out(65), starts;
  for (std::int64_t k = 0; k < 500; ++k) {
    ASSERT_EQ(set.fetch(k, out, starts), 65);
    std::size_t next = 0;
    for (std::size_t i = 1; i < out.size(); ++i) {
      const bool begins = next < starts.size() && starts[next] == static_cast<std::int32_t>(i);
      if (begins) {
        ++next;
        ++ends;
        EXPECT_EQ(out[i - 1], 999);  // the end before, and 1 behind it unless the document is its end alone
        EXPECT_TRUE(out[i] == 1 || out[i] == 999) << out[i];
      } else if (out[i] != 999) {
        EXPECT_EQ(out[i], (out[i - 1] + 1) % 1000);
      }
    }
  }
  EXPECT_GT(ends, 5);
}

}  // namespace
}  // namespace mt::data
