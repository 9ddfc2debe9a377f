#pragma once
// Collectives inside a graph of the device: what the host knows of them, noted once and told again at every launch.
//
// The device repeats a collective with its graph; its number, who has entered it, the watch for time-outs and counted
// bytes are the host's, which is not called then. So whoever captures says so before and after, and around each launch.
// Code: comm/nccl/graph_operations.cc, comm/recording.cc, comm/timed.cc. Tests: tests/comm/nccl_test.cc.

#include <memory>

#include "comm/communicator.h"

namespace mt::comm {

// Those of one graph.
class GraphOperations {
 public:
  virtual ~GraphOperations() = default;
  // Around every launch of the graph on `stream`, the first too, in the same order on all ranks. Operations of the same
  // ranks outside of the graph are behind it, or before, in the order of the calls.
  //   fails  Error{comm}, as an operation does
  virtual void before_launch(Stream& stream) = 0;
  virtual void after_launch(Stream& stream) = 0;
};

// What a communicator is besides, whose collectives may lie inside graphs; of the world, for all groups made of it.
// Messages (send, recv) may not, nor views of host memory.
class GraphCapture {
 public:
  virtual ~GraphCapture() = default;
  virtual bool can_capture() const = 0;
  // Collectives called in between are noted and not counted; each is waited for by the captured stream in between.
  //   needs  before the device's capture begins, after it ended; can_capture()
  virtual void begin_capture() = 0;
  //   needs  what it gives, and the graph, to end before the communicators do
  virtual std::unique_ptr<GraphOperations> end_capture() = 0;
};

// Null where collectives of this world cannot be in a graph: those that go through the host.
inline GraphCapture* graph_capture(Communicator& world) {
  auto* c = dynamic_cast<GraphCapture*>(&world);
  return c != nullptr && c->can_capture() ? c : nullptr;
}

}  // namespace mt::comm
