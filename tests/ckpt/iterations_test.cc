#include "ckpt/iterations.h"

#include <fstream>

#include "base/files.h"
#include "ckpt/sample_checkpoint.h"

namespace mt {
namespace {

class IterationsTest : public ::testing::Test {
 protected:
  void save(std::int64_t iteration) { test::save(root_.path(), iteration, test::one_rank(test::sample_tensors())); }
  void tracker(const std::string& text) { std::ofstream(root_ / kTrackerName) << text; }
  std::string refusal(const fs::path& path, Code code, std::optional<std::int64_t> iteration = std::nullopt) {
    return test::error_of([&] { resolve(path, iteration); }, code);
  }
  fs::path dir(std::int64_t iteration) { return root_ / iteration_name(iteration); }
  test::TemporaryDirectory root_;
};

TEST_F(IterationsTest, TheTrackerDecides) {
  save(10);
  save(20);
  EXPECT_EQ(resolve(root_.path()).dir, dir(20));
  tracker("10\n");
  const auto r = resolve(root_.path());
  EXPECT_EQ(r.dir, dir(10));
  EXPECT_EQ(r.iteration, 10);
  ASSERT_EQ(r.ignored.size(), 1u);
  EXPECT_CONTAINS(r.ignored[0], "iter_0000020: newer than the one the tracker names");
  EXPECT_EQ(resolve(root_.path() / "").iteration, 10);
}

TEST_F(IterationsTest, AnIterationOrItsDirectoryCanBeNamed) {
  save(10);
  save(20);
  EXPECT_EQ(resolve(root_.path(), 10).dir, dir(10));
  EXPECT_EQ(resolve(dir(10)).iteration, 10);
  EXPECT_EQ(resolve(dir(10) / "").iteration, 10);
  EXPECT_EQ(resolve(dir(10), 10).iteration, 10);
  EXPECT_CONTAINS(refusal(dir(10), Code::config, 20), "wanted iteration 20, this is 10");
  fs::copy(dir(10), root_ / "kept", fs::copy_options::recursive);
  EXPECT_EQ(resolve(root_ / "kept").iteration, 10);
}

TEST_F(IterationsTest, EveryWayANamedCheckpointCanBeMissingIsAnErrorOfItsOwn) {
  EXPECT_CONTAINS(refusal(root_ / "none", Code::io), "no such checkpoint directory");
  EXPECT_CONTAINS(refusal(root_.path(), Code::config), "no checkpoint there");
  std::ofstream(root_ / "file") << "x";
  EXPECT_CONTAINS(refusal(root_ / "file", Code::config), "not a directory");
  save(10);
  EXPECT_CONTAINS(refusal(root_.path(), Code::config, 20), "no iteration 20 there");
  EXPECT_CONTAINS(refusal(root_.path(), Code::config, 20), "complete there: 10");
  tracker("");
  EXPECT_CONTAINS(refusal(root_.path(), Code::corrupt), "wanted a whole number of 0 or more, found ''");
  tracker("abc");
  EXPECT_CONTAINS(refusal(root_.path(), Code::corrupt), "found 'abc'");
  tracker("-10");
  EXPECT_CONTAINS(refusal(root_.path(), Code::corrupt), "found '-10'");
  tracker("10 20");
  EXPECT_CONTAINS(refusal(root_.path(), Code::corrupt), "found '10 20'");
  tracker("99999999999999999999");
  EXPECT_CONTAINS(refusal(root_.path(), Code::corrupt), "found '9999");
  tracker("30");
  EXPECT_CONTAINS(refusal(root_.path(), Code::corrupt), "the tracker names iteration 30, which is not there");
  EXPECT_CONTAINS(refusal(root_.path(), Code::corrupt), "complete there: 10");
  // A broken tracker does not matter to who names the iteration.
  EXPECT_EQ(resolve(root_.path(), 10).iteration, 10);
}

TEST_F(IterationsTest, AMissingTrackerOrADamagedCheckpointFallsBackToTheNewestCompleteOneAndSaysSo) {
  save(10);
  save(20);
  save(30);
  fs::remove(root_ / kTrackerName);
  auto r = resolve(root_.path());
  EXPECT_EQ(r.iteration, 30);
  EXPECT_CONTAINS(r.ignored.at(0), "no latest_checkpointed_iteration.txt");
  tracker("30");
  fs::resize_file(dir(30) / data_file_name(0), 5000);
  r = resolve(root_.path());
  EXPECT_EQ(r.iteration, 20);
  EXPECT_CONTAINS(r.ignored.at(0), "iter_0000030: data_00000.safetensors: wanted");
  fs::remove(dir(20) / "manifest.json");
  r = resolve(root_.path());
  EXPECT_EQ(r.iteration, 10);
  EXPECT_EQ(r.ignored.size(), 2u);
  EXPECT_CONTAINS(r.ignored[1], "iter_0000020: no manifest.json");
  EXPECT_CONTAINS(refusal(root_.path(), Code::corrupt, 30), "incomplete checkpoint");
  EXPECT_CONTAINS(refusal(dir(20), Code::corrupt), "no manifest.json");
  fs::remove(dir(10) / data_file_name(0));
  EXPECT_CONTAINS(refusal(root_.path(), Code::corrupt), "no complete checkpoint there");
}

TEST_F(IterationsTest, SavesThatDidNotEndAreNamedAndNeverTaken) {
  save(10);
  test::write_layout(begin_save(root_.path(), 20), test::one_rank(test::sample_tensors()));
  const auto r = resolve(root_.path());
  EXPECT_EQ(r.iteration, 10);
  ASSERT_EQ(r.ignored.size(), 1u);
  EXPECT_CONTAINS(r.ignored[0], ".iter_0000020.tmp: a save that did not end");
}

TEST_F(IterationsTest, ListingShowsCompleteIncompleteAndUnfinished) {
  save(10);
  save(5);
  begin_save(root_.path(), 20);
  fs::create_directory(root_ / "iter_0000007");
  fs::create_directory(root_ / "iter_7");       // not a name of ours
  fs::create_directory(root_ / "something");
  const auto all = list_iterations(root_.path());
  ASSERT_EQ(all.size(), 4u);
  EXPECT_EQ(all[0].iteration, 5);
  EXPECT_TRUE(all[0].complete && all[0].tracked);
  EXPECT_EQ(all[1].iteration, 7);
  EXPECT_FALSE(all[1].complete);
  EXPECT_EQ(all[2].iteration, 10);
  EXPECT_TRUE(all[2].complete && !all[2].tracked);
  EXPECT_TRUE(all[3].temporary);
}

TEST_F(IterationsTest, RetentionKeepsTheNewestTheMultiplesAndTheTracked) {
  for (const int i : {10, 20, 30, 40, 50, 60}) save(i);
  tracker("20");
  EXPECT_EQ(retain(root_.path(), {2, 30}, true).removed, (std::vector<fs::path>{dir(10), dir(40)}));
  EXPECT_TRUE(fs::exists(dir(10))) << "a dry run removes nothing";
  const auto removed = retain(root_.path(), {2, 30}).removed;
  EXPECT_EQ(removed, (std::vector<fs::path>{dir(10), dir(40)}));
  std::vector<std::int64_t> left;
  for (const auto& i : list_iterations(root_.path())) left.push_back(i.iteration);
  EXPECT_EQ(left, (std::vector<std::int64_t>{20, 30, 50, 60}));
  EXPECT_TRUE(retain(root_.path(), {0, 0}).removed.empty());
}

TEST_F(IterationsTest, RetentionLeavesADirectoryWithAnythingThatNoSaveWrites) {
  for (const int i : {10, 20, 30}) save(i);
  std::ofstream(dir(10) / "notes.txt") << "mine";
  const auto out = retain(root_.path(), {1, 0});
  EXPECT_EQ(out.removed, (std::vector<fs::path>{dir(20)}));
  ASSERT_EQ(out.left.size(), 1u);
  EXPECT_NE(out.left[0].find("iter_0000010 stays: notes.txt in it is not written by a save"), std::string::npos) << out.left[0];
  EXPECT_TRUE(fs::exists(dir(10) / "manifest.json"));
}

TEST_F(IterationsTest, RetentionNeverRemovesTheOnlyCompleteCheckpoint) {
  save(10);
  save(20);
  fs::remove(dir(20) / "manifest.json");
  EXPECT_TRUE(retain(root_.path(), {1, 0}).removed.empty());  // the tracker's is broken; nobody knows which one is needed
  EXPECT_TRUE(fs::exists(dir(10) / "manifest.json"));
  fs::remove(root_ / kTrackerName);
  EXPECT_TRUE(retain(root_.path(), {1, 0}).removed.empty());
  EXPECT_EQ(resolve(root_.path()).iteration, 10);
}

TEST_F(IterationsTest, ASupersededSaveGoesUnlessItIsOnTheGridNewerOrALink) {
  for (const int i : {0, 10, 20, 30}) save(i);
  EXPECT_FALSE(drop_superseded(root_.path(), 10, 20, 0)) << "no interval";
  EXPECT_FALSE(drop_superseded(root_.path(), std::nullopt, 20, 30)) << "the first save";
  EXPECT_FALSE(drop_superseded(root_.path(), 0, 10, 30)) << "the initial state";
  EXPECT_FALSE(drop_superseded(root_.path(), 30, 40, 30)) << "on the grid";
  EXPECT_FALSE(drop_superseded(root_.path(), 20, 10, 30)) << "the run went back: 20 is not older";
  EXPECT_FALSE(drop_superseded(root_.path(), 20, 20, 30)) << "saved again";
  EXPECT_EQ(drop_superseded(root_.path(), 10, 20, 30), dir(10));
  EXPECT_FALSE(drop_superseded(root_.path(), 10, 20, 30)) << "already gone";
  std::ofstream(dir(20) / "notes.txt") << "x";
  EXPECT_THROW((void)drop_superseded(root_.path(), 20, 30, 30), Error) << "somebody's notes are in it";
  EXPECT_TRUE(fs::exists(dir(20) / "notes.txt") && fs::exists(dir(20) / kManifestName));
  fs::remove(dir(20) / "notes.txt");
  fs::rename(dir(20), root_ / "elsewhere");
  fs::create_directory_symlink(root_ / "elsewhere", dir(20));
  EXPECT_FALSE(drop_superseded(root_.path(), 20, 30, 30)) << "a link";
  std::vector<std::int64_t> left;
  for (const auto& i : list_iterations(root_.path())) left.push_back(i.iteration);
  EXPECT_EQ(left, (std::vector<std::int64_t>{0, 20, 30}));
}

TEST_F(IterationsTest, WhatSomebodyPutIntoAnIterationOutlivesItsReplacement) {
  save(10);
  std::ofstream(root_ / "iter_0000010/notes.txt") << "mine";
  save(10);
  EXPECT_FALSE(fs::exists(root_ / "iter_0000010/notes.txt"));
  EXPECT_TRUE(fs::exists(root_ / "replaced-iter_0000010-1/notes.txt"));
  EXPECT_EQ(resolve(root_.path()).iteration, 10);
  save(10);
  EXPECT_FALSE(fs::exists(root_ / "replaced-iter_0000010-2")) << "nothing foreign";
}

TEST_F(IterationsTest, GarbageIsWhatNoSaveWillFinish) {
  save(10);
  begin_save(root_.path(), 20);
  fs::create_directory(root_ / "iter_0000007");
  fs::create_directories(root_ / "iter_0000008");
  std::ofstream(root_ / "iter_0000008/metadata.json") << "{}";  // Megatron's, not garbage
  EXPECT_EQ(collect_garbage(root_.path(), true).removed.size(), 2u);
  EXPECT_TRUE(fs::exists(root_ / "iter_0000007"));
  EXPECT_EQ(collect_garbage(root_.path(), false).removed.size(), 2u);
  EXPECT_FALSE(fs::exists(root_ / "iter_0000007"));
  EXPECT_FALSE(fs::exists(root_ / ".iter_0000020.tmp"));
  EXPECT_TRUE(fs::exists(root_ / "iter_0000008"));
  EXPECT_EQ(resolve(root_.path()).iteration, 10);
}

TEST_F(IterationsTest, GarbageWithSomethingForeignInItStaysAndIsNamed) {
  save(10);
  const auto with = [&](const std::string& folder, const std::vector<std::string>& files) {
    fs::create_directories(root_ / folder);
    for (const auto& f : files) std::ofstream(root_ / folder / f) << "x";
  };
  with("iter_0000005", {"notes.txt"});
  with("iter_0000006", {"manifest.json", "data_00000.safetensors", "data_mine.safetensors"});
  with("iter_0000007", {"manifest.json.tmp.123", "data_00011.safetensors", "rank_00003.json", "rank_00004.json.tmp.9"});
  with(".iter_0000020.tmp", {"data_00000.safetensors"});
  with(".iter_0000030.tmp", {"model.tmp.1"});
  fs::create_directories(root_ / "iter_0000008/data_00000.safetensors");
  const auto g = collect_garbage(root_.path(), false);
  EXPECT_EQ(g.removed, (std::vector<fs::path>{dir(7), root_ / ".iter_0000020.tmp"}));
  ASSERT_EQ(g.left.size(), 4u);
  EXPECT_CONTAINS(g.left[0], "iter_0000005 stays: notes.txt in it");
  EXPECT_CONTAINS(g.left[1], "iter_0000006 stays: data_mine.safetensors in it");
  EXPECT_CONTAINS(g.left[2], "iter_0000008 stays: data_00000.safetensors in it");
  EXPECT_CONTAINS(g.left[3], ".iter_0000030.tmp stays: model.tmp.1 in it");
  EXPECT_TRUE(fs::exists(dir(5) / "notes.txt") && fs::exists(root_ / ".iter_0000030.tmp/model.tmp.1"));
}

TEST_F(IterationsTest, OtherFormatsAreToldByTheirFiles) {
  const auto make = [&](const std::string& name, const std::vector<std::string>& files) {
    fs::create_directories(root_ / name);
    for (const auto& f : files) std::ofstream(root_ / name / f) << "{}";
    return detect_format(root_ / name);
  };
  EXPECT_EQ(make("a", {"metadata.json", ".metadata"}), CheckpointFormat::megatron_torch_dist);
  EXPECT_EQ(make("b", {"mp_rank_00"}), CheckpointFormat::megatron_torch);
  EXPECT_EQ(make("c", {".metadata", "__0_0.distcp"}), CheckpointFormat::torch_dcp);
  EXPECT_EQ(make("d", {"config.json", "model.safetensors"}), CheckpointFormat::hugging_face);
  EXPECT_EQ(make("e", {"manifest.json", "metadata.json"}), CheckpointFormat::native);
  EXPECT_EQ(make("f", {"readme"}), CheckpointFormat::unknown);
  EXPECT_EQ(make("g", {"params.json", "consolidated.00.pth"}), CheckpointFormat::meta);
  std::ofstream(root_ / "model.gguf") << "GGUF and more";
  EXPECT_EQ(detect_format(root_ / "model.gguf"), CheckpointFormat::gguf);
  EXPECT_CONTAINS(refusal(root_ / "d", Code::config), "holds a Hugging Face checkpoint");
  make("iter_0000030", {"metadata.json"});
  tracker("30");
  EXPECT_CONTAINS(refusal(root_.path(), Code::config), "holds a Megatron torch_dist checkpoint");
}

}  // namespace
}  // namespace mt
