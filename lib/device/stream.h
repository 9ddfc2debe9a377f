#pragma once
// An ordered queue of work on a device, and the events that order queues among each other.
//
// CPU streams run work at once, on the calling thread (`inline`), with up to `threads` OpenMP threads inside an op.
// A `deferred` stream queues instead and runs as late as its events allow: at synchronize(), or when another stream or
// the host waits for an event recorded after the work. A missing wait then gives a wrong answer on any machine.
// A stream of an accelerator is a queue of the device's own: closures run at once and put their kernels into native().
// The host may read what a stream wrote only after synchronize() (or a waited event). Arguments of queued work are
// captured by value; memory they point to must live until it ran.
// Code: device/stream.cc. Tests: tests/device/stream_test.cc.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "device/device.h"

namespace mt {

class Stream;
struct DeviceBackend;

// A point in a stream's work. Cheap to copy.
class Event {
 public:
  Event() = default;
  // Block the host until the work before it is done; at once when default-made.
  void synchronize() const;
  [[nodiscard]] bool done() const;

 private:
  friend class Stream;
  struct Queue;
  struct Native;
  std::shared_ptr<Queue> queue_;    // of a deferred stream
  std::shared_ptr<Native> native_;  // of an accelerator's
  std::uint64_t ordinal_ = 0;
};

class Stream {
 public:
  enum class Mode : std::uint8_t { immediate, deferred };
  explicit Stream(Device device = {}, int threads = 1, Mode mode = Mode::immediate);
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream();  // synchronizes

  Device device() const { return device_; }
  // Threads an op may use; no op's bits depend on it.
  int threads() const { return threads_; }
  Mode mode() const { return mode_; }  // of an accelerator: immediate
  // The accelerator's own handle (cudaStream_t), null on a CPU.
  void* native() const { return native_; }

  // Run or queue a closure. Only ops and copies call it.
  template <class F>
  void launch(F&& work) {
    if (mode_ == Mode::immediate)
      work();
    else
      enqueue(std::function<void()>(std::forward<F>(work)));
  }

  // Wait until everything launched is done.
  void synchronize();
  Event record();
  // Later work of this stream runs after `event`.
  void wait(const Event& event);

  // Long ops call this between tiles, from the launching thread. The engine points it at Communicator::progress.
  void poll() const {
    if (poll_) poll_();
  }
  void set_poll(std::function<void()> hook) { poll_ = std::move(hook); }

 private:
  void enqueue(std::function<void()> work);
  Device device_;
  int threads_;
  Mode mode_;
  std::function<void()> poll_;
  std::shared_ptr<Event::Queue> queue_;
  const DeviceBackend* backend_ = nullptr;  // of an accelerator
  void* native_ = nullptr;
  friend void copy_bytes(Stream& stream, void* dst, const void* src, std::size_t bytes);
  friend void zero_bytes(Stream& stream, void* dst, std::size_t bytes);
};

// dst and src on a device or the host; ranges must not overlap.   cost  2·bytes moved
void copy_bytes(Stream& stream, void* dst, const void* src, std::size_t bytes);
void zero_bytes(Stream& stream, void* dst, std::size_t bytes);

}  // namespace mt
