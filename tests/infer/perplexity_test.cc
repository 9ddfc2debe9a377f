// Windows against each target scored by hand: every one once, with the context the header promises.

#include "infer/perplexity.h"

#include <cmath>

#include <gtest/gtest.h>

#include "base/error.h"
#include "infer/trained_session.h"

namespace mt {
namespace {

constexpr std::int32_t kStart = 60;

ScoredDocument scored(std::vector<std::int32_t> tokens, std::int64_t words = 0, std::int64_t bytes = 0) {
  return {std::move(tokens), words, bytes};
}

// Loss of the target after `context`, by one pass over exactly those tokens.
double loss_of_last(Session& session, const std::vector<std::int32_t>& context, std::int32_t target) {
  auto runner = session.runner({static_cast<int>(context.size()), 1, 1});
  HostBatch b = test::plain_batch(context);
  b.labels.assign(context.size(), 0);
  b.labels.back() = target;
  b.mask.assign(context.size(), 1.0f);
  return static_cast<double>(runner.executor->score(b).back());
}

struct Expected {
  double nll = 0;
  std::int64_t targets = 0;
};

// Window k covers targets up to window + k·stride and sees `window` tokens before its end.
Expected by_hand(Session& session, const std::vector<std::int32_t>& sequence, std::int64_t window, std::int64_t stride) {
  Expected e;
  const auto targets = static_cast<std::int64_t>(sequence.size()) - 1;
  for (std::int64_t t = 0; t < targets; ++t) {  // target t is sequence[t + 1]
    const std::int64_t k = t < window ? 0 : (t - window) / stride + 1;
    const std::int64_t end = std::min(window + k * stride, targets), begin = std::max<std::int64_t>(0, end - window);
    e.nll += loss_of_last(session, {sequence.begin() + begin, sequence.begin() + t + 1},
                          sequence[static_cast<std::size_t>(t + 1)]);
    ++e.targets;
  }
  return e;
}

class Perplexities : public testing::Test {
 protected:
  test::TemporaryDirectory dir_;
  void SetUp() override { test::save_model(dir_.path(), test::small_model({true, 8, 2, 61})); }
};

TEST_F(Perplexities, EveryTargetIsScoredOnceInWindowsOfEverySize) {
  test::with_session(dir_.path(), 1, 1, [](Session& session) {
    for (const bool start : {false, true})
      for (const auto& [window, stride] : {std::pair{8, 4}, {8, 8}, {7, 3}, {5, 1}, {1, 1}, {24, 12}, {40, 7}})
        for (int n : {2, 7, 8, 9, 16, 23}) {
          PerplexityOptions o;
          o.window = window, o.stride = stride, o.micro_batch = 3;
          if (start) o.start_id = kStart;
          const auto tokens = test::document(n, window + stride);
          const Perplexity p = perplexity(session, {scored(tokens)}, o);
          auto sequence = tokens;
          if (start) sequence.insert(sequence.begin(), kStart);
          const Expected want = by_hand(session, sequence, window, stride);
          ASSERT_EQ(p.tokens, want.targets) << window << "/" << stride << " of " << n;
          ASSERT_EQ(p.tokens, start ? n : n - 1);
          ASSERT_EQ(p.unscored_tokens, start ? 0 : 1);
          ASSERT_NEAR(p.nll, want.nll, 2e-6 * want.nll) << window << "/" << stride << " of " << n << " start " << start;
        }
  });
}

TEST_F(Perplexities, ATextThatFitsIsOnePass) {
  test::with_session(dir_.path(), 1, 1, [](Session& session) {
    const auto tokens = test::document(20, 3);
    PerplexityOptions o;
    o.start_id = kStart;
    double before = 0;
    for (int window : {20, 24, 33}) {
      o.window = window;
      const Perplexity p = perplexity(session, {scored(tokens)}, o);
      EXPECT_EQ(p.windows, 1);
      if (before != 0) {
        EXPECT_NEAR(p.nll, before, 1e-6 * before);
      }
      before = p.nll;
    }
    o.window = 5;
    o.stride = 5;
    EXPECT_GT(std::fabs(perplexity(session, {scored(tokens)}, o).nll - before), 1e-3) << "context matters to this model";
  });
}

TEST_F(Perplexities, AWindowIsNoLongerThanTheLongestDocument) {
  test::with_session(dir_.path(), 1, 1, [](Session& session) {
    const std::vector<ScoredDocument> two = {scored(test::document(5, 1)), scored(test::document(9, 2))};
    PerplexityOptions o;
    o.start_id = kStart;
    o.window = 9, o.stride = 9;
    const Perplexity want = perplexity(session, two, o);
    o.window = 2000000000, o.stride = 1000000000, o.micro_batch = 2000000000;
    const Perplexity p = perplexity(session, two, o);
    EXPECT_EQ(p.window, 9);
    EXPECT_EQ(p.stride, 9);
    EXPECT_EQ(p.windows, 2);
    EXPECT_NEAR(p.nll, want.nll, 1e-6 * want.nll);
  });
}

TEST_F(Perplexities, DocumentsDoNotSeeEachOtherAndAddUp) {
  test::with_session(dir_.path(), 1, 1, [](Session& session) {
    PerplexityOptions o;
    o.start_id = kStart;
    o.window = 6, o.stride = 3;
    std::vector<ScoredDocument> all;
    double nll = 0;
    std::int64_t tokens = 0, windows = 0;
    for (int n : {5, 0, 13, 1, 6, 7}) {
      all.push_back(scored(test::document(n, n), n, 4 * n));
      if (n == 0) continue;
      const Perplexity one = perplexity(session, {all.back()}, o);
      nll += one.nll, tokens += one.tokens, windows += one.windows;
    }
    const Perplexity p = perplexity(session, all, o);
    EXPECT_NEAR(p.nll, nll, 1e-6 * nll);
    EXPECT_EQ(p.tokens, tokens);
    EXPECT_EQ(p.windows, windows);
    EXPECT_EQ(p.documents, 6);
    EXPECT_EQ(p.words, 32);
    EXPECT_DOUBLE_EQ(p.token_ppl(), std::exp(p.nll / 32));
    EXPECT_DOUBLE_EQ(p.word_ppl(), std::exp(p.nll / 32));
    EXPECT_DOUBLE_EQ(p.byte_ppl(), std::exp(p.nll / 128));
    EXPECT_DOUBLE_EQ(p.bits_per_byte(), p.nll / 128 / std::log(2.0));
  });
}

TEST_F(Perplexities, AreTheSameInEveryLayoutAndMicroBatch) {
  double reference = 0;
  std::vector<ScoredDocument> documents;
  for (int n : {5, 17, 23, 9}) documents.push_back(scored(test::document(n, n)));
  for (const auto& [tp, dp, micro_batch] :
       {std::tuple{1, 1, 4}, {1, 1, 1}, {2, 1, 3}, {4, 1, 2}, {1, 3, 2}, {2, 2, 50}}) {
    double nll = 0;
    test::with_session(dir_.path(), tp, dp, [&nll, &documents, micro = micro_batch](Session& session) {
      PerplexityOptions o;
      o.window = 8, o.stride = 3, o.micro_batch = micro;
      const Perplexity p = perplexity(session, documents, o);
      EXPECT_EQ(p.tokens, 4 + 16 + 22 + 8);
      if (session.groups().world->rank() == 0) nll = p.nll;
    });
    if (reference == 0) reference = nll;
    EXPECT_NEAR(nll, reference, 2e-6 * reference) << "tp " << tp << " dp " << dp;
  }
}

void expect_fails(Session& s, const std::vector<ScoredDocument>& d, const PerplexityOptions& o, Code code,
                  const std::string& says) {
  try {
    (void)perplexity(s, d, o);
    ADD_FAILURE() << says;
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), code) << e.what();
    EXPECT_NE(std::string(e.what()).find(says), std::string::npos) << e.what();
  }
}

TEST_F(Perplexities, DefaultsFollowTheModelAndErrorsNameTheWayOut) {
  const std::vector<ScoredDocument> some = {scored(test::document(40, 1))};
  test::with_session(dir_.path(), 1, 1, [&](Session& session) {
    const Perplexity p = perplexity(session, some, {});
    EXPECT_EQ(p.window, 24);
    EXPECT_EQ(p.stride, 12);
    PerplexityOptions o;
    o.window = 8, o.stride = 9;
    expect_fails(session, some, o, Code::config, "--stride 8");
    o.stride = 4, o.micro_batch = 0;
    expect_fails(session, some, o, Code::config, "--micro-batch-size 1");
    expect_fails(session, {}, {}, Code::data, "nothing to score");
    expect_fails(session, {scored({5})}, {}, Code::data, "nothing to score");
    expect_fails(session, {scored({5, 61})}, {}, Code::data, "document 1 holds token 61");
    expect_fails(session, {scored({5}), scored({-1, 2})}, {}, Code::data, "document 2 holds token -1");
  });
  const test::TemporaryDirectory learned;
  test::save_model(learned.path(), test::small_model({false, 8, 2, 61}));
  test::with_session(learned.path(), 1, 1, [&](Session& session) {
    PerplexityOptions o;
    o.window = 25;
    expect_fails(session, some, o, Code::config, "--window 24");
    o.window = 24;
    EXPECT_GT(perplexity(session, some, o).nll, 0);
  });
}

TEST(CountWords, AsWcDoes) {
  EXPECT_EQ(count_words(""), 0);
  EXPECT_EQ(count_words(" \t\n"), 0);
  EXPECT_EQ(count_words("one"), 1);
  EXPECT_EQ(count_words("  one\ttwo\r\nthree \v four\f"), 4);
  EXPECT_EQ(count_words("na\xC3\xAFve caf\xC3\xA9"), 2);
}

}  // namespace
}  // namespace mt
