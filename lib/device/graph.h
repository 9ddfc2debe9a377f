#pragma once
// Work of an accelerator's stream, noted once and launched as a whole as often as wanted.
//
// Every launch does what was noted: the same kernels with the same arguments on the same memory, whose content alone may
// differ. Code: device/graph.cc. Tests: tests/device/graph_test.cc.

#include <functional>
#include <memory>

#include "device/stream.h"

namespace mt {

class Graph {
 public:
  Graph() = default;
  // What `work` launches on the stream; nothing of it runs.
  //   needs  an accelerator's stream; work that waits for nothing, takes no device memory and copies none of the host's
  //          but pinned
  //   fails  Error{device} where it does; what `work` throws
  //   cost   waits for the stream
  static Graph capture(Stream& stream, const std::function<void()>& work);
  // needs  a captured one; a stream of the same device
  void launch(Stream& stream) const;
  explicit operator bool() const { return native_ != nullptr; }

 private:
  struct Native;
  std::shared_ptr<Native> native_;
};

}  // namespace mt
