#pragma once
// Run a built tool in a shell and keep what it said.

#include <sys/wait.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/files.h"
#include "base/json.h"
#include "base/temporary_directory.h"

namespace mt::test {

struct Outcome {
  int status = -1;  // exit status, or 128 + signal
  std::string out, err;

  // Lines of TSV output.
  std::vector<std::vector<std::string>> rows() const {
    std::vector<std::vector<std::string>> all;
    std::istringstream lines(out);
    for (std::string line; std::getline(lines, line);) {
      all.emplace_back();
      std::istringstream fields(line);
      for (std::string f; std::getline(fields, f, '\t');) all.back().push_back(f);
    }
    return all;
  }
  std::vector<Json> objects() const {
    std::vector<Json> all;
    std::istringstream lines(out);
    for (std::string line; std::getline(lines, line);) all.push_back(Json::parse(line));
    return all;
  }
};

// A directory of its own, and the build's tools first in PATH.
class ToolTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* bin = std::getenv("MT_TEST_BIN");
    if (bin == nullptr || *bin == '\0') GTEST_SKIP() << "MT_TEST_BIN names no directory of tools; ctest sets it";
    bin_ = bin;
  }
  Outcome run(const std::string& command) const {
    const auto out = (scratch_ / "out").string(), err = (scratch_ / "err").string();
    std::ofstream(scratch_ / "script") << "cd '" << dir_.path().string() << "' && export PATH='" << bin_ << "':\"$PATH\"\n"
                                       << command << "\n";
    const int status =
        std::system(("bash '" + (scratch_ / "script").string() + "' > '" + out + "' 2> '" + err + "' < /dev/null").c_str());
    Outcome o;
    o.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    o.out = read_file(out);
    o.err = read_file(err);
    return o;
  }
  // Run what must succeed.
  Outcome good(const std::string& command) const {
    auto o = run(command);
    EXPECT_EQ(o.status, 0) << command << "\n" << o.err;
    return o;
  }
  std::filesystem::path operator/(const std::string& name) const { return dir_ / name; }

  TemporaryDirectory dir_, scratch_;
  std::string bin_;
};

}  // namespace mt::test

#define EXPECT_CONTAINS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)
