// What pure code predicts against what a run really allocates.

#include "plan/memory.h"
#include "train/tiny_run.h"

namespace mt {
namespace {

TEST(Memory, PeakOfARunIsWithinFivePercentOfThePlan) {
  for (const auto& [bf16, bf16_gradients] : {std::pair{false, false}, {true, false}, {true, true}}) {
    for (const char* family : {"gpt2", "llama"}) {
      const test::TempDir dir;
      auto o = test::tiny_options(dir, family);
      o.bf16 = bf16;
      o.grad_reduce_in_bf16 = bf16_gradients;
      o.train_iters = 1;
      o.model.hidden_size = 256;
      o.model.num_attention_heads = 8;
      o.data.vocab_size = 4000;
      o.batch = {64, 4, 8};
      o.model.max_position_embeddings = 64;
      const auto complete = complete_options(o, 1);
      const auto plan = plan_memory(model_of(complete), complete.parallel, complete.batch, {},
                                    complete.state(), 1);
      const std::size_t before = live_buffer_bytes();
      reset_peak_buffer_bytes();
      test::run_tiny(o, 1);
      const auto peak = static_cast<double>(peak_buffer_bytes() - before);
      EXPECT_NEAR(peak / static_cast<double>(plan.total()), 1.0, 0.05) << family << (bf16 ? " bf16" : " f32");
    }
  }
}

}  // namespace
}  // namespace mt
