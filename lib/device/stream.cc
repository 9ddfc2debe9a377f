#include "device/stream.h"

#include <cstring>
#include <deque>

#include "base/error.h"
#include "device/backend.h"
#include "device/message_stream.h"

namespace mt {

// Work of a deferred stream. An entry is a closure or an event of another queue to run up to first.
struct Event::Queue {
  struct Entry {
    std::function<void()> work;
    std::shared_ptr<Queue> other;
    std::uint64_t until = 0;
  };
  std::deque<Entry> entries;
  std::uint64_t pushed = 0, done = 0;

  void run_until(std::uint64_t ordinal) {
    while (done < ordinal) {
      Entry e = std::move(entries.front());
      entries.pop_front();
      ++done;  // first: work may itself wait for events of this queue that lie before it
      if (e.other) e.other->run_until(e.until);
      if (e.work) e.work();
    }
  }
};

struct Event::Native {
  const DeviceBackend& backend;
  int device;
  void* event;
  Native(const DeviceBackend& b, int d) : backend(b), device(d), event(b.make_event(d)) {}
  Native(const Native&) = delete;
  Native& operator=(const Native&) = delete;
  ~Native() { backend.destroy_event(device, event); }
};

void Event::synchronize() const {
  if (queue_) queue_->run_until(ordinal_);
  if (native_) native_->backend.synchronize_event(native_->device, native_->event);
}
bool Event::done() const {
  if (native_) return native_->backend.event_done(native_->device, native_->event);
  return !queue_ || queue_->done >= ordinal_;
}

namespace {
thread_local bool goes_first = false;  // of the stream this thread makes
}

Stream::Stream(Device device, int threads, Mode mode)
    : device_(device), threads_(threads < 1 ? 1 : threads), mode_(mode) {
  if (device.kind != DeviceKind::cpu) {
    backend_ = &cuda_backend();
    native_ = backend_->make_stream(device.index, goes_first);
    mode_ = Mode::immediate;
  }
  if (mode_ == Mode::deferred) queue_ = std::make_shared<Event::Queue>();
}

Stream::~Stream() {
  if (!native_) {
    synchronize();
    return;
  }
  try {
    synchronize();
  } catch (const Error&) {  // the device is lost: who waits for a result is told
  }
  backend_->destroy_stream(device_.index, native_);
}

Stream message_stream(Device device) {
  struct First {
    First() { goes_first = true; }
    ~First() { goes_first = false; }
  } const first;
  return Stream(device);
}

void Stream::synchronize() {
  if (native_) backend_->synchronize_stream(device_.index, native_);
  if (queue_) queue_->run_until(queue_->pushed);
}

Event Stream::record() {
  Event e;
  if (queue_) {
    e.queue_ = queue_;
    e.ordinal_ = queue_->pushed;
  }
  if (native_) {
    e.native_ = std::make_shared<Event::Native>(*backend_, device_.index);
    backend_->record_event(device_.index, e.native_->event, native_);
  }
  return e;
}

void Stream::wait(const Event& event) {
  if (native_ && event.native_) return backend_->wait_event(device_.index, native_, event.native_->event);
  if (!queue_) return event.synchronize();
  if (event.native_) {
    launch([event] { event.synchronize(); });
    return;
  }
  if (event.done()) return;
  queue_->entries.push_back({nullptr, event.queue_, event.ordinal_});
  ++queue_->pushed;
}

void Stream::enqueue(std::function<void()> work) {
  queue_->entries.push_back({std::move(work), nullptr, 0});
  ++queue_->pushed;
}

void copy_bytes(Stream& stream, void* dst, const void* src, std::size_t bytes) {
  if (bytes == 0) return;
  if (stream.native_) return stream.backend_->copy(stream.device_.index, stream.native_, dst, src, bytes);
  stream.launch([=] { std::memcpy(dst, src, bytes); });
}

void zero_bytes(Stream& stream, void* dst, std::size_t bytes) {
  if (bytes == 0) return;
  if (stream.native_) return stream.backend_->zero(stream.device_.index, stream.native_, dst, bytes);
  stream.launch([=] { std::memset(dst, 0, bytes); });
}

}  // namespace mt
