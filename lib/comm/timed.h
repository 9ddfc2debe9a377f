#pragma once
// A communicator that tells how long this rank stood still in each of its operations: exposed communication.
//
// Of operations on an accelerator it sees what holds up the host alone: over NCCL, next to nothing.
// Code: comm/timed.cc. Tests: tests/comm/timed_test.cc, tests/train/timeline_test.cc.

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "comm/communicator.h"

namespace mt::comm {

// A stretch of host time in which this rank did nothing but start or await one operation.
struct StandStill {
  const std::string& group;
  const char* operation;  // "all_reduce"
  std::int64_t bytes;     // of the tensor handed in
  std::chrono::steady_clock::time_point begin, end;
};
using StandStillSink = std::function<void(const StandStill&)>;

// Everything goes to `inner`; its groups are timed too. Groups of one rank are not: nothing is sent there. Stretches
// below a microsecond are not told.
//   needs  inner and sink outlive it
//   cost   two clock readings an operation, and one allocation
std::unique_ptr<Communicator> timed(Communicator& inner, const StandStillSink& sink);

}  // namespace mt::comm
