#pragma once
// One NCCL communicator of this rank with the stream its operations run on, and the operations in flight there.
//
// NCCL is only called without blocking, and polled, so a peer that never comes is a time-out and not a hang; a lock keeps
// calls and the watching thread's abort apart.
// Code: comm/nccl/link.cc. Included only inside comm/nccl/.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "comm/nccl/library.h"
#include "device/buffer.h"

namespace mt::comm::nccl {

// Events of a device, taken and given back by any thread.
class Events {
 public:
  explicit Events(int device) : device_(device) {}
  ~Events();
  cudaEvent_t take();
  void give_back(cudaEvent_t event);
  int device() const { return device_; }

 private:
  int device_;
  std::mutex mutex_;
  std::vector<cudaEvent_t> spare_;
};

// Which operation of which group, for messages.
struct What {
  std::string group;
  const char* operation = "";
  std::int64_t number = 0, bytes = 0;
  int more = 0;  // that were launched with it
  std::function<std::string()> missing;  // "rank 1": who has not entered
  // "group tp all_reduce number 3, 4096 bytes", "… or one of the 11 behind it in a graph"
  std::string text() const;
};

// An operation that was queued.
class Flight {
 public:
  Flight(std::shared_ptr<Events> events, What what);
  ~Flight();
  void record(cudaStream_t stream);
  bool done();  // asks the event
  void synchronize();  // blocks the host
  cudaEvent_t event() const { return event_; }
  const What& what() const { return what_; }
  double age_s() const;

 private:
  std::shared_ptr<Events> events_;
  What what_;
  cudaEvent_t event_;
  std::atomic<bool> done_{false};
  std::chrono::steady_clock::time_point started_;
};

struct Fault {
  std::string message, where;
};

// Of this rank in a communicator.
struct Place {
  int rank = 0, size = 1;
};

class Domain;

class Link {
 public:
  // Begins to meet the other ranks; settle() waits for them.   needs  the same id and size on all
  //   pair  carries messages from its rank 0 to its rank 1 alone
  Link(Domain& domain, const ncclUniqueId& id, Place place, bool pair, const std::string& name);
  ~Link();
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  // Until the communicator is there, or what was called is on its way.   fails  Error{comm}, after timeout_s too
  void settle(ncclResult_t result, const char* call);
  // Calls of NCCL that are one operation, on stream(); settle() what comes back before anything else is called.
  //   calls  give ncclSuccess, ncclInProgress or an error
  ncclResult_t begin(const std::function<ncclResult_t(const Library&)>& calls);
  void issue(const char* call, const std::function<ncclResult_t(const Library&)>& calls);
  // As issue(), between ncclGroupStart and ncclGroupEnd.
  void issue_group(const char* call, const std::function<ncclResult_t(const Library&)>& calls);

  // What is queued here from now on comes after what `caller` holds.
  void start_after(const Stream& caller);
  // While a graph is captured the flight is part of it and nobody watches it.
  std::shared_ptr<Flight> take_off(What what);

  // Of a graph with operations of this link: `caller`, where it is launched, comes after what is queued here; and what is
  // queued here from now on comes after the graph, which is watched.
  void finish_before(const Stream& caller);
  void follow(const Stream& caller, What what);
  // In between nobody asks the stream how far it is.
  void begin_capture();
  void end_capture();

  Stream& stream() { return stream_; }
  cudaStream_t native() const { return static_cast<cudaStream_t>(stream_.native()); }
  ncclComm_t comm() const { return comm_; }
  int rank() const { return rank_; }
  int size() const { return size_; }
  bool is_pair() const { return pair_; }
  // Memory for what is queued here, until the next call.
  std::byte* scratch(std::size_t bytes);

  // Of the watching thread: why this link is lost, if it is.
  std::optional<Fault> fault(double timeout_s);
  bool is_busy();  // something was in flight when fault() looked
  void abort();

 private:
  void need_alive() const;
  void watch(std::shared_ptr<Flight> flight);
  Domain& domain_;
  int rank_, size_;
  bool pair_;
  std::string name_;
  Stream stream_;
  cudaEvent_t before_;
  Buffer scratch_;
  bool scratch_stays_ = false;            // a graph knows it
  std::vector<Buffer> scratch_of_graphs_;  // that became too small
  std::mutex mutex_;  // of what stands below
  ncclComm_t comm_ = nullptr;
  bool settling_ = true, aborted_ = false;
  std::deque<std::shared_ptr<Flight>> flights_;
};

}  // namespace mt::comm::nccl
