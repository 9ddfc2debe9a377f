// Sampling against the probabilities it must have, and generation over a cache against repeated whole passes.

#include "infer/generate.h"

#include <cmath>
#include <limits>
#include <map>
#include <set>

#include <gtest/gtest.h>

#include "base/error.h"
#include "infer/trained_session.h"

namespace mt {
namespace {

const std::vector<float> kLogits = {1.0f, -0.5f, 2.0f, 0.25f, 2.0f, -3.0f, 0.75f, 1.5f};

SamplingOptions options(double temperature, int top_k = 0, double top_p = 1, std::uint64_t seed = 1) {
  return {temperature, top_k, top_p, seed};
}

TEST(Sample, GreedyTakesTheLargestAndTheLowestIdOfTies) {
  EXPECT_EQ(sample(kLogits, options(0), 0, 0), 2);
  EXPECT_EQ(sample({-1, -1, -1}, options(0), 3, 9), 0);
  EXPECT_EQ(sample({-5, std::numeric_limits<float>::infinity()}, options(0), 0, 0), 1);
}

// The distribution asked for: softmax(logits / temperature) on the ids that stay.
std::vector<double> wanted(double temperature, const std::set<int>& ids) {
  std::vector<double> p(kLogits.size());
  double sum = 0;
  for (int id : ids) {
    const auto i = static_cast<std::size_t>(id);
    p[i] = std::exp(static_cast<double>(kLogits[i]) / temperature);
    sum += p[i];
  }
  for (double& x : p) x /= sum;
  return p;
}

constexpr int kDraws = 20000;

std::vector<int> counts(const SamplingOptions& o) {
  std::vector<int> n(kLogits.size());
  for (int i = 0; i < kDraws; ++i)
    ++n[static_cast<std::size_t>(sample(kLogits, o, static_cast<std::uint64_t>(i % 100), static_cast<std::uint64_t>(i / 100)))];
  return n;
}

// Pearson's statistic over at most 7 degrees of freedom: 24.3 is the 0.1 % point.
void expect_distribution(const std::vector<int>& seen, const std::vector<double>& p, const std::string& what) {
  double chi = 0;
  for (std::size_t i = 0; i < p.size(); ++i) {
    if (p[i] == 0) {
      EXPECT_EQ(seen[i], 0) << what << ": id " << i << " was cut off";
      continue;
    }
    const double e = p[i] * kDraws;
    chi += (seen[i] - e) * (seen[i] - e) / e;
  }
  EXPECT_LT(chi, 24.3) << what;
}

TEST(Sample, FollowsTheSoftmaxAtEveryTemperature) {
  for (double t : {0.5, 1.0, 2.5})
    expect_distribution(counts(options(t)), wanted(t, {0, 1, 2, 3, 4, 5, 6, 7}), "temperature " + std::to_string(t));
}

TEST(Sample, TopKKeepsTheMostProbable) {
  // In order: 2 and 4 (equal), 7, 0, 6, 3, 1, 5.
  expect_distribution(counts(options(1, 1)), wanted(1, {2}), "k 1: the lower id of a tie");
  expect_distribution(counts(options(1, 2)), wanted(1, {2, 4}), "k 2");
  expect_distribution(counts(options(0.7, 4)), wanted(0.7, {0, 2, 4, 7}), "k 4");
  expect_distribution(counts(options(1, 100)), wanted(1, {0, 1, 2, 3, 4, 5, 6, 7}), "k beyond the vocabulary");
}

TEST(Sample, TopPKeepsTheSmallestSetThatReachesIt) {
  const auto p = wanted(1, {0, 1, 2, 3, 4, 5, 6, 7});
  double reached = 0;
  std::set<int> ids;
  for (int id : {2, 4, 7, 0, 6, 3, 1}) {
    const double before = reached, mine = p[static_cast<std::size_t>(id)];
    reached += mine;
    ids.insert(id);
    expect_distribution(counts(options(1, 0, before + 0.5 * mine)), wanted(1, ids),
                        "top-p just above " + std::to_string(before));
  }
  expect_distribution(counts(options(1, 0, 1e-9)), wanted(1, {2}), "one always stays");
  expect_distribution(counts(options(1, 3, 0.999)), wanted(1, {2, 4, 7}), "top-p counts within top-k");
}

TEST(Sample, SeedSequenceAndPositionDecideEachDraw) {
  const std::vector<float> flat(1000, 0.0f);
  std::map<std::string, std::vector<std::int32_t>> streams;
  for (std::uint64_t at = 0; at < 50; ++at) {
    streams["seed 1"].push_back(sample(flat, options(1), 0, at));
    streams["again"].push_back(sample(flat, options(1), 0, at));
    streams["seed 2"].push_back(sample(flat, options(1, 0, 1, 2), 0, at));
    streams["sequence 1"].push_back(sample(flat, options(1), 1, at));
    streams["far"].push_back(sample(flat, options(1), 0, at + (1ull << 32)));
  }
  EXPECT_EQ(streams["seed 1"], streams["again"]);
  for (const char* other : {"seed 2", "sequence 1", "far"}) EXPECT_NE(streams["seed 1"], streams[other]) << other;
  EXPECT_GT(std::set<std::int32_t>(streams["seed 1"].begin(), streams["seed 1"].end()).size(), 40u);
}

TEST(Sample, LogitsThatAreNoNumbersAreAnError) {
  for (double t : {0.0, 1.0})
    EXPECT_THROW((void)sample({1, std::numeric_limits<float>::quiet_NaN()}, options(t), 0, 0), Error);
}

// The next ids by a whole pass over everything so far, no cache kept.
std::vector<std::int32_t> by_whole_passes(Session& session, std::vector<std::int32_t> ids, int count,
                                          const SamplingOptions& o, std::uint64_t sequence) {
  std::vector<std::int32_t> out;
  for (int i = 0; i < count; ++i) {
    const int n = static_cast<int>(ids.size());
    auto runner = session.runner({n, 1, 1});
    Arena arena(session.stream().device());
    auto caches = runner.executor->make_caches(arena, n);
    const auto logits = runner.executor->next_logits(test::plain_batch(ids), caches);
    EXPECT_EQ(static_cast<std::int64_t>(logits.size()), session.model().vocab_size);
    out.push_back(sample(logits, o, sequence, static_cast<std::uint64_t>(n)));
    ids.push_back(out.back());
  }
  return out;
}

TEST(Generate, EqualsRepeatedWholePassesOnEveryLayout) {
  for (const bool llama : {true, false}) {
    const test::TemporaryDirectory dir;
    test::save_model(dir.path(), test::small_model({llama, 8, 2, 61}));
    std::map<std::string, std::vector<std::int32_t>> first;
    for (const auto& [tp, dp] : {std::pair{1, 1}, {2, 1}, {4, 2}})
      test::with_session(dir.path(), tp, dp, [&](Session& session) {
        const auto prompt = test::document(5, 2);
        const std::map<std::string, SamplingOptions> ways = {{"greedy", options(0)}, {"sampled", options(1.5, 20, 0.95, 3)}};
        for (const auto& [name, o] : ways) {
          std::vector<std::int32_t> told;
          const Generated g = generate(session, prompt, 12, o, std::nullopt, 4, [&](std::int32_t id) { told.push_back(id); });
          EXPECT_EQ(g.ids, by_whole_passes(session, prompt, 12, o, 4)) << name;
          EXPECT_EQ(g.ids, told);
          EXPECT_FALSE(g.stopped);
          if (session.groups().world->size() == 1) first[name] = g.ids;
          EXPECT_EQ(g.ids, first.at(name)) << name << " on another layout";
        }
      });
    EXPECT_NE(first["greedy"], first["sampled"]);
    EXPECT_GT(std::set<std::int32_t>(first["sampled"].begin(), first["sampled"].end()).size(), 4u);
  }
}

TEST(Generate, StopsAtTheStopIdAndAtTheTableOfPositions) {
  const test::TemporaryDirectory dir;
  test::save_model(dir.path(), test::small_model({false, 8, 2, 61}));  // 24 learned positions
  test::with_session(dir.path(), 1, 1, [](Session& session) {
    const auto prompt = test::document(4, 2);
    const auto all = generate(session, prompt, 20, options(1.5), std::nullopt, 0, {}).ids;
    ASSERT_EQ(all.size(), 20u) << "all 24 positions";
    const std::int32_t stop = all[6];
    const auto end = std::find(all.begin(), all.end(), stop);
    const Generated g = generate(session, prompt, 20, options(1.5), stop, 0, {});
    EXPECT_TRUE(g.stopped);
    EXPECT_EQ(g.ids, std::vector<std::int32_t>(all.begin(), end));
    EXPECT_TRUE(generate(session, prompt, 0, options(0), std::nullopt, 0, {}).ids.empty());
    const auto fails = [&](const std::vector<std::int32_t>& p, int n, Code code, const std::string& says) {
      try {
        (void)generate(session, p, n, options(0), std::nullopt, 0, {});
        ADD_FAILURE() << says;
      } catch (const Error& e) {
        EXPECT_EQ(e.code(), code) << e.what();
        EXPECT_NE(std::string(e.what()).find(says), std::string::npos) << e.what();
      }
    };
    fails(prompt, 21, Code::config, "--max-new-tokens 20");
    fails({}, 3, Code::data, "no tokens");
    fails({1, 61}, 3, Code::data, "token 61");
    fails({-4}, 3, Code::data, "token -4");
  });
}

TEST(Session, RefusesLayoutsTheModelDoesNotDivideAndMissingCheckpoints) {
  const test::TemporaryDirectory dir;
  test::save_model(dir.path(), test::small_model({true, 8, 2, 61}));
  EXPECT_THROW(test::with_session(dir.path(), 3, 1, [](Session&) {}), Error);
  EXPECT_THROW(test::with_session(dir.path() / "none", 1, 1, [](Session&) {}), Error);
  test::with_session(dir.path(), 1, 1, [](Session& s) {
    EXPECT_EQ(s.compute(), DType::f32);
    EXPECT_EQ(s.meta().iteration, 1);
    EXPECT_EQ(num_parameters(s.model()), num_parameters(test::small_model({true, 8, 2, 61})));
  });
}

}  // namespace
}  // namespace mt
