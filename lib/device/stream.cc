#include "device/stream.h"

#include <cstring>
#include <deque>

#include "base/error.h"

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

void Event::synchronize() const {
  if (queue_) queue_->run_until(ordinal_);
}
bool Event::done() const { return !queue_ || queue_->done >= ordinal_; }

Stream::Stream(Device device, int threads, Mode mode)
    : device_(device), threads_(threads < 1 ? 1 : threads), mode_(mode) {
  if (device.kind != DeviceKind::cpu)
    throw Error(Code::device, "this build has no CUDA", device_text(device), "use --device cpu");
  if (mode_ == Mode::deferred) queue_ = std::make_shared<Event::Queue>();
}

Stream::~Stream() { synchronize(); }

void Stream::synchronize() {
  if (queue_) queue_->run_until(queue_->pushed);
}

Event Stream::record() {
  Event e;
  if (queue_) {
    e.queue_ = queue_;
    e.ordinal_ = queue_->pushed;
  }
  return e;
}

void Stream::wait(const Event& event) {
  if (event.done()) return;
  if (!queue_) return event.synchronize();
  queue_->entries.push_back({nullptr, event.queue_, event.ordinal_});
  ++queue_->pushed;
}

void Stream::enqueue(std::function<void()> work) {
  queue_->entries.push_back({std::move(work), nullptr, 0});
  ++queue_->pushed;
}

void copy_bytes(Stream& stream, void* dst, const void* src, std::size_t bytes) {
  if (bytes == 0) return;
  stream.launch([=] { std::memcpy(dst, src, bytes); });
}

void zero_bytes(Stream& stream, void* dst, std::size_t bytes) {
  if (bytes == 0) return;
  stream.launch([=] { std::memset(dst, 0, bytes); });
}

}  // namespace mt
