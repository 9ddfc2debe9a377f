// Streams that run as late as they may, events, copies, and the rest of the runtime's calls.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "queues.h"

namespace mt::emulation {

namespace {

thread_local bool works = false;  // has queued something: one that only watches moves nothing on

thread_local const char* running_what = nullptr;
thread_local constinit int running_line = 0;
thread_local const char* running_file = nullptr;

thread_local Queue* running_queue = nullptr;

// What this thread moves other streams on for.
thread_local std::vector<const Together*> wanting;
// This thread only asks: it runs what can be run, and does not wait for other ranks.
thread_local bool asks = false, asked_enough = false;
bool is_given_up() {
  return asked_enough || std::any_of(wanting.begin(), wanting.end(), [](const Together* w) { return w->given_up(); });
}

void run_together(Queue& q) {
  Entry& e = q.entries.front();  // stays where it is: others may only append
  bool over = false;
  if (!e.busy) {
    e.busy = true;
    const std::shared_ptr<Together> together = e.together;
    over = together->advance();
    e.busy = false;
  }
  if (!over && asks) {
    asked_enough = true;
    return;
  }
  if (!over) return streams().mutex.wait_for_news();
  q.entries.pop_front();
  ++q.done;
  streams().mutex.tell_news();
}

void run_front(Queue& q) {
  if (q.entries.front().together) return run_together(q);
  if (const std::shared_ptr<Queue> other = q.entries.front().other) {
    // The wait stays in front meanwhile, so that nobody runs what stands behind it.
    const std::uint64_t before = q.done;
    run_until(*other, q.entries.front().until);
    if (q.done != before || other->done < q.entries.front().until) return;  // somebody went past it, or it was given up
  }
  Entry e = std::move(q.entries.front());
  q.entries.pop_front();
  if (e.work) {
    open_device(q.device);
    set_running(e.what, e.place);
    running_queue = &q;
    e.work();
    running_queue = nullptr;
    check_red_zones();
    set_running(nullptr, e.place);
    close_device(q.device);
  }
  ++q.done;
}

bool could_run(const Queue& q) {
  if (q.entries.empty()) return false;
  const Entry& e = q.entries.front();
  if (e.together) return false;
  return !e.other || e.other->done >= e.until;
}

// With a seed: some stream that could run does so now, though nobody waits for it yet.
void run_some() {
  if (seed() == 0 || running_what != nullptr || draw() % 4 != 0) return;
  auto& all = streams().all;
  if (all.empty()) return;
  const std::shared_ptr<Queue> q = all[draw() % all.size()];
  for (std::uint64_t n = 1 + draw() % 4; n > 0 && could_run(*q); --n) run_front(*q);
}

}  // namespace

void run_until(Queue& q, std::uint64_t ordinal) {
  if (q.done >= ordinal) return;
  const auto kept = q.shared_from_this();  // its owner may go while this thread waits
  open_device(q.device);
  while (q.done < ordinal && !is_given_up()) {
    run_some();
    if (q.done < ordinal) run_front(q);
  }
  close_device(q.device);
}

void push(Queue& q, Entry entry) {
  works = true;
  if (q.capture) return note(q, {0, std::move(entry)});
  q.entries.push_back(std::move(entry));
  ++q.pushed;
  run_some();
}

namespace {

void synchronize_device() {
  const auto all = streams().all;
  for (const auto& q : all)
    if (q->device == current_device()) run_until(*q, q->pushed);
}

// Opens the devices that a copy reads or writes beside the stream's own.
struct Opened {
  int devices[2] = {-1, -1};
  Opened(const void* a, const void* b) {
    if (!is_device_memory(a, &devices[0])) devices[0] = -1;
    if (!is_device_memory(b, &devices[1])) devices[1] = -1;
    for (const int d : devices)
      if (d >= 0) open_device(d);
  }
  Opened(const Opened&) = delete;
  Opened& operator=(const Opened&) = delete;
  ~Opened() {
    for (const int d : devices)
      if (d >= 0) close_device(d);
  }
};

}  // namespace

Streams& streams() {
  static auto& s = *new Streams;
  return s;
}

std::shared_ptr<Queue> make_queue(int device) {
  auto q = std::make_shared<Queue>();
  q->device = device;
  streams().all.push_back(q);
  return q;
}

void pass_time(double ms) {
  if (running_queue != nullptr) running_queue->clock_ms += ms;
}

void set_running(const char* what, Place place) {
  running_what = what;
  running_file = place.file_name();
  running_line = static_cast<int>(place.line());
}

const char* running() {
  if (!running_what) return "";
  thread_local char text[256];
  const char* slash = std::strrchr(running_file, '/');
  int n = std::snprintf(text, sizeof text, "the %s of %s:%d", running_what, slash ? slash + 1 : running_file, running_line);
  if (self && n > 0 && static_cast<std::size_t>(n) < sizeof text)
    std::snprintf(text + n, sizeof text - static_cast<std::size_t>(n), ", block (%u, %u, %u) thread %u", self->block.x,
                  self->block.y, self->block.z, self->linear);
  return text;
}

std::uint64_t seed() {
  static const std::uint64_t s = from_environment("MT_EMULATION_SEED", 0);
  return s;
}

std::uint64_t draw() {
  thread_local std::uint64_t state = seed();
  std::uint64_t z = state += 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

void queue(Queue* stream, std::function<void()> work, const char* what, Place place) {
  const Lock lock(streams().mutex);
  push(*stream, {std::move(work), what, place, nullptr, 0});
}

void queue_together(Queue* stream, std::shared_ptr<Together> work, Place place) {
  const Lock lock(streams().mutex);
  work->stream = stream->shared_from_this();
  work->before = stream->pushed;
  Entry entry{{}, "collective", place, nullptr, 0};
  entry.together = std::move(work);
  push(*stream, std::move(entry));
  streams().mutex.tell_news();
}

bool bring_to_front(const Together& work, const Together& for_whom) {
  const auto q = work.stream;
  wanting.push_back(&for_whom);
  run_until(*q, work.before);
  wanting.pop_back();
  return q->done >= work.before;
}

void with_devices_open(std::initializer_list<const Together*> works, const char* what, const std::function<void()>& body) {
  for (const Together* w : works) open_device(w->stream->device);
  set_running(what, Place::current());
  body();
  check_red_zones();
  set_running(nullptr, {});
  for (const Together* w : works) close_device(w->stream->device);
}

void on_machine(const std::function<void()>& body) {
  const Lock lock(streams().mutex);
  body();
  streams().mutex.tell_news();
}

int device_of(Queue* stream) { return stream->device; }

namespace {
thread_local std::map<std::string, int> host_waits;
}
void waits(const char* call) { ++host_waits[call]; }
std::map<std::string, int> take_host_waits() { return std::exchange(host_waits, {}); }

int queue_kernel(Queue* stream, dim3 blocks, unsigned threads, std::size_t shared_bytes, std::function<void()> body,
                 Place place) {
  if (!stream) return say(cudaErrorInvalidResourceHandle);
  if (threads == 0 || threads > 1024 || shared_bytes > kMaxSharedBytes || blocks.y > 65535 || blocks.z > 65535)
    return say(cudaErrorInvalidConfiguration);
  queue(stream, [=, body = std::move(body)] { run_blocks(blocks, threads, shared_bytes, body); }, "kernel", place);
  return cudaSuccess;
}

}  // namespace mt::emulation

using namespace mt::emulation;

// ---- memory ---------------------------------------------------------------------------------------------------------
cudaError_t cudaMalloc(void** data, std::size_t bytes) {
  waits("cudaMalloc");
  if (capturing()) return break_capture();
  const Lock lock(streams().mutex);
  *data = allocate(current_device(), bytes);
  return *data ? cudaSuccess : say(cudaErrorMemoryAllocation);
}
cudaError_t cudaFree(void* data) {
  if (data == nullptr) return cudaSuccess;
  waits("cudaFree");
  if (capturing()) return break_capture();
  const Lock lock(streams().mutex);
  synchronize_device();  // as the real one
  return release(current_device(), data) ? cudaSuccess : say(cudaErrorInvalidValue);
}
cudaError_t cudaHostAlloc(void** data, std::size_t bytes, unsigned) {
  waits("cudaHostAlloc");
  if (capturing()) return break_capture();
  const Lock lock(streams().mutex);
  *data = allocate(-1, bytes);
  return *data ? cudaSuccess : say(cudaErrorMemoryAllocation);
}
cudaError_t cudaFreeHost(void* data) {
  if (data == nullptr) return cudaSuccess;
  waits("cudaFreeHost");
  if (capturing()) return break_capture();
  const Lock lock(streams().mutex);
  return release(-1, data) ? cudaSuccess : say(cudaErrorInvalidValue);
}
cudaError_t cudaMemcpyAsync(void* dst, const void* src, std::size_t bytes, cudaMemcpyKind, cudaStream_t stream) {
  if (!stream) return say(cudaErrorInvalidResourceHandle);
  const bool pinned = is_emulated_memory(src) && is_emulated_memory(dst);
  if (!pinned) waits("cudaMemcpyAsync of ordinary memory");
  if (stream->capture && !pinned) return break_capture(stream);
  if (!is_emulated_memory(src) && is_emulated_memory(dst)) {  // as the real one: ordinary memory is free at return
    const auto* from = static_cast<const std::byte*>(src);
    queue(stream, [=, kept = std::vector<std::byte>(from, from + bytes)] {
      const Opened opened(dst, nullptr);
      std::memcpy(dst, kept.data(), bytes);
    }, "copy");
    return cudaSuccess;
  }
  queue(stream, [=] {
    const Opened opened(dst, src);
    std::memcpy(dst, src, bytes);
  }, "copy");
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* dst, int value, std::size_t bytes, cudaStream_t stream) {
  if (!stream) return say(cudaErrorInvalidResourceHandle);
  queue(stream, [=] { std::memset(dst, value, bytes); }, "memset");
  return cudaSuccess;
}

// ---- streams and events ---------------------------------------------------------------------------------------------
namespace {
constexpr int kLeast = 0, kGreatest = -5;  // of priorities
}  // namespace

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = kLeast;
  *greatest = kGreatest;
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned, int priority) {
  if (priority > kLeast || priority < kGreatest) return say(cudaErrorInvalidValue);
  const Lock lock(streams().mutex);
  *stream = make_queue(current_device()).get();
  (*stream)->priority = priority;
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return cudaStreamCreateWithPriority(stream, flags, kLeast);
}
cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* priority) {
  *priority = stream->priority;
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const Lock lock(streams().mutex);
  run_until(*stream, stream->pushed);
  std::erase_if(streams().all, [&](const auto& q) { return q.get() == stream; });
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream, mt::emulation::Place place) {
  if (mt::emulation::left_out(place)) return cudaSuccess;
  waits("cudaStreamSynchronize");
  const Lock lock(streams().mutex);
  if (capturing()) return break_capture();
  run_until(*stream, stream->pushed);
  return cudaSuccess;
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  const Lock lock(streams().mutex);
  if (stream->capture) return break_capture(stream);
  return stream->done == stream->pushed ? cudaSuccess : say(cudaErrorNotReady);
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned, mt::emulation::Place place) {
  if (mt::emulation::left_out(place)) return cudaSuccess;
  const Lock lock(streams().mutex);
  if (event->capture) return note_wait(*stream, *event);
  if (stream->capture) return break_capture(stream, cudaErrorStreamCaptureIsolation);
  if (event->stream && event->stream->done < event->ordinal)
    push(*stream, {nullptr, nullptr, {}, event->stream, event->ordinal});
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() {
  waits("cudaDeviceSynchronize");
  const Lock lock(streams().mutex);
  if (capturing()) return break_capture();
  synchronize_device();
  return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  *event = new Moment;
  if ((flags & cudaEventDisableTiming) == 0) (*event)->ms = std::make_shared<double>(0);
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  const Lock lock(streams().mutex);
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const Lock lock(streams().mutex);
  const std::shared_ptr<double> ms = event->ms;
  if (stream->capture) {
    if (ms) return break_capture(stream);
    note_event(*stream, *event);
    return cudaSuccess;
  }
  if (ms) push(*stream, {[ms, stream] { *ms = stream->clock_ms; }, "event", {}, nullptr, 0});
  *event = {stream->shared_from_this(), stream->pushed, 0, ms, nullptr, 0, {}};
  return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t begin, cudaEvent_t end) {
  const Lock lock(streams().mutex);
  for (const cudaEvent_t e : {begin, end}) {
    if (!e->ms || !e->stream) return say(cudaErrorInvalidResourceHandle);
    if (e->stream->done < e->ordinal) return say(cudaErrorNotReady);
  }
  *ms = static_cast<float>(*end->ms - *begin->ms);
  return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event, mt::emulation::Place place) {
  if (mt::emulation::left_out(place)) return cudaSuccess;
  waits("cudaEventSynchronize");
  const Lock lock(streams().mutex);
  if (capturing()) return break_capture();
  if (event->capture) return say(cudaErrorCapturedEvent);
  if (event->stream) run_until(*event->stream, event->ordinal);
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  const Lock lock(streams().mutex);
  if (event->capture) {
    event->capture->broken = true;
    return say(cudaErrorCapturedEvent);
  }
  if (!event->stream || event->stream->done >= event->ordinal) return cudaSuccess;
  // Somebody who only asks must get there too.
  if (works && ++event->asked % 4 == 0) {
    const auto stream = event->stream;
    const std::uint64_t ordinal = event->ordinal;
    asks = true;
    run_until(*stream, ordinal);
    asks = asked_enough = false;
    if (stream->done >= ordinal) return cudaSuccess;
  }
  return say(cudaErrorNotReady);
}
