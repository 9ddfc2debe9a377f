#include "comm/nccl/link.h"

#include <thread>

#include "base/clock.h"
#include "base/error.h"
#include "comm/nccl/domain.h"
#include "device/cuda/memory_cache.h"
#include "device/cuda/runtime.h"
#include "device/message_stream.h"

namespace mt::comm::nccl {

Events::~Events() {
  for (const cudaEvent_t e : spare_) cudaEventDestroy(e);
}

cudaEvent_t Events::take() {
  {
    const std::lock_guard lock(mutex_);
    if (!spare_.empty()) {
      const cudaEvent_t e = spare_.back();
      spare_.pop_back();
      return e;
    }
  }
  cuda::use_device(device_);
  cudaEvent_t event = nullptr;
  cuda::check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreate", device_);
  return event;
}

void Events::give_back(cudaEvent_t event) {
  const std::lock_guard lock(mutex_);
  spare_.push_back(event);
}

std::string What::text() const {
  return fmt::format("group {} {} number {}, {} bytes{}", group, operation, number, bytes,
                     more > 0 ? fmt::format(", or one of the {} behind it in a graph", more) : "");
}

Flight::Flight(std::shared_ptr<Events> events, What what)
    : events_(std::move(events)), what_(std::move(what)), event_(events_->take()), started_(Clock::now()) {}

Flight::~Flight() { events_->give_back(event_); }

void Flight::record(cudaStream_t stream) {
  cuda::use_device(events_->device());
  cuda::check(cudaEventRecord(event_, stream), "cudaEventRecord", events_->device());
}

bool Flight::done() {
  if (done_) return true;
  const cudaError_t state = cudaEventQuery(event_);
  if (state == cudaErrorNotReady) {
    cudaGetLastError();  // it is no error
    return false;
  }
  cuda::check(state, "cudaEventQuery", events_->device());
  return done_ = true;
}

void Flight::synchronize() {
  cuda::check(cudaEventSynchronize(event_), "cudaEventSynchronize", events_->device());
  done_ = true;
}

double Flight::age_s() const { return seconds_since(started_); }

Link::Link(Domain& domain, const ncclUniqueId& id, Place place, bool pair, const std::string& name)
    : domain_(domain), rank_(place.rank), size_(place.size), pair_(pair), name_(name), stream_(message_stream(domain.device())),
      before_(domain.events()->take()) {
  cuda::use_device(domain.device().index);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  const ncclResult_t result = library().ncclCommInitRankConfig(&comm_, size_, id, rank_, &config);
  if (result != ncclSuccess && result != ncclInProgress)
    throw Error(Code::comm, fmt::format("ncclCommInitRankConfig: {}", library().ncclGetErrorString(result)),
                "group " + name, "NCCL_DEBUG=WARN says more");
}

Link::~Link() {
  if (domain_.failed()) abort();
  if (!aborted_ && comm_) {
    // Peers finish too, or are gone: then there is nobody to wait for.
    ncclResult_t state = library().ncclCommFinalize(comm_);
    for (const auto start = Clock::now(); state == ncclInProgress && seconds_since(start) < 10;) {
      if (library().ncclCommGetAsyncError(comm_, &state) != ncclSuccess) break;
      if (state == ncclInProgress) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    if (state == ncclSuccess) library().ncclCommDestroy(comm_);
    else abort();
  }
  domain_.events()->give_back(before_);
}

void Link::need_alive() const {
  if (!aborted_) return;
  domain_.check();
  throw Error(Code::comm, "the NCCL communicator was aborted", "group " + name_);
}

void Link::settle(ncclResult_t result, const char* call) {
  const auto start = Clock::now();
  while (result == ncclInProgress) {
    {
      const std::lock_guard lock(mutex_);
      need_alive();
      const ncclResult_t asked = library().ncclCommGetAsyncError(comm_, &result);
      if (asked != ncclSuccess) result = asked;
    }
    if (result != ncclInProgress) break;
    domain_.check();
    const double s = seconds_since(start);
    if (s > domain_.options().timeout_s) {
      domain_.fail(fmt::format("no answer after {:.1f} s to {}", s, call),
                   fmt::format("group {}, rank {}", name_, domain_.world_rank()));
      domain_.check();
    }
    if (s > 0.001) std::this_thread::sleep_for(std::chrono::microseconds(100));
    else std::this_thread::yield();
  }
  if (result != ncclSuccess) {
    std::string why = library().ncclGetErrorString(result);
    {
      const std::lock_guard lock(mutex_);
      if (const char* more = aborted_ ? nullptr : library().ncclGetLastError(comm_); more && *more) why += fmt::format(" ({})", more);
    }
    domain_.fail(fmt::format("{}: {}", call, why), fmt::format("group {}, rank {}", name_, domain_.world_rank()));
    domain_.check();
  }
  const std::lock_guard lock(mutex_);
  settling_ = false;
}

ncclResult_t Link::begin(const std::function<ncclResult_t(const Library&)>& calls) {
  const std::lock_guard lock(mutex_);
  need_alive();
  settling_ = true;
  cuda::use_device(domain_.device().index);
  return calls(library());
}

void Link::issue(const char* call, const std::function<ncclResult_t(const Library&)>& calls) {
  settle(begin(calls), call);
}

void Link::issue_group(const char* call, const std::function<ncclResult_t(const Library&)>& calls) {
  issue(call, [&](const Library& l) {
    const ncclResult_t opened = l.ncclGroupStart();
    if (opened != ncclSuccess) return opened;
    const ncclResult_t inside = calls(l), closed = l.ncclGroupEnd();
    return inside == ncclSuccess || inside == ncclInProgress ? closed : inside;
  });
}

void Link::start_after(const Stream& caller) {
  const int device = domain_.device().index;
  MT_CHECK(caller.device() == domain_.device(), "a stream of {} where ranks talk from {}", device_text(caller.device()),
           device_text(domain_.device()));
  cuda::use_device(device);
  cuda::check(cudaEventRecord(before_, cuda::native(caller)), "cudaEventRecord", device);
  cuda::check(cudaStreamWaitEvent(native(), before_, 0), "cudaStreamWaitEvent", device);
}

void Link::watch(std::shared_ptr<Flight> flight) {
  const std::lock_guard lock(mutex_);
  flights_.push_back(std::move(flight));
}

std::shared_ptr<Flight> Link::take_off(What what) {
  auto flight = std::make_shared<Flight>(domain_.events(), std::move(what));
  flight->record(native());
  if (!domain_.noted()) watch(flight);
  return flight;
}

void Link::finish_before(const Stream& caller) {
  const int device = domain_.device().index;
  cuda::use_device(device);
  cuda::check(cudaEventRecord(before_, native()), "cudaEventRecord", device);
  cuda::check(cudaStreamWaitEvent(cuda::native(caller), before_, 0), "cudaStreamWaitEvent", device);
}

void Link::follow(const Stream& caller, What what) {
  auto flight = std::make_shared<Flight>(domain_.events(), std::move(what));
  flight->record(cuda::native(caller));
  cuda::check(cudaStreamWaitEvent(native(), flight->event(), 0), "cudaStreamWaitEvent", domain_.device().index);
  watch(std::move(flight));
}

// What is under way here needs no memory of others that nobody else waits for.
void Link::begin_capture() { cuda::memory_cache(domain_.device().index).begin_capture(native()); }

void Link::end_capture() { cuda::memory_cache(domain_.device().index).end_capture(native()); }

std::byte* Link::scratch(std::size_t bytes) {
  // What was given back is used again after everything that is queued now.
  if (scratch_.size() < bytes) {
    if (std::exchange(scratch_stays_, false)) scratch_of_graphs_.push_back(std::move(scratch_));
    scratch_ = Buffer();
    scratch_ = Buffer(domain_.device(), bytes);
  }
  scratch_stays_ = scratch_stays_ || domain_.noted();
  return scratch_.data();
}

std::optional<Fault> Link::fault(double timeout_s) {
  const std::lock_guard lock(mutex_);
  if (aborted_) return std::nullopt;
  while (!flights_.empty() && flights_.front()->done()) flights_.pop_front();
  if (!settling_) {
    ncclResult_t state = ncclSuccess;
    const ncclResult_t asked = library().ncclCommGetAsyncError(comm_, &state);
    if (asked != ncclSuccess) state = asked;
    if (state != ncclSuccess && state != ncclInProgress) {
      const std::string place = flights_.empty() ? "group " + name_ : flights_.front()->what().text();
      return Fault{fmt::format("NCCL failed: {}", library().ncclGetErrorString(state)), place};
    }
  }
  if (flights_.empty() || flights_.front()->age_s() < timeout_s) return std::nullopt;
  const What& what = flights_.front()->what();
  return Fault{domain_.late_text(flights_.front()->age_s(), what), what.text()};
}

bool Link::is_busy() {
  const std::lock_guard lock(mutex_);
  return !flights_.empty();
}

// Without the lock NCCL may take as long as it likes: from here on nobody calls it.
void Link::abort() {
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(aborted_, true) || !comm_) return;
  }
  library().ncclCommAbort(comm_);
}

}  // namespace mt::comm::nccl
