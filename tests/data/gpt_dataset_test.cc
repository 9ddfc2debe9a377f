// Sample orders against vectors computed with numpy's RandomState, and by hand.

#include "data/gpt_dataset.h"

#include <numeric>
#include <set>

#include <gtest/gtest.h>

#include "base/error.h"
#include "data/numpy_random.h"
#include "data/sampler.h"
#include "base/test_data.h"

namespace mt::data {
namespace {

using Ids = std::vector<std::uint32_t>;

// Token t of the file is its own place, so a sample shows where it was cut.
std::string write_counting(const ScratchDirectory& dir, const std::vector<std::int32_t>& lengths) {
  const std::string prefix = dir / "counting";
  IndexedWriter writer(prefix, TokenType::i32, false);
  std::int32_t next = 0;
  for (const std::int32_t n : lengths) {
    std::vector<std::int32_t> ids(static_cast<std::size_t>(n));
    std::iota(ids.begin(), ids.end(), next);
    next += n;
    writer.add_sequence(ids);
    writer.end_document();
  }
  writer.commit(std::nullopt);
  return prefix;
}

Ids as_ids(std::span<const std::uint32_t> values) { return {values.begin(), values.end()}; }

std::vector<SampleStart> starts(std::initializer_list<std::pair<unsigned, unsigned>> pairs) {
  std::vector<SampleStart> all;
  for (const auto& [position, offset] : pairs) all.push_back({position, offset});
  return all;
}

std::vector<SampleStart> as_starts(std::span<const SampleStart> values) { return {values.begin(), values.end()}; }

TEST(NumpyShuffle, gives_numpys_permutations_on_one_stream) {
  NumpyRandomState random(1234);
  Ids a(10), b(10);
  std::iota(a.begin(), a.end(), 0u);
  std::iota(b.begin(), b.end(), 0u);
  random.shuffle(a);
  random.shuffle(b);
  EXPECT_EQ(a, (Ids{7, 2, 9, 1, 0, 8, 4, 5, 6, 3}));
  EXPECT_EQ(b, (Ids{7, 3, 5, 1, 4, 8, 0, 2, 6, 9}));
}

TEST(SampleIndex, cuts_documents_every_four_tokens_with_one_shared) {
  const std::vector<std::int32_t> lengths{5, 3, 9, 4};
  const Ids order{2, 0, 3, 1};
  EXPECT_EQ(build_sample_index(lengths, order, 4, true), starts({{0, 0}, {0, 4}, {0, 8}, {1, 3}, {2, 2}, {3, 2}}));
  EXPECT_EQ(build_sample_index(lengths, order, 6, false), starts({{0, 0}, {0, 6}, {1, 3}, {3, 0}, {3, 2}}));
}

TEST(SampleIndex, crosses_epochs_by_hand) {  // documents 3, 2, 5; length 4; two epochs
  const std::vector<std::int32_t> lengths{3, 2, 5};
  EXPECT_EQ(build_sample_index(lengths, Ids{0, 1, 2}, 4, true), starts({{0, 0}, {1, 1}, {2, 3}}));
  EXPECT_EQ(build_sample_index(lengths, Ids{0, 1, 2, 0, 1, 2}, 4, true),
            starts({{0, 0}, {1, 1}, {2, 3}, {3, 2}, {5, 1}}));
}

struct Vector {
  std::int64_t samples, epochs;
  Ids documents, shuffle;
  std::vector<SampleStart> index;
};

TEST(GptDataset, gives_the_orders_of_the_reference) {
  const ScratchDirectory dir;
  const IndexedDataset tokens(write_counting(dir, {5, 3, 9, 4, 7, 2}));
  const Vector vectors[] = {{7,
                             1,
                             {2, 1, 5, 0, 4, 3},
                             {5, 0, 3, 4, 2, 6, 1},
                             starts({{0, 0}, {0, 4}, {0, 8}, {2, 0}, {3, 2}, {4, 1}, {4, 5}, {5, 2}})},
                            {9,
                             2,
                             {2, 1, 5, 0, 4, 3, 0, 4, 3, 2, 5, 1},
                             {1, 0, 3, 2, 5, 4, 6, 9, 10, 12, 8, 11, 13, 7},
                             starts({{0, 0},
                                     {0, 4},
                                     {0, 8},
                                     {2, 0},
                                     {3, 2},
                                     {4, 1},
                                     {4, 5},
                                     {5, 2},
                                     {6, 2},
                                     {7, 1},
                                     {7, 5},
                                     {8, 2},
                                     {9, 2},
                                     {9, 6},
                                     {10, 1}})},
                            {13,
                             2,
                             {1, 2, 5, 2, 3, 4, 1, 0, 4, 5, 0, 3},
                             {7, 11, 2, 3, 1, 9, 5, 4, 0, 8, 6, 10, 13, 12},
                             starts({{0, 0},
                                     {1, 1},
                                     {1, 5},
                                     {2, 0},
                                     {3, 2},
                                     {3, 6},
                                     {4, 1},
                                     {5, 1},
                                     {5, 5},
                                     {6, 2},
                                     {7, 3},
                                     {8, 2},
                                     {8, 6},
                                     {10, 1},
                                     {11, 0}})}};
  for (const Vector& v : vectors) {
    GptDatasetOptions options;
    options.num_samples = v.samples;
    options.seq_length = 4;
    const GptDataset set(tokens, {0, 6}, options);
    EXPECT_EQ(set.num_epochs(), v.epochs);
    EXPECT_EQ(as_ids(set.document_index()), v.documents);
    EXPECT_EQ(as_starts(set.sample_index()), v.index);
    EXPECT_EQ(as_ids(set.shuffle_index()), v.shuffle);
  }
}

TEST(GptDataset, fetch_reads_the_tokens_its_indices_say) {
  const ScratchDirectory dir;
  const std::vector<std::int32_t> lengths{5, 3, 9, 4, 7, 2};
  const IndexedDataset tokens(write_counting(dir, lengths));
  GptDatasetOptions options;
  options.num_samples = 13;
  options.seq_length = 4;
  const GptDataset set(tokens, {0, 6}, options);
  std::vector<std::int32_t> stream;  // the epochs laid end to end
  std::vector<std::size_t> begins;
  for (const std::uint32_t d : set.document_index()) {
    const int first = std::accumulate(lengths.begin(), lengths.begin() + d, 0);
    begins.push_back(stream.size());
    for (std::int32_t i = 0; i < lengths[d]; ++i) stream.push_back(first + i);
  }
  for (std::int64_t k = 0; k < set.size(); ++k) {
    const std::size_t from = set.shuffle_index()[static_cast<std::size_t>(k)] * 4;
    std::vector<std::int32_t> out(5), bounds, expected_bounds;
    EXPECT_EQ(set.fetch(k, out, bounds), 5);
    EXPECT_TRUE(std::equal(out.begin(), out.end(), stream.begin() + static_cast<std::ptrdiff_t>(from))) << k;
    for (const std::size_t b : begins) {
      if (b > from && b < from + 5) expected_bounds.push_back(static_cast<std::int32_t>(b - from));
    }
    EXPECT_EQ(bounds, expected_bounds) << k;
  }
}

TEST(GptDataset, more_samples_than_epochs_give_adds_epochs) {
  const ScratchDirectory dir;
  const IndexedDataset tokens(write_counting(dir, {3, 2, 5}));
  for (std::int64_t wanted = 1; wanted < 60; ++wanted) {
    GptDatasetOptions options;
    options.num_samples = wanted;
    options.seq_length = 4;
    const GptDataset set(tokens, {0, 3}, options);
    EXPECT_GE(set.size(), wanted);
    std::vector<std::int32_t> out(5);
    for (std::int64_t k = 0; k < set.size(); ++k) EXPECT_EQ(set.fetch(k, out), 5);
  }
}

TEST(GptDataset, a_kept_partial_sample_is_padded_and_counted) {
  const ScratchDirectory dir;
  const IndexedDataset tokens(write_counting(dir, {3, 2, 5}));
  GptDatasetOptions options;
  options.seq_length = 4;
  options.shuffle = false;
  options.drop_last_partial = false;
  options.pad_id = 99;
  const GptDataset set(tokens, {0, 3}, options);
  ASSERT_EQ(set.size(), 3);
  std::vector<std::int32_t> out(5);
  EXPECT_EQ(set.fetch(2, out), 2);
  EXPECT_EQ(out, (std::vector<std::int32_t>{8, 9, 99, 99, 99}));
}

TEST(GptDataset, a_range_in_the_middle_reads_only_its_documents) {
  const ScratchDirectory dir;
  const IndexedDataset tokens(write_counting(dir, {5, 3, 9, 4, 7, 2}));
  GptDatasetOptions options;
  options.seq_length = 3;
  const GptDataset set(tokens, {1, 4}, options);
  std::vector<std::int32_t> out(4);
  for (std::int64_t k = 0; k < set.size(); ++k) {
    set.fetch(k, out);
    for (const std::int32_t t : out) EXPECT_TRUE(t >= 5 && t < 21) << t;
  }
}

TEST(GptDataset, refuses_what_gives_no_sample) {
  const ScratchDirectory dir;
  const IndexedDataset tokens(write_counting(dir, {3, 2, 5}));
  GptDatasetOptions options;
  options.seq_length = 10;
  EXPECT_THROW(GptDataset(tokens, {0, 3}, options), Error);
  EXPECT_THROW(GptDataset(tokens, {2, 2}, options), Error);
  EXPECT_THROW(GptDataset(tokens, {0, 4}, options), Error);
}

TEST(StepSamples, read_the_same_ordinals_at_any_data_parallel_size) {
  for (const std::int64_t dp : {1, 2, 4}) {
    for (const std::int64_t micro : {1, 2, 4}) {
      const StepSamples step{32, 16, micro, dp};
      std::set<std::int64_t> seen;
      for (std::int64_t r = 0; r < dp; ++r) {
        for (std::int64_t m = 0; m < step.num_micro_batches(); ++m) {
          for (std::int64_t i = 0; i < micro; ++i) EXPECT_TRUE(seen.insert(step.ordinal(r, m, i)).second);
        }
      }
      EXPECT_EQ(seen.size(), 16u);
      EXPECT_EQ(*seen.begin(), 32);
      EXPECT_EQ(*seen.rbegin(), 47);
      EXPECT_EQ(step.consumed_after(), 48);
    }
  }
}

}  // namespace
}  // namespace mt::data
