#pragma once
// Talk to the person: lines on stderr, each with the tool's name and, when set, a prefix such as "host rank 3".
//
// Results never come this way; they go to stdout. A line is written with one write(2), so ranks' lines do not mix.
// Code: base/log.cc. Tests: tests/base/log_test.cc.

#include <string>

#include <fmt/format.h>

namespace mt::log {

enum class Level { quiet, normal, verbose };

// The only mutable process-wide state of the library: how much to say and what to put in front.
void set_level(Level level);
Level level();
void set_tool(const std::string& tool);      // "mt-train"
void set_prefix(const std::string& prefix);  // "host rank 3"; printed after the tool's name in brackets
std::string prefix();

// Write "tool[prefix]: line\n" to stderr at once, whatever the level.
void line(const std::string& text);

// At level normal and above.
template <class... A>
void info(fmt::format_string<A...> f, A&&... a) {
  if (level() != Level::quiet) line(fmt::format(f, std::forward<A>(a)...));
}
// At level verbose only.
template <class... A>
void detail(fmt::format_string<A...> f, A&&... a) {
  if (level() == Level::verbose) line(fmt::format(f, std::forward<A>(a)...));
}
// Always; "warning: " in front.
template <class... A>
void warn(fmt::format_string<A...> f, A&&... a) {
  line("warning: " + fmt::format(f, std::forward<A>(a)...));
}

}  // namespace mt::log
