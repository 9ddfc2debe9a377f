#include "base/progress.h"

#include <string>
#include <thread>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/log.h"

namespace mt {
namespace {

// Standard error as a pseudo terminal; what was written to it is read from the other side.
class Terminal {
 public:
  Terminal() : master_(::posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK)), saved_(::dup(STDERR_FILENO)) {
    ::grantpt(master_);
    ::unlockpt(master_);
    const int slave = ::open(::ptsname(master_), O_RDWR | O_NOCTTY);
    ::dup2(slave, STDERR_FILENO);
    ::close(slave);
  }
  ~Terminal() { restore(); }
  std::string seen() {
    char buffer[8192];
    const ssize_t n = ::read(master_, buffer, sizeof buffer);
    return n > 0 ? std::string(buffer, static_cast<std::size_t>(n)) : "";
  }
  void restore() {
    if (saved_ < 0) return;
    ::dup2(saved_, STDERR_FILENO);
    ::close(saved_);
    ::close(master_);
    saved_ = -1;
  }

 private:
  int master_, saved_;
};

TEST(Progress, RewritesOneLineOnATerminal) {
  Terminal terminal;
  Progress p("encode", 1000, "documents");
  p.update(1);
  EXPECT_EQ(terminal.seen(), "") << "nothing is due at once";
  std::this_thread::sleep_for(std::chrono::milliseconds(250));
  p.update(500, "12 MB/s");
  const std::string line = terminal.seen();
  EXPECT_EQ(line.substr(0, 1), "\r");
  EXPECT_NE(line.find("encode: 500 documents, 50.0 %"), std::string::npos) << line;
  EXPECT_NE(line.find("12 MB/s"), std::string::npos) << line;
  EXPECT_NE(line.find(" left"), std::string::npos) << line;
  p.finish();
  EXPECT_NE(terminal.seen().find("took"), std::string::npos);
}

TEST(Progress, SaysNothingWhenQuiet) {
  Terminal terminal;
  log::set_level(log::Level::quiet);
  Progress p("encode", 0, "bytes");
  std::this_thread::sleep_for(std::chrono::milliseconds(250));
  p.update(10);
  p.finish();
  log::set_level(log::Level::normal);
  EXPECT_EQ(terminal.seen(), "");
}

TEST(Progress, SaysNothingForShortWorkElsewhere) {
  testing::internal::CaptureStderr();
  {
    Progress p("encode", 10, "bytes");
    p.update(10);
    p.finish();
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

}  // namespace
}  // namespace mt
