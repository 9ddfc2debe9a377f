#include "base/files.h"

#include <cstring>
#include <fstream>
#include <vector>

#include <gtest/gtest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/temporary_directory.h"

namespace mt {
namespace {

std::vector<std::string> names_in(const fs::path& dir) {
  std::vector<std::string> names;
  for (const auto& e : fs::directory_iterator(dir)) names.push_back(e.path().filename().string());
  return names;
}

template <class Body>
std::string io_message(Body body) {
  try {
    body();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::io) << e.what();
    return e.what();
  }
  return "no error";
}

TEST(Files, AtomicWriteReplacesTheContentAndLeavesNothingElse) {
  const test::TemporaryDirectory dir;
  write_file_atomic(dir / "a", "one");
  write_file_atomic(dir / "a", std::string("two\0three", 9));
  EXPECT_EQ(read_file(dir / "a"), std::string("two\0three", 9));
  EXPECT_EQ(names_in(dir.path()), std::vector<std::string>{"a"});
}

TEST(Files, ReadsEmptyAndLargeFilesAndProc) {
  const test::TemporaryDirectory dir;
  write_file_atomic(dir / "empty", "");
  EXPECT_EQ(read_file(dir / "empty"), "");
  const std::string large(3'000'001, 'x');
  write_file_atomic(dir / "large", large);
  EXPECT_EQ(read_file(dir / "large"), large);
  EXPECT_FALSE(read_file("/proc/self/status").empty());
}

TEST(Files, MissingFileAndDirectoryAreIoErrorsWithThePath) {
  const test::TemporaryDirectory dir;
  EXPECT_EQ(io_message([&] { read_file(dir / "none"); }),
            "cannot open: No such file or directory: " + (dir / "none").string());
  EXPECT_NE(io_message([&] { read_file(dir.path()); }).find("Is a directory"), std::string::npos);
  EXPECT_NE(io_message([&] { MappedFile m(dir.path()); }).find("Is a directory"), std::string::npos);
  EXPECT_NE(io_message([&] { write_file_atomic(dir / "no" / "a", "x"); }).find("No such file"), std::string::npos);
  EXPECT_NE(io_message([&] { fsync_directory(dir / "none"); }).find("none"), std::string::npos);
}

TEST(Files, RenameOntoADirectoryFailsAndRemovesTheTemporary) {
  const test::TemporaryDirectory dir;
  fs::create_directory(dir / "d");
  EXPECT_NE(io_message([&] { write_file_atomic(dir / "d", "x"); }), "no error");
  EXPECT_EQ(names_in(dir.path()), std::vector<std::string>{"d"});
}

TEST(Files, ADeviceIsWrittenInPlaceAndALinkStaysALink) {
  const test::TemporaryDirectory dir;
  const fs::path pipe = dir / "pipe", link = dir / "link", file = dir / "file";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const int reader = ::open(pipe.c_str(), O_RDONLY | O_NONBLOCK);
  write_file_atomic(pipe, "told");
  char got[8] = {};
  EXPECT_EQ(::read(reader, got, sizeof(got)), 4);
  EXPECT_STREQ(got, "told");
  ::close(reader);
  EXPECT_TRUE(fs::is_fifo(pipe));
  EXPECT_THROW(write_file_atomic("/dev/full", "no"), Error);
  EXPECT_TRUE(fs::is_character_file("/dev/full"));
  write_file_atomic(file, "old");
  fs::create_symlink("file", link);
  write_file_atomic(link, "new");
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_EQ(read_file(file), "new");
}

TEST(Files, OutputFileAppearsOnlyOnCommit) {
  const test::TemporaryDirectory dir;
  {
    OutputFile f(dir / "a");
    f.write("hello", 5);
    EXPECT_FALSE(fs::exists(dir / "a"));
    EXPECT_TRUE(fs::exists(f.temporary_path()));
    f.commit();
    EXPECT_EQ(read_file(dir / "a"), "hello");
  }
  EXPECT_EQ(names_in(dir.path()), std::vector<std::string>{"a"});
}

TEST(Files, DroppedOutputFileLeavesTheOldContent) {
  const test::TemporaryDirectory dir;
  write_file_atomic(dir / "a", "old");
  {
    OutputFile f(dir / "a");
    f.write("new", 3);
  }
  EXPECT_EQ(read_file(dir / "a"), "old");
  EXPECT_EQ(names_in(dir.path()).size(), 1u);
}

TEST(Files, PositionedWritesSetTheSizeAndLeaveHolesZero) {
  const test::TemporaryDirectory dir;
  OutputFile f(dir / "a");
  f.write_at(4, "efgh", 4);
  f.write_at(0, "ab", 2);
  EXPECT_EQ(f.size(), 8u);
  OutputFile g = std::move(f);
  g.commit();
  EXPECT_EQ(read_file(dir / "a"), std::string("ab\0\0efgh", 8));
}

TEST(Files, FinishedFilesAppearOnPublish) {
  const test::TemporaryDirectory dir;
  OutputFile bin(dir / "x.bin"), idx(dir / "x.idx");
  bin.write("b", 1);
  idx.write("i", 1);
  bin.finish();
  idx.finish();
  EXPECT_FALSE(fs::exists(dir / "x.bin"));
  bin.publish();
  idx.publish();
  EXPECT_EQ(read_file(dir / "x.bin") + read_file(dir / "x.idx"), "bi");
}

TEST(Files, ExchangeSwapsTwoDirectories) {
  const test::TemporaryDirectory dir;
  fs::create_directory(dir / "a");
  fs::create_directory(dir / "b");
  write_file_atomic(dir / "a" / "in", "1");
  if (!rename_exchange(dir / "a", dir / "b")) GTEST_SKIP() << "this file system cannot exchange";
  EXPECT_TRUE(fs::exists(dir / "b" / "in"));
  EXPECT_FALSE(fs::exists(dir / "a" / "in"));
  EXPECT_NE(io_message([&] { (void)rename_exchange(dir / "a", dir / "none"); }), "no error");
}

TEST(Files, MapsContentAndEmptyFiles) {
  const test::TemporaryDirectory dir;
  write_file_atomic(dir / "a", "mapped");
  write_file_atomic(dir / "e", "");
  MappedFile m(dir / "a");
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(m.data()), m.size()), "mapped");
  MappedFile moved = std::move(m);
  EXPECT_EQ(moved.size(), 6u);
  EXPECT_EQ(m.size(), 0u);
  EXPECT_TRUE(MappedFile(dir / "e").bytes().empty());
}

// Root passes every permission check, so the child becomes nobody first.
TEST(Files, ReadOnlyDirectoryAndUnreadableFileAreIoErrors) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to become another user";
  const test::TemporaryDirectory dir;
  write_file_atomic(dir / "secret", "x");
  ASSERT_EQ(::chmod((dir / "secret").c_str(), 0600), 0);
  ASSERT_EQ(::chmod(dir.path().c_str(), 0755), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    if (::setresgid(65534, 65534, 65534) != 0 || ::setresuid(65534, 65534, 65534) != 0) ::_exit(9);
    int denied = 0;
    const auto expect_denied = [&denied](auto body) {
      try {
        body();
      } catch (const Error& e) {
        if (e.code() == Code::io && std::strstr(e.what(), "Permission denied") != nullptr) ++denied;
      }
    };
    expect_denied([&] { read_file(dir / "secret"); });
    expect_denied([&] { MappedFile m(dir / "secret"); });
    expect_denied([&] { write_file_atomic(dir / "new", "x"); });
    ::_exit(denied);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 3) << "denied acts, of 3";
}

}  // namespace
}  // namespace mt
