#include "ckpt/verify.h"

#include <fstream>

#include "base/files.h"
#include "ckpt/safetensors.h"
#include "ckpt/sample_checkpoint.h"

namespace mt {
namespace {

class VerifyTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::mt19937 rng(5);
    dir_ = test::save(root_.path(), 1, test::random_layout(test::sample_tensors(), 3, rng));
  }
  test::TemporaryDirectory root_;
  fs::path dir_;
};

TEST_F(VerifyTest, ASoundCheckpointHasNoProblemsAndEveryByteIsCounted) {
  const auto r = verify_checkpoint(dir_);
  EXPECT_TRUE(r.problems.empty()) << r.problems[0];
  std::uint64_t bytes = 0;
  for (const auto& t : test::sample_tensors()) bytes += t.bytes();
  EXPECT_EQ(r.bytes, bytes);
  EXPECT_EQ(r.files, 3u);
  EXPECT_EQ(r.tensors, test::sample_tensors().size());
}

TEST_F(VerifyTest, EveryFlippedBitIsFoundInHeadersAndData) {
  std::mt19937 rng(31);
  for (int i = 0; i < 60; ++i) {
    const auto path = dir_ / data_file_name(static_cast<int>(rng() % 3));
    const auto header = read_safetensors_header(path).data_start;
    // Any byte of the data; of the header, the length and the JSON but not the padding behind it.
    const auto at = i % 3 == 0 ? rng() % 60 : header + rng() % (fs::file_size(path) - header);
    const auto bit = static_cast<int>(rng() % 8);
    test::flip_bit(path, at, bit);
    const auto r = verify_checkpoint(dir_);
    // Two keys of the header are free text: the name of the writer and tensor names inside the file.
    if (at >= 60) {
      ASSERT_FALSE(r.problems.empty()) << path << " byte " << at << " bit " << bit;
      EXPECT_CONTAINS(r.problems[0], path.filename().string());
    }
    test::flip_bit(path, at, bit);
  }
  EXPECT_TRUE(verify_checkpoint(dir_).problems.empty());
}

TEST_F(VerifyTest, AHeaderThatContradictsTheManifestIsAProblem) {
  const auto path = dir_ / data_file_name(0);
  auto text = read_file(path);
  const auto at = text.find("\"F32\"");
  ASSERT_NE(at, std::string::npos);
  text.replace(at, 5, "\"I32\"");
  write_file_atomic(path, text);
  const auto r = verify_checkpoint(dir_);
  ASSERT_EQ(r.problems.size(), 1u);
  EXPECT_CONTAINS(r.problems[0], "the header says I32");
}

TEST_F(VerifyTest, MissingShortAndSurplusFilesAreAllTold) {
  fs::remove(dir_ / data_file_name(0));
  fs::resize_file(dir_ / data_file_name(1), fs::file_size(dir_ / data_file_name(1)) - 1);
  std::ofstream(dir_ / "surplus") << "x";
  const auto r = verify_checkpoint(dir_);
  EXPECT_EQ(r.problems.size(), 3u);
}

TEST_F(VerifyTest, MoreThreadsThanChunksAreNotStarted) {
  const auto r = verify_checkpoint(dir_, 1000000);
  EXPECT_TRUE(r.problems.empty());
  EXPECT_EQ(r.chunks, verify_checkpoint(dir_, 1).chunks);
}

TEST_F(VerifyTest, WithoutAManifestThereIsNothingToVerify) {
  fs::remove(dir_ / "manifest.json");
  EXPECT_THROW(verify_checkpoint(dir_), Error);
}

}  // namespace
}  // namespace mt
