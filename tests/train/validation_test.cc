// Named validation sets, full passes, the test set; and steps that are not like others.

#include <cmath>
#include <limits>

#include "base/error.h"
#include "ckpt/iterations.h"
#include "ckpt/manifest.h"
#include "data/indexed_dataset.h"
#include "registry/event_log.h"
#include "train/tiny_run.h"

namespace mt {
namespace {

constexpr std::int32_t kEnd = 60;

// `documents` of rising lengths, each ended by kEnd.   gives  tokens
std::int64_t write_tokens(const std::string& prefix, int documents, std::int32_t first) {
  data::IndexedWriter writer(prefix, data::TokenType::u16, false);
  std::int64_t tokens = 0;
  for (int d = 0; d < documents; ++d) {
    std::vector<std::int32_t> ids;
    for (int i = 0; i < 5 + d % 11; ++i) ids.push_back((first + d * 7 + i) % kEnd);
    ids.push_back(kEnd);
    tokens += static_cast<std::int64_t>(ids.size());
    writer.add_sequence(ids);
    writer.end_document();
  }
  data::TokenFileOrigin origin;
  origin.vocab_size = 61;
  origin.eod = kEnd;
  writer.commit(origin);
  return tokens;
}

TrainingOptions token_options(const test::TempDir& dir) {
  auto o = test::tiny_options(dir);
  o.data.mock_data = false;
  o.data.train_path = {dir / "train"};
  write_tokens(dir / "train", 60, 0);
  o.train_iters = 4;
  o.eval_interval = 2;
  o.eval_iters = 2;
  return o;
}

TEST(Validation, EverySetOfAFullPassIsScoredWholeByNameInEveryLayout) {
  const test::TempDir dir;
  auto o = token_options(dir);
  const std::int64_t a = write_tokens(dir / "a", 47, 3), b = write_tokens(dir / "b", 9, 5);
  write_tokens(dir / "t", 30, 9);
  o.data.valid_path = {dir / "a", dir / "b"};
  o.data.test_path = {dir / "t"};
  o.full_validation = o.multiple_validation_sets = true;
  o.validation_set_names = {"books", "code"};
  std::map<std::string, double> first;
  for (int ranks : {1, 2}) {
    test::run_tiny(o, ranks);
    const auto record = read_event_log(o.metrics_file);
    ASSERT_EQ(record.evaluations.size(), 5u);  // two sets twice, the test set once
    // Whole samples of 16, the last batch of 16 partly filled: (tokens − 1) / 16 samples.
    EXPECT_EQ(record.evaluations.at({2, "books"})["tokens"], (a - 1) / 16 * 16);
    EXPECT_EQ(record.evaluations.at({4, "code"})["tokens"], (b - 1) / 16 * 16);
    EXPECT_EQ(record.evaluations.at({4, "test"})["tokens"], 2 * 16 * 16);
    for (const auto& [key, e] : record.evaluations) {
      const auto name = key.second + std::to_string(key.first);
      if (ranks == 1) first[name] = e["loss"];
      else EXPECT_NEAR(e["loss"].get<double>(), first[name], 1e-6 * first[name]) << name;
    }
  }
  EXPECT_NE(first["books4"], first["code4"]);
}

TEST(Validation, AFullPassIsTheMeanOverTheSetWhateverTheBatch) {
  const test::TempDir dir;
  auto o = token_options(dir);
  write_tokens(dir / "v", 30, 3);
  o.data.valid_path = {dir / "v"};
  o.full_validation = true;
  o.lr.lr = 0;
  std::vector<double> losses;
  for (int batch : {2, 6, 16}) {
    o.batch.global_batch = batch;
    test::run_tiny(o, 1);
    losses.push_back(read_event_log(o.metrics_file).evaluations.at({4, "validation"})["loss"]);
  }
  EXPECT_NEAR(losses[1], losses[0], 1e-7 * losses[0]);
  EXPECT_NEAR(losses[2], losses[0], 1e-7 * losses[0]);
}

TEST(Validation, TheSharesOfOneBlendHaveATestLossAndAMissingOneIsTold) {
  const test::TempDir dir;
  auto o = token_options(dir);
  o.data.data_path = o.data.train_path;
  o.data.train_path = {};
  o.data.split = "6,2,2";
  test::run_tiny(o, 1);
  EXPECT_EQ(read_event_log(o.metrics_file).evaluations.count({4, "test"}), 1u);
  o.data.split = "700,299,1";
  testing::internal::CaptureStderr();
  test::run_tiny(o, 1);
  const auto text = testing::internal::GetCapturedStderr();
  EXPECT_NE(text.find("there will be no test loss"), std::string::npos) << text;
  EXPECT_EQ(read_event_log(o.metrics_file).evaluations.count({4, "test"}), 0u);
}

TEST(Validation, WhatDoesNotFitIsRefused) {
  const test::TempDir dir;
  const auto problem = [&](const std::function<void(TrainingOptions&)>& change) {
    auto o = test::tiny_options(dir);
    change(o);
    try {
      complete_options(o, 1);
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string("accepted");
  };
  const auto has = [](const std::string& text, const char* want) {
    EXPECT_NE(text.find(want), std::string::npos) << want << " not in " << text;
  };
  has(problem([](auto& o) { o.multiple_validation_sets = true; }), "needs full-validation");
  has(problem([](auto& o) { o.data.valid_path = {"v"}; }), "without train-data-path");
  has(problem([](auto& o) { o.data.train_path = {"t"}; }), "exclude mock-data");
  has(problem([](auto& o) {
        o.data.mock_data = false, o.data.train_path = {"t"}, o.data.valid_path = {"a", "b"};
        o.full_validation = o.multiple_validation_sets = true, o.validation_set_names = {"x"};
      }), "1 validation-set-names for 2 sets");
}

// ---- the loss ------------------------------------------------------------------------------------------------

// The gradient of a step, all parameters behind one another.
std::vector<std::vector<float>> gradients(const TrainingOptions& o) {
  std::vector<std::vector<float>> steps;
  TrainerHooks hooks;
  hooks.after_backward = [&](std::int64_t, ParameterStore& store) {
    auto& all = steps.emplace_back();
    for (int p = 0; p < 12; ++p) {
      const auto g = test::floats_of(store, store.grad(p));
      all.insert(all.end(), g.begin(), g.end());
    }
  };
  test::run_tiny(o, 1, hooks);
  return steps;
}

// Micro-batches of unequal token counts: with the flag each weighs the same, without it each token does.
TEST(Loss, MeanOfMeansIsTheMeanOfEachMicroBatchsOwnGradient) {
  const test::TempDir dir;
  auto o = token_options(dir);
  o.eval_interval = 0;
  o.data.eod_mask_loss = true;
  o.lr.lr = 0;
  o.model.attention_dropout = o.model.hidden_dropout = 0;
  o.batch = {16, 1, 1};
  o.train_iters = 4;
  const auto alone = gradients(o);  // weights do not move: four samples' own means
  o.batch.global_batch = 4;
  o.train_iters = 1;
  const auto tokens = gradients(o).at(0);
  o.mean_of_means_loss = true;
  const auto means = gradients(o).at(0);
  double largest = 0, from_tokens = 0;
  for (std::size_t i = 0; i < means.size(); ++i) {
    double want = 0;
    for (const auto& one : alone) want += static_cast<double>(one[i]) / 4;
    largest = std::max(largest, std::abs(want - static_cast<double>(means[i])));
    from_tokens = std::max(from_tokens, std::abs(static_cast<double>(tokens[i]) - static_cast<double>(means[i])));
  }
  EXPECT_LT(largest, 1e-7);
  EXPECT_GT(from_tokens, 1e-4);
}

// ---- steps that are not like others --------------------------------------------------------------------------

TEST(Skips, AStepThatIsSkippedReadsItsSamplesAndTrainsNothing) {
  const test::TempDir dir;
  auto o = test::tiny_options(dir);
  o.train_iters = 5;
  const auto all = test::run_tiny(o, 1);
  o.iterations_to_skip = {2, 3};
  o.save = dir / "run";
  o.metrics_file = dir / "skips.jsonl";
  const auto some = test::run_tiny(o, 1);
  ASSERT_EQ(some.loss.size(), 3u);
  EXPECT_EQ(some.loss[0], all.loss[0]);
  EXPECT_NE(some.loss[1], all.loss[3]);
  const auto meta = read_manifest(dir / "run/iter_0000005").meta;
  EXPECT_EQ(meta.consumed_samples, 5 * 16);
  EXPECT_EQ(meta.training["schedule_samples"], 3 * 16);
  EXPECT_EQ(meta.training["optimizer_steps"], 3);
  EXPECT_EQ(meta.training["skipped_samples"], 2 * 16);
  const auto record = read_event_log(o.metrics_file);
  EXPECT_EQ(record.steps.size(), 5u);
  EXPECT_EQ(record.steps.at(3)["skipped_samples"], 16);
}

TEST(NonFinite, TheCheckThatMegatronHasStopsAtTheFirst) {
  const test::TempDir dir;
  auto o = test::tiny_options(dir);
  o.check_for_nan = true;
  o.save = dir / "run";
  o.save_interval = 2;
  TrainerHooks hooks;
  hooks.after_backward = [](std::int64_t i, ParameterStore& store) {
    if (i == 4) test::set_float(store, store.grad(3), 0, std::numeric_limits<float>::infinity());
  };
  const auto curve = test::run_tiny(o, 1, hooks);
  EXPECT_EQ(curve.status, static_cast<int>(Code::non_finite_limit));
  EXPECT_EQ(curve.loss.size(), 4u);
  EXPECT_EQ(resolve(dir / "run").iteration, 2);
  EXPECT_EQ(read_event_log(o.metrics_file).ends.back()["status"], "non_finite_limit");
}

TEST(Spikes, ALossTenTimesTheLargestOfTheBeginningIsToldAndMarked) {
  const test::TempDir dir;
  auto o = test::tiny_options(dir);
  o.model.num_layers = 1;
  o.batch = {4, 1, 1};
  o.train_iters = 103;
  o.check_for_spiky_loss = true;
  TrainerHooks hooks;
  hooks.after_backward = [](std::int64_t i, ParameterStore& store) {
    // The next step's loss is large: an output layer, or embedding, thrown far off.
    if (i == 101) {
      const View w = store.weight(0);
      std::vector<float> far(static_cast<std::size_t>(w.size()));
      for (std::size_t k = 0; k < far.size(); ++k) far[k] = k % 2 ? 4e3f : -4e3f;
      test::set_floats(store, w.reshape({w.size()}), far);
    }
    if (i == 101)
      for (int p = 0; p < 8; ++p) {
        const View w = store.weight(p);
        auto values = test::floats_of(store, w);
        for (float& x : values) x *= 300;
        test::set_floats(store, w.reshape({w.size()}), values);
      }
  };
  testing::internal::CaptureStderr();
  test::run_tiny(o, 1, hooks);
  const auto text = testing::internal::GetCapturedStderr();
  const auto record = read_event_log(o.metrics_file);
  double largest = 0;
  for (std::int64_t i = 1; i <= 100; ++i) largest = std::max(largest, record.steps.at(i)["loss"].get<double>());
  for (const auto& [i, step] : record.steps)
    EXPECT_EQ(step.contains("spike"), i > 100 && step["loss"].get<double>() >= 10 * largest) << i;
  EXPECT_TRUE(record.steps.at(102).contains("spike")) << record.steps.at(102)["loss"];
  EXPECT_NE(text.find("times the largest"), std::string::npos) << text;
}

}  // namespace
}  // namespace mt
