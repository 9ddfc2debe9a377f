#include "base/log.h"

#include <atomic>
#include <cerrno>
#include <mutex>

#include <unistd.h>

#include "base/printable.h"

namespace mt::log {

namespace {

struct State {
  std::atomic<Level> level{Level::normal};
  std::mutex mutex;
  std::string tool, prefix;
};

// Never destroyed: threads may still speak while the process leaves.
State& state() {
  static State* s = new State;
  return *s;
}

}  // namespace

void set_level(Level l) { state().level = l; }
Level level() { return state().level; }

void set_tool(const std::string& tool) {
  const std::lock_guard lock(state().mutex);
  state().tool = tool;
}

void set_prefix(const std::string& prefix) {
  const std::lock_guard lock(state().mutex);
  state().prefix = prefix;
}

std::string prefix() {
  const std::lock_guard lock(state().mutex);
  return state().prefix;
}

std::string printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if ((c >= 0x20 && c != 0x7f) || (c == '\n' && text.substr(i + 1, 2) == "  ")) out += text[i];
    else if (c == '\n') out += "\\n";
    else if (c == '\t') out += "\\t";
    else if (c == '\r') out += "\\r";
    else out += fmt::format("\\x{:02x}", c);
  }
  return out;
}

void line(const std::string& text) {
  std::string out;
  {
    const std::lock_guard lock(state().mutex);
    out = state().tool;
    if (!state().prefix.empty()) out += "[" + state().prefix + "]";
  }
  if (!out.empty()) out += ": ";
  out += printable(text);
  out += '\n';
  const char* p = out.data();
  std::size_t left = out.size();
  while (left > 0) {
    const ssize_t n = ::write(STDERR_FILENO, p, left);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;  // nobody listens; there is nowhere to say so
    p += n;
    left -= static_cast<std::size_t>(n);
  }
}

}  // namespace mt::log
