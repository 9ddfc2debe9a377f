#include "ckpt/data_files.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "base/error.h"
#include "base/files.h"
#include "base/temporary_directory.h"

namespace mt {
namespace {

// Two files of 9 MB of numbered words and a manifest that knows their sizes.
class DataFilesTest : public ::testing::Test {
 protected:
  DataFilesTest() {
    for (std::uint32_t i = 0; i < kWords; ++i) words_.push_back(i * 2654435761u);
    for (int f = 0; f < 2; ++f) {
      manifest_.files.push_back({"f" + std::to_string(f), kWords * 4});
      std::ofstream(dir_.path() / manifest_.files.back().name, std::ios::binary)
          .write(reinterpret_cast<const char*>(words_.data()), kWords * 4);
    }
  }
  void drop_cache() const {
    for (const auto& f : manifest_.files) {
      const int fd = ::open((dir_.path() / f.name).c_str(), O_RDONLY);
      ::fsync(fd);
      ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
      ::close(fd);
    }
  }
  // What a range holds, put together from the pieces; they must be the bytes that also arrive at `out`.
  std::string read(DataFiles& files, const FileRange& range) const {
    std::string out(range.end - range.begin, '\0'), pieces;
    files.read(range, reinterpret_cast<std::byte*>(out.data()), [&](const std::byte* piece, std::size_t size) {
      EXPECT_LE(size, 256u << 10);
      pieces.append(reinterpret_cast<const char*>(piece), size);
    });
    EXPECT_EQ(pieces, out);
    return out;
  }
  std::string expected(const FileRange& range) const {
    return {reinterpret_cast<const char*>(words_.data()) + range.begin, range.end - range.begin};
  }

  static constexpr std::uint32_t kWords = 2250001;
  test::TemporaryDirectory dir_;
  std::vector<std::uint32_t> words_;
  Manifest manifest_;
};

int open_descriptors() {
  int n = 0;
  for ([[maybe_unused]] const auto& e : fs::directory_iterator("/proc/self/fd")) ++n;
  return n;
}

TEST_F(DataFilesTest, GivesEveryByteOfARangeCachedOrNotInWhateverOrder) {
  const std::vector<FileRange> ranges{{0, 4096, 4197401}, {0, 4197401, 9000004}, {1, 0, 1}, {1, 77, 77}, {1, 100, 5000000}};
  for (const bool cold : {true, false})
    for (const bool backwards : {false, true}) {
      if (cold) drop_cache();
      DataFiles files(dir_.path(), manifest_);
      auto order = ranges;
      if (backwards) std::reverse(order.begin(), order.end());
      for (const auto& r : order) EXPECT_EQ(read(files, r), expected(r)) << r.file << ' ' << r.begin << ' ' << cold;
    }
}

TEST_F(DataFilesTest, OneFileIsOpenAtATimeAndNoneInTheEnd) {
  const int before = open_descriptors();
  {
    DataFiles files(dir_.path(), manifest_);
    for (const std::uint32_t file : {0u, 0u, 1u, 0u}) {
      read(files, {file, 0, 10});
      EXPECT_EQ(open_descriptors(), before + 1);
    }
  }
  EXPECT_EQ(open_descriptors(), before);
}

TEST_F(DataFilesTest, AFileThatEndsTooEarlyIsCorruptAndAMissingOneCannotBeOpened) {
  fs::resize_file(dir_.path() / "f0", 5000);
  fs::remove(dir_.path() / "f1");
  DataFiles files(dir_.path(), manifest_);
  try {
    read(files, {0, 4096, 6000});
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::corrupt);
    EXPECT_NE(std::string(e.what()).find("ends at byte 5000, wanted 6000"), std::string::npos) << e.what();
  }
  try {
    read(files, {1, 0, 10});
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::io);
    EXPECT_NE(std::string(e.what()).find("f1"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace mt
