#include "ops/cost.h"

#include <gtest/gtest.h>

#include "ops/attention.h"

namespace mt::ops {

TEST(Cost, CausalPairsCountEveryKeyEveryQuerySees) {
  for (std::int64_t nq = 0; nq < 9; ++nq)
    for (std::int64_t nk = 0; nk < 9; ++nk) {
      std::int64_t pairs = 0;
      for (std::int64_t i = 0; i < nq; ++i)
        for (std::int64_t j = 0; j < nk; ++j) pairs += j <= i + nk - nq;
      EXPECT_EQ(causal_pairs(nq, nk), pairs) << nq << " " << nk;
    }
}

TEST(Cost, AttentionIsTwoProductsOverTheUnmaskedPairs) {
  EXPECT_EQ(attention_cost(4, 6, 3, 8, false, 2).flop, 2.0 * 2 * 4 * 6 * 3 * 8);
  EXPECT_EQ(attention_cost(4, 4, 3, 8, true, 2).flop, 2.0 * 2 * 10 * 3 * 8);
}

}  // namespace mt::ops
