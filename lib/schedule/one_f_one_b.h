#pragma once
// The lanes that 1F1B and the handcrafted zero-bubble schedules share.

#include "schedule/schedule.h"

namespace mt {

// Warm-up of slope·(pp − rank − 1) forwards, then one forward one backward, then the rest.
//   gives  in flight ≤ min(slope·(pp − rank − 1) + 1, m)
Schedule one_forward_one_backward(const std::string& name, const ScheduleSpec& spec, int slope);

}  // namespace mt
