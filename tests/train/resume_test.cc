// What a resume says about options and data that changed.

#include "base/error.h"
#include "data/indexed_dataset.h"
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

TEST(Resume, WhatRoundsOtherwiseIsToldAndEmptyMeansNotGiven) {
  TrainingOptions before, now;
  before.fp8.format = now.fp8.format = "hybrid";
  before.fp8.margin = 1;
  now.fp8.weight_gradients = false;
  now.fp8.first_last_layers_bf16 = true;
  now.fp8.amax_history_len = 16;
  now.fp8.amax_compute_algo = "max";
  now.device = "cuda";
  now.cuda_f32_precision = "tf32";
  std::string text;
  for (const auto& line : option_changes(remembered_options(before), remembered_options(now))) text += line + "\n";
  for (const char* want :
       {"--fp8-margin is 0, the checkpoint's run had 1\n", "--no-fp8-wgrad is true, the checkpoint's run had false\n",
        "--first-last-layers-bf16 is true, the checkpoint's run had false\n",
        "--num-layers-at-start-in-bf16 is 1, the checkpoint's run had 0\n",
        "--fp8-amax-history-len is 16, the checkpoint's run had 1\n",
        "--fp8-amax-compute-algo is max, the checkpoint's run had most_recent\n",
        "--device is cuda, the checkpoint's run had cpu\n",
        "--cuda-f32-precision is tf32, the checkpoint's run had f32\n"})
    EXPECT_NE(text.find(want), std::string::npos) << want << " not in:\n" << text;
  now.fp8.format = "";
  text.clear();
  for (const auto& line : option_changes(remembered_options(before), remembered_options(now))) text += line + "\n";
  EXPECT_NE(text.find("--fp8-format is not given, the checkpoint's run had hybrid\n"), std::string::npos) << text;
}

void write_tokens(const std::string& prefix, int documents, std::int32_t first) {
  data::IndexedWriter writer(prefix, data::TokenType::u16, true);
  for (int d = 0; d < documents; ++d) {
    std::vector<std::int32_t> ids;
    for (int i = 0; i < 20; ++i) ids.push_back((first + d * 7 + i) % 60);
    writer.add_sequence(ids);
    writer.end_document();
  }
  writer.commit({});
}

// By content and size: a copy elsewhere is the same data, another file of the same name is not.
TEST(Resume, DataThatChangedUnderItsNameIsToldAndACopyIsNot) {
  const test::TempDir dir;
  auto o = test::tiny_options(dir);
  o.data.mock_data = false;
  o.data.train_path = {"1", dir / "a", "1", dir / "b"};
  write_tokens(dir / "a", 60, 0);
  write_tokens(dir / "b", 40, 3);
  o.train_iters = 1;
  o.save = dir / "run";
  test::run_tiny(o, 1);
  o.save = "";
  o.load = dir / "run";
  o.train_iters = 2;
  o.lr.override_scheduler = true;
  const auto warnings = [&] {
    testing::internal::CaptureStderr();
    test::run_tiny(o, 2);
    return testing::internal::GetCapturedStderr();
  };
  const auto same = warnings();
  EXPECT_EQ(same.find("warning"), std::string::npos) << same;
  write_tokens(dir / "b", 40, 4);
  EXPECT_NE(warnings().find((dir / "b").string() + " holds other tokens than when the checkpoint was saved"), std::string::npos);
  write_tokens(dir / "b", 41, 3);
  const auto grown = warnings();
  EXPECT_NE(grown.find((dir / "b").string() + " has 41 sequences of 820 tokens for training, 40 sequences of 800 tokens when the "
                                              "checkpoint was saved: the samples consumed so far were others"),
            std::string::npos) << grown;
  EXPECT_EQ(grown.find((dir / "a").string() + " h"), std::string::npos) << grown;
  fs::create_directory(dir / "copied");
  write_tokens(dir / "copied/a", 60, 0);
  write_tokens(dir / "copied/b", 40, 3);
  o.data.train_path = {"1", dir / "copied/a", "1", dir / "copied/b"};
  const auto copied = warnings();
  EXPECT_EQ(copied.find("when the checkpoint was saved"), std::string::npos) << copied;
  EXPECT_NE(copied.find("--train-data-path is"), std::string::npos) << copied;
}

}  // namespace
}  // namespace mt
