#include "base/progress.h"

#include <algorithm>
#include <utility>

#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"

namespace mt {

namespace {

constexpr auto kTerminalEvery = std::chrono::milliseconds(200);
constexpr auto kPlainEvery = std::chrono::seconds(10);

// 1234567 -> "1.23 M"
std::string amount(double v) {
  if (v >= 1e9) return fmt::format("{:.2f} G", v / 1e9);
  if (v >= 1e6) return fmt::format("{:.2f} M", v / 1e6);
  if (v >= 1e4) return fmt::format("{:.1f} k", v / 1e3);
  return fmt::format("{:.0f} ", v);
}

std::string span(double seconds) {
  const auto s = static_cast<long>(seconds + 0.5);
  if (s >= 3600) return fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
  return fmt::format("{}:{:02}", s / 60, s % 60);
}

}  // namespace

Progress::Progress(std::string what, std::uint64_t total, std::string unit)
    : what_(std::move(what)),
      unit_(std::move(unit)),
      total_(total),
      terminal_(::isatty(STDERR_FILENO) == 1),
      start_(Clock::now()) {
  if (terminal_) next_ = start_ + kTerminalEvery;
  else next_ = start_ + kPlainEvery;
}

Progress::~Progress() {
  // Left in the middle (an exception): end the rewritten line, so that the error starts a fresh one.
  if (!finished_ && printed_ && terminal_) (void)!::write(STDERR_FILENO, "\n", 1);
}

void Progress::update(std::uint64_t done, const std::string& extra) {
  done_ = done;
  const auto now = Clock::now();
  if (now < next_) return;
  if (terminal_) next_ = now + kTerminalEvery;
  else next_ = now + kPlainEvery;
  extra_ = extra;
  print(false);
}

void Progress::finish() {
  if (finished_) return;
  finished_ = true;
  if (printed_) print(true);
}

void Progress::print(bool last) {
  if (log::level() == log::Level::quiet) return;
  printed_ = true;
  const double elapsed_s = seconds_since(start_);
  const double rate = elapsed_s > 0 ? static_cast<double>(done_) / elapsed_s : 0;
  std::string text = fmt::format("{}: {}{}", what_, amount(static_cast<double>(done_)), unit_);
  if (total_ > 0) text += fmt::format(", {:.1f} %", 100.0 * static_cast<double>(done_) / static_cast<double>(total_));
  text += fmt::format(", {}{}/s", amount(rate), unit_);
  if (last) text += ", took " + span(elapsed_s);
  else if (total_ > done_ && rate > 0) text += ", " + span(static_cast<double>(total_ - done_) / rate) + " left";
  if (!extra_.empty()) text += ", " + extra_;
  if (!terminal_) {
    log::line(text);
    return;
  }
  text = "\r" + text + "\x1b[K" + (last ? "\n" : "");
  (void)!::write(STDERR_FILENO, text.data(), text.size());
}

}  // namespace mt
