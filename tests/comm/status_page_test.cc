#include "comm/status_page.h"

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace mt::comm {
namespace {

TEST(StatusSlot, ReadsAsASentence) {
  StatusSlot slot;
  EXPECT_FALSE(slot.used());
  EXPECT_EQ(slot.read().text(), "before the first step");
  slot.at(3, "forward-backward");
  EXPECT_EQ(slot.read().text(), "step 3, phase forward-backward");
  slot.enter({"tp", "all_reduce", 12});
  EXPECT_EQ(slot.read().text(), "step 3, phase forward-backward, last entered group tp all_reduce number 12");
  slot.wait_in({"tp", "all_reduce", 12});
  slot.waits_for(2);
  EXPECT_EQ(slot.read().text(), "step 3, phase forward-backward, waits in group tp all_reduce number 12 for rank 2");
  slot.wait_over();
  EXPECT_EQ(slot.read().waits_in, "");
  EXPECT_EQ(slot.read().waits_for, -1);
  EXPECT_TRUE(slot.used());
}

TEST(StatusSlot, CutsLongNames) {
  StatusSlot slot;
  slot.at(1, "a-phase-with-a-name-that-is-too-long");
  EXPECT_EQ(slot.read().phase, "a-phase-with-a-name-tha");
}

TEST(StatusSlot, IsNeverReadHalfWritten) {
  StatusSlot slot;
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    for (int i = 0; !stop; ++i) {
      if (i % 2 == 0)
        slot.at(1, "aaaaaaaaaaaaaaaaaaaaaaa");
      else
        slot.at(2, "bbbbbbbbbbbbbbbbbbbbbbb");
    }
  });
  for (int i = 0; i < 20000; ++i) {
    const RankStatus s = slot.read();
    if (s.step < 0) continue;
    EXPECT_EQ(s.phase, std::string(23, s.step == 1 ? 'a' : 'b'));
  }
  stop = true;
  writer.join();
}

TEST(StatusPage, NamesOfDeadJobsAreRemovedAndNoOthers) {
  if (!std::filesystem::is_directory("/dev/shm")) GTEST_SKIP() << "no /dev/shm here";
  const pid_t gone = ::fork();
  if (gone == 0) ::_exit(0);
  ::waitpid(gone, nullptr, 0);
  const auto name = [](long pid, const char* rest) { return fmt::format("/dev/shm/mt-{}-{}{}", ::getuid(), pid, rest); };
  // A process that is gone, one of this number that started at another time, and names of somebody else.
  const std::vector<std::string> dead{name(gone, "-1"), name(::getpid(), "-1")};
  const std::vector<std::string> kept{name(::getpid(), "-x"), "/dev/shm/mt-test-of-" + std::to_string(::getpid())};
  for (const auto* names : {&dead, &kept})
    for (const auto& n : *names) std::ofstream(n) << "x";
  const pid_t job = ::fork();
  if (job == 0) {
    StatusPage::open({0, 1})->forget_name();
    ::_exit(0);
  }
  ::waitpid(job, nullptr, 0);
  for (const auto& n : dead) EXPECT_FALSE(std::filesystem::exists(n)) << n;
  for (const auto& n : kept) EXPECT_TRUE(std::filesystem::remove(n)) << n;
}

TEST(StatusPage, IsSharedByProcessesOfOneParentAndTellsWhoHasNotEntered) {
  // The page is named for the parent: this process's children meet on one.
  int to_parent[2], to_first[2];
  ASSERT_EQ(::pipe(to_parent), 0);
  ASSERT_EQ(::pipe(to_first), 0);
  char byte = 0;
  const pid_t first = ::fork();
  if (first == 0) {
    auto page = StatusPage::open({0, 3});
    page->mine().at(7, "optimizer");
    page->mine().wait_in({"dp", "all_reduce", 5});
    page->mine().waits_for(1);
    bool good = page->claim_last_word();
    good = ::write(to_parent[1], "x", 1) == 1 && good;
    good = ::read(to_first[0], &byte, 1) == 1 && good;
    page->forget_name();
    ::_exit(good ? 0 : 1);
  }
  ASSERT_EQ(::read(to_parent[0], &byte, 1), 1);
  const pid_t second = ::fork();
  if (second == 0) {
    auto page = StatusPage::open({1, 3});
    const bool good = page->peers_text(1) == "not entered: group dp all_reduce number 5, where rank 0 waits; 1 rank not "
                                             "seen from here" &&
                      page->last_word_taken() && !page->claim_last_word();
    ::_exit(good ? 0 : 1);
  }
  int status = -1;
  ::waitpid(second, &status, 0);
  EXPECT_EQ(status, 0);
  ASSERT_EQ(::write(to_first[1], "x", 1), 1);
  ::waitpid(first, &status, 0);
  EXPECT_EQ(status, 0);
  for (int fd : {to_parent[0], to_parent[1], to_first[0], to_first[1]}) ::close(fd);
}

}  // namespace
}  // namespace mt::comm
