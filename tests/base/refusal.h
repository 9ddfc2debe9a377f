#pragma once
// What an act that must fail says.

#include <functional>
#include <string>

#include <gtest/gtest.h>

#include "base/error.h"

namespace mt {

// "no error" where it does not fail; another code than `code` fails the test.
inline std::string refusal(const std::function<void()>& act, Code code) {
  try {
    act();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), code) << e.what();
    return e.what();
  }
  return "no error";
}

}  // namespace mt
