#pragma once
// How many gradients a rank may have on their way to other ranks at once.
//
// Code: schedule/message_buffers.cc. Tests: tests/schedule/message_buffers_test.cc.

#include "schedule/schedule.h"

namespace mt {

// The fewest buffers, at least 2, with which all lanes run to their end when a backward waits until one of its rank's
// buffers has left (its receive was posted). An unsound schedule gets one buffer a gradient.
//   needs  messages are in the lanes (insert_communication)
//   cost   linear in the steps for each number tried
int gradient_buffers(const Schedule& schedule);

}  // namespace mt
