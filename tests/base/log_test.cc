#include "base/log.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"

namespace mt {
namespace {

// Standard error as a packet socket: every write(2) arrives as one packet.
class LogTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair_), 0);
    saved_ = ::dup(STDERR_FILENO);
    ::dup2(pair_[1], STDERR_FILENO);
    log::set_tool("mt-x");
  }
  void TearDown() override {
    ::dup2(saved_, STDERR_FILENO);
    for (const int fd : {saved_, pair_[0], pair_[1]}) ::close(fd);
    log::set_tool("");
    log::set_prefix("");
    log::set_level(log::Level::normal);
  }
  std::vector<std::string> packets() {
    std::vector<std::string> all;
    char buffer[4096];
    ssize_t n;
    while ((n = ::recv(pair_[0], buffer, sizeof buffer, MSG_DONTWAIT)) > 0)
      all.emplace_back(buffer, static_cast<std::size_t>(n));
    return all;
  }
  int pair_[2] = {-1, -1};
  int saved_ = -1;
};

TEST_F(LogTest, WritesALineWithOneWrite) {
  log::info("loss {:.2f}", 1.5);
  log::warn("low {}", "disk");
  EXPECT_EQ(packets(), (std::vector<std::string>{"mt-x: loss 1.50\n", "mt-x: warning: low disk\n"}));
}

TEST_F(LogTest, ShowsControlBytesAndKeepsTheLinesOfAList) {
  log::line(std::string("a\nb\t\x1b[2J\x7f\r") + '\0' + "c\n  d \xc3\xa4");
  EXPECT_EQ(packets(), (std::vector<std::string>{"mt-x: a\\nb\\t\\x1b[2J\\x7f\\r\\x00c\n  d \xc3\xa4\n"}));
  EXPECT_STREQ(Error(Code::data, std::string("x") + '\0' + "y").what(), "x\\x00y");
}

TEST_F(LogTest, PutsThePrefixInBrackets) {
  log::set_prefix("host rank 3");
  log::line("hello");
  EXPECT_EQ(packets(), (std::vector<std::string>{"mt-x[host rank 3]: hello\n"}));
}

TEST_F(LogTest, LevelsDecideWhatIsSaid) {
  log::detail("a");
  log::set_level(log::Level::quiet);
  log::info("b");
  log::warn("c");
  log::set_level(log::Level::verbose);
  log::detail("d");
  EXPECT_EQ(packets(), (std::vector<std::string>{"mt-x: warning: c\n", "mt-x: d\n"}));
}

}  // namespace
}  // namespace mt
