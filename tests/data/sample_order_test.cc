// Orders against plain double loops, thousands of small cases; and that any data-parallel size continues the same order.

#include "data/sample_order.h"

#include <numeric>
#include <random>

#include <gtest/gtest.h>

#include "data/numpy_random.h"
#include "data/sampler.h"

namespace mt::data {
namespace {

using Ids = std::vector<std::uint32_t>;

// MT19937 and the shuffle, as the papers have them: one output and one exchange at a time.
class PlainRandom {
 public:
  explicit PlainRandom(std::uint32_t seed) : engine_(seed) {}
  void shuffle(std::vector<std::int64_t>& values) {
    for (std::size_t i = values.size(); i-- > 1;) {
      std::uint64_t mask = 1;
      while (mask < i) mask = 2 * mask + 1;
      std::uint64_t j = engine_() & mask;
      while (j > i) j = engine_() & mask;
      std::swap(values[i], values[static_cast<std::size_t>(j)]);
    }
  }

 private:
  std::mt19937 engine_;  // the same generator, seeded by the same rule
};

struct PlainOrder {
  std::vector<std::int64_t> documents, shuffle;
  std::vector<std::pair<std::int64_t, std::int64_t>> starts;
};

// Megatron's steps one after the other; samples are cut out of the list of all tokens.
PlainOrder plain_order(const std::vector<std::int32_t>& lengths, std::int64_t begin, std::int64_t end, std::int64_t wanted,
                       std::int64_t seq, std::uint32_t seed, bool drop) {
  std::int64_t per = 0;
  for (std::int64_t d = begin; d < end; ++d) per += lengths[static_cast<std::size_t>(d)];
  std::int64_t epochs = 1;
  while (wanted > 0 && epochs * per < wanted * seq + 1) ++epochs;
  const std::int64_t before = ((epochs - 1) * per - 1) / seq;
  bool apart = false;
  if (epochs > 1) apart = wanted - before < static_cast<std::int64_t>(0.80 * static_cast<double>((per - 1) / seq));
  PlainRandom random(seed);
  PlainOrder o;
  const auto copies = [&](std::int64_t n) {
    std::vector<std::int64_t> all;
    for (; n > 0; --n)
      for (std::int64_t d = begin; d < end; ++d) all.push_back(d);
    random.shuffle(all);
    o.documents.insert(o.documents.end(), all.begin(), all.end());
  };
  copies(apart ? epochs - 1 : epochs);
  if (apart) copies(1);
  std::vector<std::pair<std::int64_t, std::int64_t>> tokens;  // (place of the document, offset)
  for (std::size_t p = 0; p < o.documents.size(); ++p)
    for (std::int32_t t = 0; t < lengths[static_cast<std::size_t>(o.documents[p])]; ++t)
      tokens.emplace_back(static_cast<std::int64_t>(p), t);
  const auto total = static_cast<std::int64_t>(tokens.size());
  const std::int64_t samples = drop ? (total - 1) / seq : (total - 1 + seq - 1) / seq;
  for (std::int64_t j = 0; j <= samples; ++j)
    o.starts.push_back(tokens[static_cast<std::size_t>(std::min(j * seq, total - 1))]);
  const auto numbers = [&](std::int64_t from, std::int64_t to) {
    std::vector<std::int64_t> all(static_cast<std::size_t>(to - from));
    std::iota(all.begin(), all.end(), from);
    random.shuffle(all);
    o.shuffle.insert(o.shuffle.end(), all.begin(), all.end());
  };
  numbers(0, apart ? before : samples);
  if (apart) numbers(before, samples);
  return o;
}

TEST(SampleOrder, equals_plain_loops_in_thousands_of_small_cases) {
  std::mt19937 pick(7);
  const auto between = [&](int lo, int hi) { return lo + static_cast<int>(pick() % static_cast<unsigned>(hi - lo + 1)); };
  int apart = 0, several = 0;
  for (int round = 0; round < 3000; ++round) {
    const int documents = between(1, 40);
    std::vector<std::int32_t> lengths;
    for (int d = 0; d < documents; ++d) lengths.push_back(between(1, round % 3 == 0 ? 3 : 25));
    const std::int64_t begin = between(0, documents - 1), end = between(static_cast<int>(begin) + 1, documents);
    std::int64_t per = 0;
    for (std::int64_t d = begin; d < end; ++d) per += lengths[static_cast<std::size_t>(d)];
    GptDatasetOptions options;
    options.seq_length = between(1, 20);
    options.seed = static_cast<std::uint32_t>(pick());
    options.drop_last_partial = round % 5 != 0;
    options.num_samples = between(0, 60);
    if (per < options.seq_length + 1) options.num_samples = std::max<std::int64_t>(1, options.num_samples);
    const SequenceLengths view{std::span<const std::int32_t>(lengths)};
    const SequenceRange range{begin, end};
    const SampleCounts counts = count_samples(view, range, options, "");
    const IndexArrays made = make_sample_order(view, range, options, counts);
    const PlainOrder want = plain_order(lengths, begin, end, options.num_samples, options.seq_length, options.seed,
                                        options.drop_last_partial);
    apart += counts.whole_epochs < counts.epochs ? 1 : 0;
    several += counts.epochs > 1 ? 1 : 0;
    const auto d = made.array<std::uint32_t>(0), s = made.array<std::uint32_t>(2);
    const auto starts = made.array<SampleStart>(1);
    ASSERT_EQ(std::vector<std::int64_t>(d.begin(), d.end()), want.documents) << "round " << round;
    ASSERT_EQ(std::vector<std::int64_t>(s.begin(), s.end()), want.shuffle) << "round " << round;
    ASSERT_EQ(starts.size(), want.starts.size()) << "round " << round;
    for (std::size_t j = 0; j < starts.size(); ++j)
      ASSERT_EQ(std::pair(std::int64_t{starts[j].position}, std::int64_t{starts[j].offset}), want.starts[j])
          << "round " << round << " sample " << j;
    ASSERT_GE(counts.samples, options.num_samples);
  }
  EXPECT_GT(apart, 300);
  EXPECT_GT(several, 1000);
}

TEST(SampleOrder, parts_the_last_epoch_below_four_fifths_of_it_exactly) {
  // 100 tokens an epoch, samples of 1: 99 in an epoch, 80 % of which are 79; 199 in two.
  const auto apart = [](std::int64_t wanted) { return separate_last_epoch(epochs_for(100, wanted, 1), 100, wanted, 1); };
  EXPECT_FALSE(apart(99));           // one epoch
  EXPECT_TRUE(apart(100));           // the second gives 1
  EXPECT_TRUE(apart(99 + 78));
  EXPECT_FALSE(apart(99 + 79));
  EXPECT_FALSE(apart(199));
  EXPECT_TRUE(apart(200));           // a third
  EXPECT_TRUE(apart(199 + 78));
  EXPECT_FALSE(apart(199 + 79));
}

TEST(SampleOrder, shuffles_arrays_larger_than_a_block_as_plain_loops_do) {
  for (const std::size_t n : {2u, 255u, 256u, 257u, 258u, 513u, 4096u, 4097u, 65537u, 100003u}) {
    Ids values(n);
    std::iota(values.begin(), values.end(), 0u);
    std::vector<std::int64_t> plain(values.begin(), values.end());
    NumpyRandomState random(42);
    PlainRandom reference(42);
    for (int twice = 0; twice < 2; ++twice) {  // the second begins in the middle of a block of outputs
      random.shuffle(values);
      reference.shuffle(plain);
      ASSERT_EQ(std::vector<std::int64_t>(values.begin(), values.end()), plain) << n;
    }
  }
}

TEST(SampleOrder, is_refused_beyond_32_bits) {
  const std::vector<std::int32_t> lengths(1000, 5);
  const SequenceLengths view{std::span<const std::int32_t>(lengths)};
  GptDatasetOptions options;
  options.seq_length = 1000000;
  options.num_samples = 30000000;  // 6·10^9 epochs of 5000 tokens
  EXPECT_ANY_THROW(count_samples(view, {0, 1000}, options, "a"));
  options.seq_length = 1;
  options.num_samples = 0xFFFFFFFFll;
  EXPECT_ANY_THROW(count_samples(view, {0, 1000}, options, "a"));
}

// Whatever dp and micro-batch, before and after a change of both, the samples of a step are the next ones of the order.
TEST(Sampler, continues_the_same_order_under_any_layout) {
  std::mt19937 pick(3);
  const int dps[] = {1, 2, 3, 4, 6, 8}, micros[] = {1, 2, 4};
  for (int round = 0; round < 200; ++round) {
    std::int64_t consumed = 0;
    for (int step = 0; step < 6; ++step) {
      StepSamples s;
      s.consumed_samples = consumed;
      s.dp_size = dps[pick() % 6];
      s.micro_batch = micros[pick() % 3];
      s.global_batch = s.dp_size * s.micro_batch * static_cast<std::int64_t>(1 + pick() % 3);
      std::vector<std::int64_t> seen;
      for (std::int64_t r = 0; r < s.dp_size; ++r)
        for (std::int64_t m = 0; m < s.num_micro_batches(); ++m)
          for (std::int64_t i = 0; i < s.micro_batch; ++i) seen.push_back(s.ordinal(r, m, i));
      std::sort(seen.begin(), seen.end());
      std::vector<std::int64_t> want(static_cast<std::size_t>(s.global_batch));
      std::iota(want.begin(), want.end(), consumed);
      ASSERT_EQ(seen, want);
      consumed = s.consumed_after();
    }
  }
}

}  // namespace
}  // namespace mt::data
