// base/files under faults: whatever operation fails or kills, the file holds the old content or the new, whole.

#include <cstdlib>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <sys/wait.h>

#include "base/files.h"
#include "base/temporary_directory.h"

namespace mt {
namespace {

std::string repeated(char c) { return std::string(65536, c); }

struct FilesFault : testing::Test {
  void SetUp() override {
    const char* library = std::getenv("MT_TEST_FAULT_LIB");
    const char* build = std::getenv("MT_TEST_BUILD");
    if (library == nullptr || *library == '\0' || build == nullptr)
      GTEST_SKIP() << "no fault shim in this build (run by ctest, without a sanitizer)";
    preload = std::string("LD_PRELOAD=") + library + " ";
    program = std::string(build) + "/write_atomic ";
    write_file_atomic(path(), repeated('a'));
  }
  std::string path() const { return (dir / "file").string(); }
  // Exit status, or 128 + signal as a shell says it.
  int run(const std::string& fault) const {
    const std::string command = "MT_TEST_FAULT=" + fault + ":" + dir.path().string() + " MT_TEST_FAULT_LOG=" + log() +
                                " " + preload + program + path() + " b 2> " + errors();
    const int status = std::system(("/bin/bash -c '" + command + "' 2> /dev/null").c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  std::string log() const { return (scratch / "log").string(); }
  std::string errors() const { return (scratch / "errors").string(); }
  std::vector<std::string> operations() {
    EXPECT_EQ(run("log:any:0"), 0);
    std::vector<std::string> all;
    const std::string text = read_file(log());
    for (std::size_t from = 0, end; (end = text.find('\n', from)) != std::string::npos; from = end + 1)
      all.push_back(text.substr(from, text.find(' ', from) - from));
    write_file_atomic(path(), repeated('a'));
    return all;
  }
  std::size_t files_left() const {
    std::size_t n = 0;
    for (const auto& entry : fs::directory_iterator(dir.path())) n += entry.exists() ? 1 : 0;
    return n;
  }
  test::TemporaryDirectory dir, scratch;
  std::string preload, program;
};

TEST_F(FilesFault, AnAtomicWriteIsOpenWriteFsyncRenameFsync) {
  EXPECT_EQ(operations(), (std::vector<std::string>{"open", "write", "fsync", "rename", "fsync"}));
}

TEST_F(FilesFault, EveryFailureIsIoErrorAndOneFileIsLeftWhole) {
  const std::size_t count = operations().size();
  for (const char* action : {"enospc", "eio"}) {
    for (std::size_t n = 1; n <= count; ++n) {
      write_file_atomic(path(), repeated('a'));
      EXPECT_EQ(run(std::string(action) + ":any:" + std::to_string(n)), 5) << action << " at operation " << n;
      // Once the rename is done the new content stands; only its durability could not be had.
      EXPECT_EQ(read_file(path()), repeated(n == count ? 'b' : 'a')) << action << " at operation " << n;
      EXPECT_EQ(files_left(), 1u) << action << " at operation " << n;
      const std::string words = std::string(action) == "eio" ? "Input/output error" : "No space left on device";
      EXPECT_NE(read_file(errors()).find(words), std::string::npos) << read_file(errors());
      EXPECT_NE(read_file(errors()).find(dir.path().string()), std::string::npos) << read_file(errors());
    }
  }
}

TEST_F(FilesFault, KilledAnywhereTheFileIsOldOrNew) {
  const std::size_t count = operations().size();
  for (std::size_t n = 1; n <= count; ++n) {
    write_file_atomic(path(), repeated('a'));
    EXPECT_EQ(run("kill:any:" + std::to_string(n)), 128 + 9) << n;
    EXPECT_EQ(read_file(path()), repeated(n == count ? 'b' : 'a')) << "killed before operation " << n;
  }
}

TEST_F(FilesFault, ShortWritesAreContinued) {
  EXPECT_EQ(run("short:write:1+"), 0);
  EXPECT_EQ(read_file(path()), repeated('b'));
}

TEST_F(FilesFault, ADiskThatStaysFullLeavesTheOldFile) {
  EXPECT_EQ(run("enospc:write:1+"), 5);
  EXPECT_EQ(read_file(path()), repeated('a'));
}

}  // namespace
}  // namespace mt
