// Every problem alone, all of them at once, and that what is offered as legal is legal.

#include "layout/validate.h"

#include <algorithm>
#include <functional>

#include <gtest/gtest.h>

#include "base/error.h"
#include "layout/models.h"
#include "layout/placement.h"

namespace mt {
namespace {

struct Config {
  ModelOptions model = test::small_options({true, 8, 4, 61});
  std::int64_t vocab = 61;
  ParallelSpec parallel;
  BatchSpec batch{16, 2, 8};
  Limits limits;
  int precision_flags = 1;
  Config() { parallel.tp = 2, parallel.dp = 2, limits = {4, 8, 8, 1, 1, 1, {}}; }
  std::vector<Problem> problems() const {
    return validate(build_model(model, vocab), parallel, batch, limits, precision_flags);
  }
};

std::string text(const std::vector<Problem>& problems) {
  std::string s;
  for (const auto& p : problems) s += p.what + "; try " + p.nearest + "\n";
  return s;
}

using Change = std::function<void(Config&)>;
struct Case {
  const char* what;
  const char* nearest;
  Change spoil;
  std::vector<Change> mends;  // each nearest value, set: no problem left
};

std::vector<Case> cases() {
  const auto num = [](int Config::* m, int v) { return [=](Config& c) { c.*m = v; }; };
  return {
      {"num-attention-heads 8 is not divisible by tensor-model-parallel-size 3",
       "tensor-model-parallel-size 2 or 4, or num-attention-heads 6 or 9",
       [](Config& c) { c.parallel.tp = 3, c.limits.world = 6, c.model.num_query_groups = 1; },
       {[](Config& c) { c.parallel.tp = 2, c.limits.world = 4; }, [](Config& c) { c.parallel.tp = 4, c.limits.world = 8; }}},
      {"num-query-groups 4 is neither a multiple nor a divisor of tensor-model-parallel-size 3",
       "tensor-model-parallel-size 2 or 4",
       [](Config& c) {
         c.parallel.tp = 3, c.limits.world = 6;
         c.model.num_attention_heads = 12, c.model.hidden_size = 48;
       },
       {[](Config& c) { c.parallel.tp = 2, c.limits.world = 4; }, [](Config& c) { c.parallel.tp = 4, c.limits.world = 8; }}},
      {"num-attention-heads 8 is not divisible by num-query-groups 3",
       "num-query-groups 2 or 4, or num-attention-heads 6 or 9",
       [](Config& c) { c.model.num_query_groups = 3, c.parallel.tp = 1, c.limits.world = 2; },
       {[](Config& c) { c.model.num_query_groups = 2; }, [](Config& c) { c.model.num_query_groups = 4; }}},
      {"ffn-hidden-size 49 is not divisible by tensor-model-parallel-size 2",
       "tensor-model-parallel-size 1 or 7, or ffn-hidden-size 48 or 50",
       [](Config& c) { c.model.ffn_hidden_size = 49; },
       {[](Config& c) { c.model.ffn_hidden_size = 48; }, [](Config& c) { c.model.ffn_hidden_size = 50; },
        [](Config& c) { c.parallel.tp = 1, c.limits.world = 2; }}},
      {"hidden-size 34 is not divisible by num-attention-heads 8",
       "num-attention-heads 2 or 17, or hidden-size 32 or 40",
       [](Config& c) { c.model.hidden_size = 34; },
       {[](Config& c) { c.model.hidden_size = 32; }, [](Config& c) { c.model.hidden_size = 48; }}},
      {"kv-channels 5 is odd, rotary positions need pairs", "kv-channels 4 or 6",
       [](Config& c) { c.model.kv_channels = 5; },
       {[](Config& c) { c.model.kv_channels = 4; }, [](Config& c) { c.model.kv_channels = 6; }}},
      {"max-position-embeddings 24 is less than seq-length 32", "max-position-embeddings 32",
       [](Config& c) {
         c.batch.seq_length = 32;
         c.model.position_embedding_type = "learned_absolute";
       },
       {[](Config& c) { c.model.max_position_embeddings = 32; }}},
      {"seq-length 15 is not divisible by tensor-model-parallel-size (sequence parallel) 2",
       "tensor-model-parallel-size (sequence parallel) 1 or 3, or seq-length 14 or 16",
       [](Config& c) { c.parallel.sequence_parallel = true, c.batch.seq_length = 15; },
       {[](Config& c) { c.batch.seq_length = 14; }, [](Config& c) { c.batch.seq_length = 16; }}},
      {"global-batch-size 10 is not divisible by micro-batch-size·data-parallel-size 4",
       "global-batch-size 8 or 12, or micro-batch-size 1 or 5", [](Config& c) { c.batch.global_batch = 10; },
       {[](Config& c) { c.batch.global_batch = 8; }, [](Config& c) { c.batch.global_batch = 12; },
        [](Config& c) { c.batch.micro_batch = 1; }, [](Config& c) { c.batch.micro_batch = 5; }}},
      {"global-batch-size 2000000000 is 500000000 micro-batches a step, more than 1000000",
       "global-batch-size 4000000", [](Config& c) { c.batch.global_batch = 2000000000; },
       {[](Config& c) { c.batch.global_batch = 4000000; }}},
      {"global-batch-size 3 is not divisible by micro-batch-size·data-parallel-size 4", "global-batch-size 4",
       [](Config& c) { c.batch.global_batch = 3; }, {[](Config& c) { c.batch.global_batch = 4; }}},
      {"world size 5 is not divisible by tp·cp·pp 2", "tp·cp·pp 1 or 5, or world size 4 or 6",
       [](Config& c) { c.limits.world = 5; }, {[](Config& c) { c.limits.world = 4; }}},
      {"world size 8 is not tp·cp·pp·dp = 2·1·1·2 = 4",
       "data-parallel-size 4, or tensor-model-parallel-size 4, or world size 4", [](Config& c) { c.limits.world = 8; },
       {[](Config& c) { c.parallel.dp = 4; }, [](Config& c) { c.parallel.tp = 4; }, [](Config& c) { c.limits.world = 4; }}},
      {"world size 128 is not tp·cp·pp·dp = 8·2·8·2 = 256",
       "data-parallel-size 1, or context-parallel-size 1, or pipeline-model-parallel-size 4, or tensor-model-parallel-size "
       "4, or world size 256",
       [](Config& c) {
         c.model.num_layers = 8;
         c.parallel.tp = 8, c.parallel.cp = 2, c.parallel.pp = 8, c.limits.world = 128;
       },
       {[](Config& c) { c.parallel.dp = 1; }, [](Config& c) { c.parallel.cp = 1; }, [](Config& c) { c.parallel.pp = 4; },
        [](Config& c) { c.parallel.tp = 4; }, [](Config& c) { c.limits.world = 256; }}},
      {"seq-length 16 is not divisible by 2·context-parallel-size 6", "2·context-parallel-size 4 or 8, or seq-length 12 or 18",
       [](Config& c) { c.parallel.cp = 3, c.limits.world = 12; },
       {[](Config& c) { c.parallel.cp = 2, c.limits.world = 8; }, [](Config& c) { c.batch.seq_length = 18; }}},
      {"num-virtual-stages-per-pipeline-rank 2 with pipeline-model-parallel-size 1",
       "num-virtual-stages-per-pipeline-rank 1, or pipeline-model-parallel-size 2",
       [](Config& c) { c.parallel.vpp = 2; }, {[](Config& c) { c.parallel.vpp = 1; }}},
      {"num-layers 2 is not divisible by pp·vpp 4", "pp·vpp 2, or num-layers 4",
       [](Config& c) { c.parallel.pp = 4, c.limits.world = 16; }, {[](Config& c) { c.model.num_layers = 4; }}},
      {"pipeline-model-parallel-size 2 is more than this program runs, 1", "pipeline-model-parallel-size 1",
       [](Config& c) { c.parallel.pp = 2, c.limits.max_pp = 1, c.limits.world = 8; },
       {[](Config& c) { c.parallel.pp = 1, c.limits.world = 4; }}},
      {"context-parallel-size 2 is more than this program runs, 1", "context-parallel-size 1",
       [](Config& c) { c.parallel.cp = 2, c.limits.max_cp = 1, c.limits.world = 8; },
       {[](Config& c) { c.parallel.cp = 1, c.limits.world = 4; }}},
      {"ZeRO stage 2 is more than this program runs, 1", "ZeRO stage 1", [](Config& c) { c.parallel.zero_stage = 2; },
       {[](Config& c) { c.parallel.zero_stage = 1; }}},
      {"expert-model-parallel-size 4 is more than this program runs, 1", "expert-model-parallel-size 1",
       [](Config& c) { c.parallel.ep = 4; }, {[](Config& c) { c.parallel.ep = 1; }}},
      {"rank-order 'tp-dp' names 2 of 5 axes", "rank-order tp-cp-ep-dp-pp",
       [](Config& c) { c.parallel.order = "tp-dp"; }, {[](Config& c) { c.parallel.order = "tp-cp-ep-dp-pp"; }}},
      {"2 half precisions given, fp16 and bf16, at most 1", "--bf16 alone", num(&Config::precision_flags, 2),
       {num(&Config::precision_flags, 1)}},
      {"vocab-size 61 is less than largest token id + 1 = 70 of the data", "vocab-size 70",
       [](Config& c) { c.limits.vocab_of_data = 70; }, {[](Config& c) { c.vocab = 70; }}},
      {"micro-batch-size is 0, must be at least 1", "micro-batch-size 1", [](Config& c) { c.batch.micro_batch = 0; },
       {[](Config& c) { c.batch.micro_batch = 1; }}},
      {"make-vocab-size-divisible-by is 0, must be at least 1", "make-vocab-size-divisible-by 1",
       [](Config& c) { c.model.make_vocab_size_divisible_by = 0; },
       {[](Config& c) { c.model.make_vocab_size_divisible_by = 1; }}},
      {"num-layers is 0, must be at least 1", "num-layers 1", [](Config& c) { c.model.num_layers = 0; },
       {[](Config& c) { c.model.num_layers = 1; }}},
      {"num-virtual-stages-per-pipeline-rank is 0, must be at least 1", "num-virtual-stages-per-pipeline-rank 1",
       [](Config& c) { c.parallel.vpp = 0; }, {[](Config& c) { c.parallel.vpp = 1; }}},
  };
}

TEST(Validate, ALegalRunHasNoProblem) { EXPECT_EQ(text(Config().problems()), ""); }

std::vector<Case> cases_of_instances() {
  return {
      {"data-parallel-size·context-parallel-size 2 is not divisible by num-distributed-optimizer-instances 3",
       "num-distributed-optimizer-instances 2, or data-parallel-size·context-parallel-size 3",
       [](Config& c) { c.parallel.optimizer_instances = 3, c.parallel.zero_stage = 1; },
       {[](Config& c) { c.parallel.optimizer_instances = 2; }}},
      {"num-distributed-optimizer-instances 2 without sharded optimizer state",
       "--use-distributed-optimizer, or num-distributed-optimizer-instances 1",
       [](Config& c) { c.parallel.optimizer_instances = 2; },
       {[](Config& c) { c.parallel.zero_stage = 1; }, [](Config& c) { c.parallel.optimizer_instances = 1; }}},
  };
}

TEST(Validate, EveryProblemAloneIsOneLineAndItsNearestValuesAreLegal) {
  std::vector<Case> all = cases();
  for (auto& c : cases_of_instances()) all.push_back(std::move(c));
  for (const Case& c : all) {
    Config config;
    c.spoil(config);
    const auto problems = config.problems();
    EXPECT_EQ(text(problems), std::string(c.what) + "; try " + c.nearest + "\n");
    for (const Change& mend : c.mends) {
      Config mended = config;
      mend(mended);
      EXPECT_EQ(text(mended.problems()), "") << "mending: " << c.what;
    }
  }
}

// A set of mistakes on every axis: all are said in one run, each with both numbers.
TEST(Validate, AllProblemsComeAtOnce) {
  Config c;
  c.model.num_attention_heads = 12;
  c.model.num_query_groups = 12;
  c.model.hidden_size = 48;
  c.parallel = {};
  c.parallel.tp = 8;
  c.parallel.ep = 4;
  c.parallel.vpp = 2;
  c.parallel.sequence_parallel = true;
  c.batch = {1001, 1, 1};
  c.limits.world = 12;
  c.precision_flags = 2;
  const std::string all = text(c.problems());
  for (const char* want :
       {"world size 12 is not divisible by tp·cp·pp 8; try tp·cp·pp 6 or 12, or world size 8 or 16",
        "num-attention-heads 12 is not divisible by tensor-model-parallel-size 8; try tensor-model-parallel-size 6 or 12",
        "seq-length 1001 is not divisible by tensor-model-parallel-size (sequence parallel) 8", "or seq-length 1000 or 1008",
        "expert-model-parallel-size 4 is more than this program runs, 1",
        "num-virtual-stages-per-pipeline-rank 2 with pipeline-model-parallel-size 1", "2 half precisions given"})
    EXPECT_NE(all.find(want), std::string::npos) << want << "\nis not in\n" << all;
  EXPECT_EQ(std::count(all.begin(), all.end(), '\n'), 6) << all;
}

TEST(Validate, BadOrdersAreNamed) {
  ParallelSpec p;
  p.tp = p.dp = p.pp = 2;
  EXPECT_FALSE(order_problem(p));
  for (const char* bad : {"", "tp", "tp-cp-dp-pp", "tp-tp-cp-ep-dp-pp", "tp-cp-ep-dp-pp-foo", "tp-cp-ep-dp-qq",
                          "tp-cp-ep-dp-pp-", "TP-cp-ep-dp-pp"}) {
    p.order = bad;
    EXPECT_TRUE(order_problem(p)) << bad;
  }
  p.order = "tp-cp-ep-pp-dp";  // needs dp = edp
  EXPECT_TRUE(order_problem(p));
  p.etp = 2;
  EXPECT_FALSE(order_problem(p));
  (void)place(p);
}

// Where order_problem is silent place() must agree with itself, and where place() would clash it must speak.
TEST(Validate, OrderProblemsAreExactlyTheClashesOfTheTwoGrids) {
  std::vector<std::string> axes{"cp", "dp", "ep", "pp", "tp"};
  do {
    for (int ep : {1, 2, 4})
      for (int etp : {1, 2}) {
        ParallelSpec p;
        p.tp = p.dp = p.pp = p.cp = 2;
        p.ep = ep, p.etp = etp;
        p.order.clear();
        for (const auto& a : axes) p.order += (p.order.empty() ? "" : "-") + a;
        int dense = 1, expert = 1;  // ranks from one pipeline stage to the next
        for (const auto& a : axes) {
          if (a == "pp") break;
          if (a == "tp") dense *= 2, expert *= etp;
          if (a == "cp") dense *= 2;
          if (a == "dp") dense *= 2, expert *= p.edp();
          if (a == "ep") expert *= ep;
        }
        ASSERT_EQ(order_problem(p).has_value(), dense != expert) << p.order << " ep " << ep << " etp " << etp;
        if (dense == expert) (void)place(p);  // aborts on a clash
      }
  } while (std::next_permutation(axes.begin(), axes.end()));
}

TEST(Validate, ZeroDegreesAreAllListed) {
  Config c;
  c.parallel.tp = c.parallel.cp = c.parallel.pp = c.parallel.dp = c.parallel.ep = c.parallel.etp = 0;
  c.parallel.vpp = -1;
  EXPECT_EQ(c.problems().size(), 7u) << text(c.problems());
}

TEST(Validate, KvChannelsFreeTheHiddenSizeFromTheHeads) {
  Config c;
  c.model.hidden_size = 36;  // 8 heads of 16 features: nothing to divide
  c.model.kv_channels = 16;
  EXPECT_EQ(text(c.problems()), "");
}

TEST(Validate, NearestDivisorsAreTheClosestOnEachSide) {
  for (std::int64_t n = 1; n <= 60; ++n)
    for (std::int64_t wanted = 1; wanted <= 70; ++wanted) {
      std::int64_t below = 0, above = 0;
      for (std::int64_t d = 1; d <= n; ++d)
        if (n % d == 0) {
          if (d <= wanted) below = d;
          if (d >= wanted && above == 0) above = d;
        }
      const std::string want = above == 0 || above == below ? std::to_string(below)
                                                            : std::to_string(below) + " or " + std::to_string(above);
      ASSERT_EQ(nearest_divisors(n, wanted), want) << n << " " << wanted;
    }
}

TEST(Validate, RequireValidThrowsOneErrorOfAllLines) {
  EXPECT_NO_THROW(require_valid({}));
  try {
    require_valid({{"a 3 is odd", "a 2"}, {"b 0", "b 1"}});
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::config);
    EXPECT_EQ(e.message(), "2 problems\n  a 3 is odd; try a 2\n  b 0; try b 1");
  }
}

}  // namespace
}  // namespace mt
