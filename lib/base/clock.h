#pragma once
// The clock that durations are measured by: it never goes back. Header only.

#include <chrono>

namespace mt {

using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point t) { return std::chrono::duration<double>(Clock::now() - t).count(); }

}  // namespace mt
