#pragma once
// Megatron's timers after the log line, and the straggler line: one rank's totals against another's.
//
// Code: train/timers.cc. Tests: tests/train/timeline_test.cc.

#include <string>
#include <vector>

#include "train/timeline.h"
#include "train/timer_options.h"

namespace mt {

// Seconds by name of every rank, averaged over `steps`. Printed to stdout as Megatron does, names padded with dots to
// 48; "all" gives a line a rank. Empty without anything to say.
std::string timers_text(const std::vector<std::map<std::string, Timeline::Total>>& ranks, const TimerOptions& options,
                        std::int64_t steps);
// "straggler: compute (ms) min 12.31 on rank 3, max 14.02 on rank 0 (1.14 times)": forward-backward without
// stand-stills.
std::string straggler_text(const std::vector<std::map<std::string, Timeline::Total>>& ranks, std::int64_t steps);

// Totals as text between ranks.
std::string totals_text(const std::map<std::string, Timeline::Total>& totals);
std::map<std::string, Timeline::Total> totals_from_text(const std::string& text);

}  // namespace mt
