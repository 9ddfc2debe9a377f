#include "ckpt/block_writer.h"

#include <sys/resource.h>

#include <csignal>
#include <cstring>
#include <functional>
#include <random>

#include "base/files.h"
#include "ckpt/sample_checkpoint.h"

namespace mt {
namespace {

// A whole file through room() and advance().
void write_blocks(const fs::path& path, std::uint64_t size, WriteMode mode,
                  const std::function<void(std::uint64_t, std::byte*, std::uint64_t)>& fill) {
  BlockStream file(path, mode, size);
  for (std::uint64_t at = 0; at < size;) {
    const auto room = file.room();
    const auto n = std::min<std::uint64_t>(room.size(), size - at);
    fill(at, room.data(), n);
    file.advance(n);
    at += n;
  }
  EXPECT_EQ(file.finish(), size);
}

std::byte at_offset(std::uint64_t i) { return static_cast<std::byte>(test::mix(i / 8) >> (i % 8 * 8)); }

TEST(BlockWriter, FilesOfAnySizeHaveExactlyTheBytesGiven) {
  const test::TemporaryDirectory dir;
  for (const auto mode : {WriteMode::direct, WriteMode::buffered})
    for (const std::uint64_t size : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{4095}, std::uint64_t{4096},
                                     std::uint64_t{4097}, kBlockBytes, kBlockBytes + 1, 6 * kBlockBytes - 511}) {
      std::uint64_t next = 0;
      write_blocks(dir / "f", size, mode, [&](std::uint64_t offset, std::byte* out, std::uint64_t n) {
        EXPECT_EQ(offset, next);
        next = offset + n;
        for (std::uint64_t i = 0; i < n; ++i) out[i] = at_offset(offset + i);
      });
      EXPECT_EQ(next, size);
      const auto text = read_file(dir / "f");
      ASSERT_EQ(text.size(), size);
      std::uint64_t wrong = 0;
      for (std::uint64_t i = 0; i < size; ++i) wrong += static_cast<std::byte>(text[i]) != at_offset(i);
      EXPECT_EQ(wrong, 0u);
    }
}

TEST(BlockWriter, PiecesOfAnySizeInBlocksOfAnySizeEndUpInOrder) {
  const test::TemporaryDirectory dir;
  std::mt19937 rng(3);
  for (const std::uint64_t block : {std::uint64_t{4096}, std::uint64_t{3 * 4096}, kBlockBytes}) {
    std::string right;
    {
      BlockStream file(dir / "f", WriteMode::direct, 0, block);
      for (int i = 0; i < 50; ++i) {
        const std::string piece(rng() % 20000, static_cast<char>('a' + i % 26));
        file.append({reinterpret_cast<const std::byte*>(piece.data()), piece.size()});
        right += piece;
      }
      EXPECT_EQ(file.finish(), right.size());
    }
    EXPECT_TRUE(read_file(dir / "f") == right);
  }
}

TEST(BlockWriter, AFileSystemWithoutDirectWritesIsServedToo) {
  const fs::path dir = "/dev/shm";
  if (!fs::is_directory(dir)) GTEST_SKIP() << "no /dev/shm here";
  const auto path = dir / fmt::format("mt-block-writer-{}", ::getpid());
  write_blocks(path, 5000, WriteMode::direct, [](std::uint64_t, std::byte* out, std::uint64_t n) { std::memset(out, 'a', n); });
  EXPECT_EQ(read_file(path), std::string(5000, 'a'));
  fs::remove(path);
}

TEST(BlockWriter, WhatTheFillThrowsComesOutAndNothingHangs) {
  const test::TemporaryDirectory dir;
  EXPECT_THROW(write_blocks(dir / "f", 3 * kBlockBytes, WriteMode::direct,
                            [&](std::uint64_t offset, std::byte* out, std::uint64_t n) {
                              if (offset > 0) throw std::runtime_error("no more");
                              std::memset(out, 0, n);
                            }),
               std::runtime_error);
}

TEST(BlockWriter, AWriteThatFailsIsAnIoErrorWithThePath) {
  const test::TemporaryDirectory dir;
  const auto none = test::error_of([&] { write_blocks(dir / "no/f", 1, WriteMode::direct, {}); }, Code::io);
  EXPECT_CONTAINS(none, "no/f");
  // The limit on file size makes every write beyond it fail, as a full disk would.
  struct rlimit old {};
  ::getrlimit(RLIMIT_FSIZE, &old);
  const auto before = std::signal(SIGXFSZ, SIG_IGN);
  struct rlimit small = old;
  small.rlim_cur = kBlockBytes;
  ::setrlimit(RLIMIT_FSIZE, &small);
  const auto full = test::error_of(
      [&] {
        write_blocks(dir / "big", 8 * kBlockBytes, WriteMode::direct,
                     [](std::uint64_t, std::byte* out, std::uint64_t n) { std::memset(out, 0, n); });
      },
      Code::io);
  ::setrlimit(RLIMIT_FSIZE, &old);
  std::signal(SIGXFSZ, before);
  EXPECT_CONTAINS(full, "big");
  EXPECT_CONTAINS(full, "cannot write");
}

}  // namespace
}  // namespace mt
