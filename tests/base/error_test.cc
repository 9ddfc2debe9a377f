#include "base/error.h"

#include <cerrno>

#include <gtest/gtest.h>

namespace mt {
namespace {

TEST(Error, IsOneLineOfWhatWhereAndHint) {
  const Error e(Code::io, "cannot open", "a.bin", "give a file");
  EXPECT_STREQ(e.what(), "cannot open: a.bin (give a file)");
  EXPECT_EQ(e.code(), Code::io);
  EXPECT_EQ(e.message(), "cannot open");
  EXPECT_EQ(e.where(), "a.bin");
  EXPECT_EQ(e.hint(), "give a file");
}

TEST(Error, LeavesOutWhatIsEmpty) {
  EXPECT_STREQ(Error(Code::usage, "no").what(), "no");
  EXPECT_STREQ(Error(Code::usage, "no", "", "try yes").what(), "no (try yes)");
}

TEST(Error, ExitCodesAreTheDocumentedOnes) {
  EXPECT_EQ(static_cast<int>(Code::usage), 2);
  EXPECT_EQ(static_cast<int>(Code::config), 3);
  EXPECT_EQ(static_cast<int>(Code::data), 4);
  EXPECT_EQ(static_cast<int>(Code::io), 5);
  EXPECT_EQ(static_cast<int>(Code::corrupt), 6);
  EXPECT_EQ(static_cast<int>(Code::device), 7);
  EXPECT_EQ(static_cast<int>(Code::comm), 8);
  EXPECT_STREQ(code_name(Code::time_limit), "time_limit");
}

TEST(Error, ErrnoTextIsTheSystemsWords) { EXPECT_EQ(errno_text(ENOSPC), "No space left on device"); }

TEST(CheckDeathTest, AbortsWithConditionAndValues) {
  const int found = 3;
  EXPECT_DEATH(MT_CHECK(found == 4, "found {}", found), "bug: .*error_test.cc:[0-9]+: found == 4 is false: found 3");
}

TEST(Check, EvaluatesItsValuesOnlyWhenFalse) {
  int evaluated = 0;
  MT_CHECK(evaluated == 0, "{}", ++evaluated);
  EXPECT_EQ(evaluated, 0);
}

}  // namespace
}  // namespace mt
