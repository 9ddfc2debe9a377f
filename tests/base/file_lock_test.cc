#include "base/file_lock.h"

#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/temporary_directory.h"

namespace mt {
namespace {

template <class Body>
std::string refusal(Body body) {
  try {
    body();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::io);
    return e.what();
  }
  return "no error";
}

TEST(FileLock, ANewFileNeverReplacesOneThatAppearedMeanwhile) {
  const test::TemporaryDirectory dir;
  {
    OutputFile file(dir / "out");
    file.write("mine", 4);
    file.finish();
    std::ofstream(dir / "out") << "theirs";
    EXPECT_NE(refusal([&] { publish_new(file, dir / "out"); }).find("is not replaced"), std::string::npos);
  }
  EXPECT_EQ(read_file(dir / "out"), "theirs");
  EXPECT_EQ(std::distance(fs::directory_iterator(dir.path()), {}), 1) << "the temporary is gone";
  {
    OutputFile other(dir / "other");
    other.write("mine", 4);
    other.finish();
    publish_new(other, dir / "other");
  }
  EXPECT_EQ(read_file(dir / "other"), "mine");
  EXPECT_EQ(std::distance(fs::directory_iterator(dir.path()), {}), 2);
}

TEST(FileLock, ALockKeepsOthersOutWhileItIsHeldAndItsFileGoesWhenAsked) {
  const test::TemporaryDirectory dir;
  {
    const auto lock = FileLock::try_lock(dir / "lock", true);
    ASSERT_TRUE(lock);
    EXPECT_FALSE(FileLock::try_lock(dir / "lock", true));
    EXPECT_TRUE(fs::exists(dir / "lock"));
  }
  EXPECT_FALSE(fs::exists(dir / "lock"));
  { const auto kept = FileLock::try_lock(dir / "lock", false); }
  EXPECT_TRUE(fs::exists(dir / "lock"));
  { const auto again = FileLock::try_lock(dir / "lock", true); }
  EXPECT_FALSE(fs::exists(dir / "lock")) << "also what a killed process left";
  EXPECT_NE(refusal([&] { FileLock::try_lock(dir / "none" / "lock", true); }), "no error");
}

}  // namespace
}  // namespace mt
