// A complete checkpoint in another directory: bit for bit, whole, or not there.

#include "ckpt/checkpoint_copy.h"

#include <gtest/gtest.h>

#include <cstring>

#include "base/error.h"
#include "base/files.h"
#include "base/refusal.h"
#include "base/temporary_directory.h"
#include "ckpt/iterations.h"
#include "ckpt/store.h"
#include "ckpt/verify.h"

namespace mt {
namespace {

using test::TemporaryDirectory;

// One tensor of `count` f32 under root/iter_0000003, packed or not.
fs::path saved(const fs::path& root, std::int64_t count, Codec codec) {
  std::vector<float> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i) * 0.5f;
  TensorShard s;
  s.what = {"x", "weight", DType::f32, {count}, whole({count})};
  s.bytes = reinterpret_cast<const std::byte*>(values.data());
  CheckpointMeta meta;
  meta.iteration = 3;
  WriteOptions options;
  options.codec = codec;
  return save_at_once(root, meta, [&](const fs::path& dir) { write_rank(dir, 0, {&s, 1}, options); });
}

fs::path copied(const fs::path& from, const fs::path& root) {
  const Manifest m = read_manifest(from);
  const auto dir = begin_save(root, m.meta.iteration);
  for (const auto& file : m.files) EXPECT_EQ(copy_data_file(from, dir, file), file.bytes);
  return publish_copy(root, from);
}

TEST(CheckpointCopy, FilesOfAnySizeAndCodecAreTheSameBytes) {
  for (const auto codec : {Codec::none, Codec::planes})
    for (const std::int64_t count : {1, 1023, 1 << 20, (1 << 21) + 7}) {  // below, at and above the blocks of the writer
      const TemporaryDirectory dir;
      const auto from = saved(dir / "a", count, codec), to = copied(from, dir / "b");
      EXPECT_EQ(to, dir / "b" / iteration_name(3));
      for (const auto& e : fs::directory_iterator(from))
        EXPECT_TRUE(read_file(e.path()) == read_file(to / e.path().filename())) << e.path();
      EXPECT_TRUE(verify_checkpoint(to).problems.empty());
      EXPECT_EQ(read_tracker(dir / "b"), 3);
    }
}

TEST(CheckpointCopy, WithoutOneOfItsFilesNothingIsPublished) {
  const TemporaryDirectory dir;
  const auto from = saved(dir / "a", 1000, Codec::none);
  begin_save(dir / "b", 3);
  EXPECT_NE(refusal([&] { publish_copy(dir / "b", from); }, Code::corrupt).find(data_file_name(0)), std::string::npos);
  EXPECT_FALSE(read_tracker(dir / "b"));
  EXPECT_FALSE(fs::exists(dir / "b" / iteration_name(3)));
}

TEST(CheckpointCopy, AFileThatIsGoneOrShortIsRefusedByName) {
  const TemporaryDirectory dir;
  const auto from = saved(dir / "a", 1000, Codec::none);
  const Manifest m = read_manifest(from);
  const auto to = begin_save(dir / "b", 3);
  fs::resize_file(from / m.files[0].name, 1000);
  EXPECT_NE(refusal([&] { copy_data_file(from, to, m.files[0]); }, Code::corrupt).find("1000 of"), std::string::npos);
  fs::resize_file(from / m.files[0].name, m.files[0].bytes + 1);
  EXPECT_NE(refusal([&] { copy_data_file(from, to, m.files[0]); }, Code::corrupt).find("longer than"), std::string::npos);
  fs::remove(from / m.files[0].name);
  EXPECT_NE(refusal([&] { copy_data_file(from, to, m.files[0]); }, Code::io).find(m.files[0].name), std::string::npos);
}

TEST(CheckpointCopy, ItEndsEarlyWhenAsked) {
  const TemporaryDirectory dir;
  const auto from = saved(dir / "a", 1000, Codec::none);
  const std::atomic<bool> cancel{true};
  const auto to = begin_save(dir / "b", 3);
  EXPECT_NE(refusal([&] { copy_data_file(from, to, read_manifest(from).files[0], &cancel); }, Code::io).find("given up"),
            std::string::npos);
}

}  // namespace
}  // namespace mt
