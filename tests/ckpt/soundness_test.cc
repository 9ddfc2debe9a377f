#include "ckpt/soundness.h"

#include <fstream>

#include "base/files.h"
#include "base/nobody.h"
#include "ckpt/iterations.h"
#include "ckpt/one_save.h"
#include "ckpt/sample_checkpoint.h"
#include "ckpt/save_lock.h"
#include "ckpt/verify.h"

namespace mt {
namespace {

class SoundnessTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const int i : {10, 20}) test::save(root_.path(), i, test::one_rank(test::sample_tensors()));
  }
  fs::path dir(std::int64_t iteration) { return root_ / iteration_name(iteration); }
  void edit(const fs::path& file, const std::string& from, const std::string& to) {
    auto text = read_file(file);
    const auto at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    write_file_atomic(file, text.replace(at, from.size(), to));
  }
  // Nobody can read a name that leads to itself.
  void make_unreadable(const fs::path& file) {
    fs::rename(file, root_ / "aside");
    fs::create_symlink(file.filename(), file);
  }
  test::TemporaryDirectory root_;
};

TEST_F(SoundnessTest, UnfinishedDamagedNewerAndUnreadableAreToldApart) {
  EXPECT_EQ(condition_of(dir(20)).is, Soundness::complete);
  EXPECT_EQ(condition_of(root_ / "none").is, Soundness::unfinished);
  fs::copy(dir(20), root_ / "iter_0000030", fs::copy_options::recursive);
  auto c = condition_of(dir(30));
  EXPECT_EQ(c.is, Soundness::damaged);
  EXPECT_CONTAINS(c.problem, "its manifest is that of iteration 20");
  fs::copy(dir(20), root_ / "renamed", fs::copy_options::recursive);
  EXPECT_EQ(condition_of(root_ / "renamed").is, Soundness::complete);
  edit(dir(20) / kManifestName, "\"format_version\": 1", "\"format_version\": 9");
  EXPECT_EQ(condition_of(dir(20)).is, Soundness::newer);
  edit(dir(20) / kManifestName, "\"format_version\": 9", "\"format_version\":  1");
  EXPECT_EQ(condition_of(dir(20)).is, Soundness::damaged) << "the checksum is another";
  fs::resize_file(dir(10) / data_file_name(0), 99);
  EXPECT_EQ(condition_of(dir(10)).is, Soundness::unfinished);
  fs::remove(dir(10) / data_file_name(0));
  EXPECT_EQ(condition_of(dir(10)).is, Soundness::unfinished);
  fs::create_symlink("/nowhere/at/all", dir(10) / data_file_name(0));
  EXPECT_EQ(condition_of(dir(10)).is, Soundness::unreadable) << "it may lie on a disk that is not mounted";
  fs::remove(dir(10) / kManifestName);
  EXPECT_EQ(condition_of(dir(10)).is, Soundness::unfinished);
}

TEST_F(SoundnessTest, WhatCannotBeReadIsNeverPassedOverForAnOlderOne) {
  make_unreadable(dir(20) / kManifestName);
  for (const std::optional<std::int64_t> asked : {std::optional<std::int64_t>(), std::optional<std::int64_t>(20)}) {
    const auto text = test::error_of([&] { resolve(root_.path(), asked); }, Code::io);
    EXPECT_CONTAINS(text, "iter_0000020/manifest.json");
  }
  test::error_of([&] { resolve(dir(20)); }, Code::io);
  fs::remove(root_ / kTrackerName);
  EXPECT_CONTAINS(test::error_of([&] { resolve(root_.path()); }, Code::io), "iter_0000020/manifest.json");
  EXPECT_EQ(resolve(root_.path(), 10).iteration, 10);
  fs::remove(dir(20) / kManifestName);  // damage is passed over
  EXPECT_EQ(resolve(root_.path()).iteration, 10);
}

TEST_F(SoundnessTest, ACheckpointOfANewerProgramIsNeverPassedOver) {
  edit(dir(20) / kManifestName, "\"format_version\": 1", "\"format_version\": 2");
  EXPECT_CONTAINS(test::error_of([&] { resolve(root_.path()); }, Code::corrupt), "this program reads 1, found 2");
}

TEST_F(SoundnessTest, AnUnreadableTrackerIsAnErrorOfTheDisk) {
  make_unreadable(root_ / kTrackerName);
  test::error_of([&] { resolve(root_.path()); }, Code::io);
}

TEST_F(SoundnessTest, GarbageIsOnlyWhatIsKnownToBeUnfinished) {
  test::save(root_.path(), 30, test::one_rank(test::sample_tensors()));
  test::save(root_.path(), 40, test::one_rank(test::sample_tensors()));
  make_unreadable(dir(10) / kManifestName);
  edit(dir(20) / kManifestName, "\"format_version\": 1", "\"format_version\": 2");
  fs::resize_file(dir(30) / data_file_name(0), 99);
  const auto out = collect_garbage(root_.path(), false);
  EXPECT_EQ(out.removed, (std::vector<fs::path>{dir(30)}));
  ASSERT_EQ(out.left.size(), 2u);
  EXPECT_CONTAINS(out.left[0], "iter_0000010 stays");
  EXPECT_CONTAINS(out.left[1], "iter_0000020 stays");
  EXPECT_EQ(out.failed, Code::io);
  EXPECT_TRUE(fs::exists(dir(10) / data_file_name(0)) && fs::exists(dir(20) / data_file_name(0)));
  fs::remove(dir(10) / kManifestName);
  edit(dir(20) / kManifestName, "\"iteration\"", "\"iteratiom\"");
  const auto rest = collect_garbage(root_.path(), false);
  EXPECT_EQ(rest.removed, (std::vector<fs::path>{dir(10)}));
  EXPECT_EQ(rest.failed, Code::corrupt);
}

TEST_F(SoundnessTest, WhatCannotBeRemovedKeepsItsName) {
  fs::remove(dir(10) / kManifestName);
  fs::permissions(dir(10), fs::perms::owner_read | fs::perms::owner_exec);
  {
    const test::Nobody nobody(root_.path());
    const auto out = collect_garbage(root_.path(), false);
    EXPECT_TRUE(out.removed.empty());
    EXPECT_EQ(out.failed, Code::io);
  }
  EXPECT_TRUE(fs::exists(dir(10) / data_file_name(0)));
  fs::permissions(dir(10), fs::perms::owner_all);
}

TEST_F(SoundnessTest, PermissionsThatForbidReadingAreNoDamage) {
  for (const auto& locked : {dir(20) / kManifestName, dir(20)}) {
    const auto before = fs::status(locked).permissions();
    fs::permissions(locked, fs::perms::none);
    {
      const test::Nobody nobody(root_.path());
      EXPECT_EQ(condition_of(dir(20)).is, Soundness::unreadable) << locked;
      test::error_of([&] { resolve(root_.path()); }, Code::io);
      const auto out = collect_garbage(root_.path(), false);
      EXPECT_TRUE(out.removed.empty());
      EXPECT_EQ(out.failed, Code::io);
    }
    fs::permissions(locked, before);
  }
}

TEST_F(SoundnessTest, ADataFileThatCannotBeReadIsToldOnceAndIsNoDamage) {
  fs::permissions(dir(20) / data_file_name(0), fs::perms::none);
  const test::Nobody nobody(root_.path());
  const auto r = verify_checkpoint(dir(20), 2);
  EXPECT_TRUE(r.problems.empty()) << r.problems[0];
  ASSERT_EQ(r.unreadable.size(), 1u);
  EXPECT_CONTAINS(r.unreadable[0], data_file_name(0));
  EXPECT_CONTAINS(r.unreadable[0], "Permission denied");
}

TEST_F(SoundnessTest, NothingWasSavedWhereOnlyAKilledSaveLeftSomething) {
  test::TemporaryDirectory fresh;
  fs::create_directories(fresh / "other");
  for (const char* name : {"config.json", "model.safetensors"}) std::ofstream(fresh / "other" / name) << "{}";
  EXPECT_FALSE(holds_no_checkpoint(fresh / "other")) << "a model of another program";
  fs::remove_all(fresh / "other");
  EXPECT_TRUE(holds_no_checkpoint(fresh / "none"));
  EXPECT_TRUE(holds_no_checkpoint(fresh.path()));
  begin_save(fresh.path(), 5);
  std::ofstream(fresh / ".lock") << "";
  EXPECT_TRUE(holds_no_checkpoint(fresh.path()));
  fs::create_directory(fresh / "iter_0000005");
  EXPECT_FALSE(holds_no_checkpoint(fresh.path())) << "one was published";
  EXPECT_FALSE(holds_no_checkpoint(root_.path()));
  EXPECT_FALSE(holds_no_checkpoint(dir(10)));
}

TEST_F(SoundnessTest, ASaveLockLooksAtWhatWasSavedNotAtWhatWasLeft) {
  begin_save(root_.path(), 30);
  { const SaveLock free(root_.path(), 21); }
  EXPECT_CONTAINS(test::error_of([&] { SaveLock(root_.path(), 20); }, Code::config), "--load");
  fs::remove(dir(10) / kManifestName);
  fs::remove(dir(20) / kManifestName);
  const auto text = test::error_of([&] { SaveLock(root_.path(), 20); }, Code::config);
  EXPECT_EQ(text.find("--load"), std::string::npos) << text;
}

TEST_F(SoundnessTest, AnIterationIsNoPlaceToSave) {
  for (const auto& place : {dir(20), dir(20) / "deeper", root_ / "iter_0000007"}) {
    test::error_of([&] { SaveLock(place, 1); }, Code::config);
    test::error_of([&] { SaveLock(place, std::nullopt); }, Code::config);
    test::error_of([&] { OneSave(place, 7, true); }, Code::config);
  }
  EXPECT_FALSE(fs::exists(dir(20) / "deeper") || fs::exists(root_ / "iter_0000007"));
}

TEST_F(SoundnessTest, ALockForOneIterationNeverMovesTheTrackerBackAndGoesAgain) {
  EXPECT_CONTAINS(test::error_of([&] { OneSave(root_.path(), 10, true); }, Code::config), "would go back to 10");
  EXPECT_CONTAINS(test::error_of([&] { OneSave(root_.path(), 20, false); }, Code::config), "--force");
  {
    const OneSave lock(root_.path(), 20, true);
    EXPECT_CONTAINS(test::error_of([&] { OneSave(root_.path(), 30, false); }, Code::io), "another run is saving");
    EXPECT_CONTAINS(test::error_of([&] { SaveLock(root_.path(), std::nullopt); }, Code::io), "another run is saving");
    EXPECT_TRUE(fs::exists(root_ / ".lock"));
  }
  EXPECT_FALSE(fs::exists(root_ / ".lock"));
}

}  // namespace
}  // namespace mt
