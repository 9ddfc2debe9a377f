// Runs whose attention is cuDNN's, by the library's stand-in on the emulated device, or by itself on a GPU.

#include <cstdlib>

#include "device/test_device.h"
#include "ops/attention_mode.h"
#include "train/same_checkpoint.h"
#include "train/tiny_run.h"

namespace mt {
namespace {

using test::TempDir;

class OnTheDeviceCudnn : public ::testing::Test {
 protected:
  void SetUp() override {
    if (test::on_cpu()) GTEST_SKIP() << "the device under test is the CPU";
    setenv("MT_EMULATION_CUDNN", "1", 1);
    words_ = ops::attention_kernels(test::test_device(), ops::AttentionKernels::cudnn);
    if (words_.starts_with("our own")) GTEST_SKIP() << "attention is " << words_;
  }
  void TearDown() override { unsetenv("MT_EMULATION_CUDNN"); }
  std::string words_;
};

TrainingOptions cudnn_options(const TempDir& dir) {
  auto o = test::tiny_options(dir);
  o.model.num_layers = 2;
  o.model.attention_dropout = 0;
  o.batch = {16, 2, 4};
  o.train_iters = 3;
  o.bf16 = true;
  o.attention_backend = "fused";
  return o;
}

TEST_F(OnTheDeviceCudnn, LossesAreThoseOfOurKernels) {
  const TempDir dir;
  auto o = cudnn_options(dir);
  const auto cudnn = test::run_tiny(o, 1);
  o.attention_backend = "flash";
  const auto ours = test::run_tiny(o, 1);
  const auto d = test::distance(ours, cudnn);
  EXPECT_LE(d.loss, 2e-3);
  EXPECT_LE(d.grad_norm, 2e-2);
}

// So it is cuDNN that computes, by the default too.
TEST_F(OnTheDeviceCudnn, IdleItChangesTheLosses) {
  if (!words_.starts_with("emulated")) GTEST_SKIP() << "cuDNN cannot be told to be idle";
  const TempDir dir;
  auto o = cudnn_options(dir);
  const auto right = test::run_tiny(o, 1);
  setenv("MT_EMULATION_CUDNN", "idle", 1);
  EXPECT_NE(test::run_tiny(o, 1).loss, right.loss);
  o.attention_backend = "auto";
  EXPECT_NE(test::run_tiny(o, 1).loss, right.loss);
}

TEST_F(OnTheDeviceCudnn, GraphsAndRecomputeChangeNoBit) {
  const TempDir dir;
  auto o = cudnn_options(dir);
  o.deterministic = true;
  auto other = o;
  other.cuda_graph_impl = "local";
  other.cuda_graph_warmup_steps = 1;
  test::expect_same_run(o, other, 1, dir);
  other = o;
  other.recompute.granularity = "selective";
  test::expect_same_run(o, other, 1, dir);
}

}  // namespace
}  // namespace mt
