// Attention by cuDNN: on the emulated device by what stands for the library there, on a GPU by the library.
#include <gtest/gtest.h>

#include <cstdlib>

#include "device/backend.h"
#include "ops/attention_cases.h"
#include "ops/op_test.h"

namespace mt::test {

namespace {

// The stand-in is there only where it is asked for, so that other tests keep to kernels of ours.
class CudnnAttention : public ::testing::Test {
 protected:
  void SetUp() override {
    if (on_cpu()) GTEST_SKIP() << "cuDNN computes on CUDA devices: MT_TEST_DEVICE is cpu";
    setenv("MT_EMULATION_CUDNN", "1", 1);
    const std::string words = ops::attention_kernels(test_device(), ops::AttentionKernels::fastest);
    if (words.starts_with("our own")) GTEST_SKIP() << "attention is " << words;
    is_emulated_ = words.starts_with("emulated");
  }
  void TearDown() override { unsetenv("MT_EMULATION_CUDNN"); }
  bool is_emulated_ = false;
};

constexpr auto kB16 = DType::bf16;

// Equal lengths, and packed ones of few and many sequences; every head dim there is a kernel for; groups; more keys.
std::vector<AttentionCase> taken() {
  std::vector<AttentionCase> cases = {
      {{150}, {150}, 2, 1, 64, kB16},
      {{33, 33, 33}, {33, 33, 33}, 4, 2, 128, kB16},
      {{64, 64}, {64, 64}, 2, 2, 96, DType::f16},
      {{20, 20}, {50, 50}, 3, 1, 72, kB16},
      {{35}, {20}, 2, 2, 64, kB16, false},
      {{70, 3, 131}, {70, 3, 131}, 4, 2, 64, kB16},
      {{1, 90, 5, 17, 2}, {1, 90, 5, 17, 2}, 2, 1, 128, DType::f16},
      {{40, 9}, {40, 9}, 2, 2, 80, kB16, false},
      {{40}, {40}, 2, 1, 256, kB16},
  };
  for (auto& c : cases) c.told = true, c.slack = 2;
  return cases;
}

}  // namespace

TEST_F(CudnnAttention, ForwardIsRight) {
  for (const auto& c : taken()) expect_right(attention_case(c, false));
}

TEST_F(CudnnAttention, BackwardIsRight) {
  for (const auto& c : taken()) expect_right(attention_case(c, true));
}

TEST_F(CudnnAttention, RepeatsToTheBitWhereItIsAsked) {
  for (auto c : taken()) {
    c.mode.repeats = true;
    expect_right(attention_case(c, true));
    for (bool backward : {false, true}) expect_thread_free(attention_case(c, backward));
  }
}

// An idle library leaves what was there: so it is the one that was asked, and for nothing else.
TEST_F(CudnnAttention, IsAskedForWhatItTakesAndNothingElse) {
  if (!is_emulated_) GTEST_SKIP() << "cuDNN cannot be told to be idle";
  const auto computed_by_us = [](const AttentionCase& c, bool backward) {
    const Prepared p = attention_case(c, backward).prepare();
    setenv("MT_EMULATION_CUDNN", "idle", 1);
    const Doubles before = values(p.outputs[0].view);
    TestStream stream;
    p.run(stream);
    const Doubles after = values(p.outputs[0].view);
    setenv("MT_EMULATION_CUDNN", "1", 1);
    return before != after;
  };
  for (auto c : taken())
    for (bool backward : {false, true}) {
      const bool no_plan = backward && c.dim > 128 && cuda_backend().capability(0) / 10 != 9;
      EXPECT_EQ(computed_by_us(c, backward), no_plan) << attention_name(c, backward ? "backward" : "forward");
      c.mode.kernels = ops::AttentionKernels::ours;
      EXPECT_TRUE(computed_by_us(c, backward)) << attention_name(c, backward ? "backward" : "forward");
      c.mode = {};
    }
  AttentionCase c{{40}, {40}, 2, 2, 64, kB16};
  EXPECT_TRUE(computed_by_us(c, false)) << "lengths that nobody told";
  c.told = true;
  c.dropout = 0.2;
  EXPECT_TRUE(computed_by_us(c, true)) << "dropout";
}

// On a device of compute capability 10 backward has no plan for long heads; forward has.
TEST_F(CudnnAttention, WithoutAPlanItIsOurs) {
  AttentionCase c{{3, 3}, {2, 2}, 2, 2, 64, kB16, false};
  c.told = true;
  c.slack = 2;
  for (I dim : {64, 136, 256}) {
    c.dim = dim;
    for (bool backward : {false, true}) expect_right(attention_case(c, backward));
  }
}

}  // namespace mt::test
