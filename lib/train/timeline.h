#pragma once
// Where a rank's time goes: spans of host time by name, added up for the timers and, when a trace is wanted, kept.
//
//   phase      a part of a step: batch-generator, forward-backward, optimizer; validation; saving
//   lane       an act of the pipeline lane: forward-compute, backward-compute, …
//   exposed    this rank stands still in a collective or a send ("tp all_reduce"); comm/timed.h
//   bubble     it stands still for a tensor of a neighbour stage
// Spans of one rank nest: a lane act lies in its phase, a stand-still in what waits. Sums of exposed and of bubble are
// what is not hidden behind compute.
// On an accelerator a span begins and ends when what was launched before is done, so it is the device's time, as Megatron's
// timers take it; what is under way beside the stream (messages of NCCL, copies) lies in the span that waits for it.
// A trace file (train/trace_file.h) has them as Chrome's complete events, one row (tid) a rank. Clocks are set to 0 behind
// a common barrier.
// Code: train/timeline.cc. Tests: tests/train/timeline_test.cc.

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "comm/communicator.h"

namespace mt {

// Two numbers of a span: the iteration; chunk and micro-batch; bytes. −1: none.
struct SpanNumbers {
  std::int64_t a = -1, b = -1;
};

class Timeline {
 public:
  using Time = std::chrono::steady_clock::time_point;
  enum class Kind : std::uint8_t { step, phase, lane, exposed, bubble };

  using Numbers = SpanNumbers;

  // keep_spans  for a trace; at most kMaxSpans of them, the rest is dropped and counted
  explicit Timeline(bool keep_spans) : keep_(keep_spans) {}

  // What waits until what was launched is done; nothing by default.
  void settle_with(std::function<void()> wait) { wait_ = std::move(wait); }
  void settle() const noexcept;
  // Forget what was, and count from now.
  void restart();
  // To a total alone, of the phase kind.
  void add_seconds(std::string_view name, double seconds) {
    totals_[static_cast<std::size_t>(index_of(Kind::phase, name))].seconds += seconds;
  }
  void add(Kind kind, std::string_view name, Time begin, Time end, Numbers numbers = {});

  // Seconds by name since the last call of take_totals; exposed and bubble also as "exposed" and "bubble".
  struct Total {
    Kind kind;
    double seconds;
  };
  std::map<std::string, Total> take_totals();

  // This rank's events since the last call as the inside of a JSON array, a line each, "" when there are none; `row` is
  // their tid.
  std::string take_events(int row);
  std::int64_t dropped() const { return dropped_; }

  static constexpr std::size_t kMaxSpans = 2'000'000;

 private:
  struct Span {
    std::int64_t begin_ns, length_ns;
    Numbers numbers;
    int name;
    Kind kind;
  };
  int index_of(Kind kind, std::string_view name);

  bool keep_;
  std::function<void()> wait_;
  Time zero_ = std::chrono::steady_clock::now();
  std::map<std::string, int, std::less<>> index_;
  std::vector<std::string> names_;
  std::vector<Total> totals_;  // by name
  std::vector<Span> spans_;  // since take_events
  std::size_t taken_ = 0;
  std::int64_t dropped_ = 0;
};

// Adds a span from its making to its end; does nothing on a null timeline.
class TimedSpan {
 public:
  TimedSpan(Timeline* timeline, Timeline::Kind kind, std::string_view name, Timeline::Numbers numbers = {})
      : timeline_(timeline), kind_(kind), name_(name), numbers_(numbers) {
    if (!timeline_) return;
    timeline_->settle();
    begin_ = std::chrono::steady_clock::now();
  }
  ~TimedSpan() { end(); }
  TimedSpan(const TimedSpan&) = delete;
  TimedSpan& operator=(const TimedSpan&) = delete;
  void end() {
    if (!timeline_) return;
    timeline_->settle();
    timeline_->add(kind_, name_, begin_, std::chrono::steady_clock::now(), numbers_);
    timeline_ = nullptr;
  }

 private:
  Timeline* timeline_;
  Timeline::Kind kind_;
  std::string_view name_;
  Timeline::Numbers numbers_;
  Timeline::Time begin_;
};

// Every rank's text on rank 0, by rank; empty elsewhere. Collective.
std::vector<std::string> gather_texts(Communicator& world, Stream& stream, const std::string& mine);

}  // namespace mt
