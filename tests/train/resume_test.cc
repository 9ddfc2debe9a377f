// What a resume says about options that changed.

#include "base/error.h"
#include "train/remembered_options.h"
#include "train/tiny_run.h"

namespace mt {
namespace {

// One line each, with both values, for everything that is remembered.
TEST(Resume, EveryChangedOptionIsToldWithItsOldAndItsNewValue) {
  const test::TempDir dir;
  auto o = test::tiny_options(dir);
  o.train_iters = 1;
  o.save = dir / "run";
  test::run_tiny(o, 1);
  o.load = dir / "run";
  o.train_iters = 2;
  o.lr.override_scheduler = true;
  const auto warnings = [&](const TrainingOptions& options) {
    testing::internal::CaptureStderr();
    test::run_tiny(options, 1);
    return testing::internal::GetCapturedStderr();
  };
  const auto same = warnings(o);
  EXPECT_EQ(same.find("warning"), std::string::npos) << same;
  o.train_iters = 3;
  o.batch.seq_length = 8;
  o.batch.global_batch = 8;
  o.data.split = "1,1,1";
  o.optimizer.adam.beta1 = 0.8;
  o.optimizer.adam.beta2 = 0.99;
  o.optimizer.adam.eps = 1e-6;
  o.bf16 = true;
  o.model.hidden_dropout = 0;
  const auto text = warnings(o);
  for (const char* want :
       {"--seq-length is 8, the checkpoint's run had 16", "--global-batch-size is 8, the checkpoint's run had 16",
        "--split is 1,1,1, the checkpoint's run had 969,30,1", "--adam-beta1 is 0.8, the checkpoint's run had 0.9",
        "--adam-beta2 is 0.99, the checkpoint's run had 0.999", "--adam-eps is 1e-06, the checkpoint's run had 1e-08",
        "--bf16 is true, the checkpoint's run had false", "--hidden-dropout is 0.0, the checkpoint's run had 0.1"})
    EXPECT_NE(text.find(want), std::string::npos) << want << " not in:\n" << text;
}

TEST(Resume, OtherDataIsToldAndWhatOneSideDoesNotKnowIsNot) {
  TrainingOptions before, now;
  before.data.data_path = {"0.3", "a", "0.7", "b"};
  now.data.data_path = {"c"};
  const auto lines = option_changes(remembered_options(before), remembered_options(now));
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0], "--data-path is c, the checkpoint's run had 0.3 a 0.7 b");
  EXPECT_TRUE(option_changes(Json::object(), remembered_options(now)).empty());
  EXPECT_TRUE(option_changes(Json(), remembered_options(now)).empty());
}

}  // namespace
}  // namespace mt
