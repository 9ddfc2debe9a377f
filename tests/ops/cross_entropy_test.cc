#include "ops/cross_entropy_cases.h"

#include <limits>

#include "ops/op_test.h"

namespace mt::test {

MT_OP_TESTS(CrossEntropy, cross_entropy_cases())

// Three ranks with their reductions done by hand give what one rank gives.
TEST(CrossEntropy, ShardsGiveTheWholeLossAndGradient) {
  for (float smoothing : {0.0f, 0.2f}) {
    Data d;
    TestStream st;
    const I rows = 6, vocab = 50;
    const View whole = d.normal(DType::f32, {rows, 60}, 3), targets = d.integers(DType::i32, {rows}, 0, vocab),
               scale = d.normal(DType::f32, {rows});
    const auto row = [&] { return d.zeros(DType::f32, {rows}); };
    struct Rank {
      View logits, max, sum, target, all, loss;
      I columns, first;
    };
    std::vector<Rank> ranks;
    for (I r = 0; r < 3; ++r) {
      const View part = d.zeros(DType::f32, {rows, 20});
      for (I t = 0; t < rows; ++t)
        for (I i = 0; i < 20; ++i) store(part, t * 20 + i, load(whole, t * 60 + 20 * r + i));
      ranks.push_back({part, row(), row(), row(), row(), row(), std::clamp<I>(vocab - 20 * r, 0, 20), 20 * r});
    }
    const auto reduce = [&](View Rank::*field, bool max) {
      for (I t = 0; t < rows; ++t) {
        double v = max ? -std::numeric_limits<double>::infinity() : 0;
        for (Rank& r : ranks) v = max ? std::max(v, load(r.*field, t)) : v + load(r.*field, t);
        for (Rank& r : ranks) store(r.*field, t, v);
      }
    };
    for (Rank& r : ranks) ops::cross_entropy_max(st, {r.logits, r.columns, r.max});
    reduce(&Rank::max, true);
    for (Rank& r : ranks)
      ops::cross_entropy_sum(st, {r.logits, r.columns, r.max, targets, r.first, r.sum, r.target, r.all});
    reduce(&Rank::sum, false);
    reduce(&Rank::target, false);
    reduce(&Rank::all, false);
    for (Rank& r : ranks)
      ops::cross_entropy_loss(st, {r.logits, r.columns, r.max, r.sum, r.target, r.all, targets, r.first, r.loss, scale,
                                   true, smoothing, vocab});
    Rank one{d.copy(whole), row(), row(), row(), row(), row(), vocab, 0};
    ops::cross_entropy_max(st, {one.logits, vocab, one.max});
    ops::cross_entropy_sum(st, {one.logits, vocab, one.max, targets, 0, one.sum, one.target, one.all});
    ops::cross_entropy_loss(st, {one.logits, vocab, one.max, one.sum, one.target, one.all, targets, 0, one.loss, scale,
                                 true, smoothing, vocab});
    for (I t = 0; t < rows; ++t) {
      EXPECT_NEAR(load(one.loss, t), load(ranks[2].loss, t), 1e-5);
      for (I i = 0; i < 60; ++i)
        EXPECT_NEAR(load(one.logits, t * 60 + i), load(ranks[z(i / 20)].logits, t * 20 + i % 20), 1e-6);
    }
  }
}

TEST(CrossEntropy, OneWithoutTheGradientLeavesLogits) {
  Data d;
  TestStream st;
  const View logits = d.normal(DType::f32, {2, 9}), targets = d.list(DType::i32, {3, 8});
  const auto row = [&] { return d.zeros(DType::f32, {2}); };
  const View max = row(), sum = row(), target = row(), loss = row();
  const Doubles before = values(logits);
  ops::cross_entropy_max(st, {logits, 9, max});
  ops::cross_entropy_sum(st, {logits, 9, max, targets, 0, sum, target, {}});
  ops::cross_entropy_loss(st, {logits, 9, max, sum, target, {}, targets, 0, loss, {}, false});
  EXPECT_EQ(values(logits), before);
  EXPECT_GT(load(loss, 0), 0);
}

TEST(CrossEntropy, ANanLogitGivesANanLoss) {
  Data d;
  TestStream st;
  for (I bad : {0, 5, 16, 17}) {
    const View logits = d.normal(DType::f32, {1, 18}), targets = d.list(DType::i32, {3});
    store(logits, bad, std::nan(""));
    const auto row = [&] { return d.zeros(DType::f32, {1}); };
    const View max = row(), sum = row(), target = row(), loss = row();
    ops::cross_entropy_max(st, {logits, 18, max});
    ops::cross_entropy_sum(st, {logits, 18, max, targets, 0, sum, target, {}});
    ops::cross_entropy_loss(st, {logits, 18, max, sum, target, {}, targets, 0, loss, {}, false});
    EXPECT_TRUE(std::isnan(load(max, 0))) << bad;
    EXPECT_TRUE(std::isnan(load(loss, 0))) << bad;
  }
}

}  // namespace mt::test
