#pragma once
// A communicator for memory of an accelerator over one that knows the host's: copies out, the operation, copies back.
//
// Starting an operation waits until its input is in pinned memory, so only the messages overlap with what is launched
// afterwards. Groups of one rank stay as they are: theirs are copies on the device. Views of host memory may be given
// too. Results are those of `inner`: the same bits.
// Code: comm/staged.cc. Tests: tests/comm/staged_test.cc.

#include <memory>

#include "comm/communicator.h"

namespace mt::comm {

// Its groups are staged too.
//   needs  streams of `device` in every call; inner outlives it
//   cost   bytes copied twice, in pinned memory that is kept for the next operations
std::unique_ptr<Communicator> staged(Communicator& inner, Device device);

}  // namespace mt::comm
