#include "base/log.h"

#include <atomic>
#include <cerrno>
#include <mutex>

#include <unistd.h>

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

void line(const std::string& text) {
  std::string out;
  {
    const std::lock_guard lock(state().mutex);
    out = state().tool;
    if (!state().prefix.empty()) out += "[" + state().prefix + "]";
  }
  if (!out.empty()) out += ": ";
  out += text;
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
