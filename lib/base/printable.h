#pragma once
// Text as a terminal can show it. Every message goes through here: lines of the log, what() of an Error.
//
// Code: base/log.cc. Tests: tests/base/log_test.cc.

#include <string>
#include <string_view>

namespace mt::log {

// Control bytes become \n, \t or \x1b and the like. A line of a list that a message goes on with, a newline and two
// spaces, stays one.
std::string printable(std::string_view text);

}  // namespace mt::log
