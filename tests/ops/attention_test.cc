#include "ops/arithmetic.h"
#include "ops/attention_cases.h"

#include <gtest/gtest.h>

#include "ops/op_test.h"
#include "ops/scratch_peak.h"

namespace mt::test {

MT_OP_TESTS(Attention, attention_cases())

TEST(Attention, GradientsMatchCentralDifferencesOfTheReference) {
  // The textbook backward of the reference is itself held to its forward.
  const AttentionCase c{{3}, {4}, 2, 1, 5, DType::f32, true, 0.3};
  Data d;
  AttentionInputs in(d, c);
  const AttentionAnswer a = attention_reference(c, in);
  const Doubles weight = values(in.dout);
  const auto difference = [&](View& x, const Doubles& got) {
    const View kept = x;
    const Doubles start = values(x);
    for (std::size_t i = 0; i < start.size(); ++i) {
      double sum = 0;
      for (double step : {1e-2, -1e-2}) {
        Doubles moved = start;
        moved[i] += step;
        const View y = d.zeros(DType::f32, kept.shape);
        for (I j = 0; j < y.size(); ++j) store(y, j, moved[z(j)]);
        x = y;
        const Doubles out = attention_reference(c, in).out;
        for (std::size_t j = 0; j < out.size(); ++j) sum += weight[j] * out[j] / (step > 0 ? 2e-2 : -2e-2);
      }
      EXPECT_NEAR(sum, got[i], 2e-3) << i;
    }
    x = kept;
  };
  difference(in.q, a.dq);
  difference(in.k, a.dk);
  difference(in.v, a.dv);
}

TEST(Attention, MergedPartsEqualTheWhole) {
  Data d;
  const I n = 40, keys = 100, cut = 37, heads = 2, dim = 16;
  const View q = d.normal(DType::f32, {n, heads, dim}), k = d.normal(DType::f32, {keys, heads, dim}),
             v = d.normal(DType::f32, {keys, heads, dim});
  TestStream st;
  const auto run = [&](I lo, I hi, const View& out, const View& lse) {
    ops::AttentionShape s;
    s.cu_q = d.list(DType::i32, {0, static_cast<double>(n)});
    s.cu_k = d.list(DType::i32, {0, static_cast<double>(hi - lo)});
    s.causal = false;
    s.scale = 0.25f;
    ops::attention_forward(st, {q, k.rows(lo, hi), v.rows(lo, hi), out, lse, s});
  };
  const auto out = [&] { return d.zeros(DType::f32, {n, heads, dim}); };
  const auto lse = [&] { return d.zeros(DType::f32, {n, heads}); };
  const View whole = out(), whole_lse = lse(), a = out(), a_lse = lse(), b = out(), b_lse = lse();
  run(0, keys, whole, whole_lse);
  run(0, cut, a, a_lse);
  run(cut, keys, b, b_lse);
  // Starting from nothing: zeros and −infinity are the neutral element.
  const View sum = out(), sum_lse = lse();
  ops::fill(st, sum_lse, -std::numeric_limits<double>::infinity());
  ops::attention_merge(st, {sum, sum_lse, a, a_lse});
  EXPECT_EQ(values(sum), values(a));
  ops::attention_merge(st, {sum, sum_lse, b, b_lse});
  const Doubles got = values(sum), want = values(whole), got_lse = values(sum_lse), want_lse = values(whole_lse);
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], 2e-6);
  for (std::size_t i = 0; i < got_lse.size(); ++i) EXPECT_NEAR(got_lse[i], want_lse[i], 2e-6);
}

// Most scratch bytes one pass over `tokens` tokens holds at once.
double scratch_bytes(I tokens, bool backward) {
  const AttentionCase c{{tokens}, {tokens}, 2, 1, 16, DType::f32};
  Prepared p = attention_case(c, backward, false).prepare();
  TestStream st(2);
  scratch_peak_reset();
  p.run(st);
  return static_cast<double>(scratch_peak());
}

TEST(Attention, ScratchGrowsNoFasterThanTheNumberOfTokens) {
  if (!on_cpu()) GTEST_SKIP() << "the scratch measured is that of the CPU's kernels";
  for (bool backward : {false, true}) {
    const double small = scratch_bytes(512, backward), large = scratch_bytes(4096, backward);
    EXPECT_GT(small, 0);
    EXPECT_LT(large, 8.5 * small) << "backward " << backward;
    EXPECT_LT(large, 4096.0 * 4096 * 4 / 4) << "a score matrix was stored";
  }
}

}  // namespace mt::test
