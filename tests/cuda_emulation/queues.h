#pragma once
// Streams, events and graphs of the emulation, between its own files.
//
// Whoever touches them holds the machine (Lock). Code: streams.cc, graphs.cc, devices.cc.

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <string>
#include <thread>

#include "cuda_runtime.h"

namespace mt::emulation {

// An entry is work, or a point of another stream to get to first, or work together with other streams.
struct Entry {
  std::function<void()> work;
  const char* what = nullptr;
  Place place;
  std::shared_ptr<Queue> other;
  std::uint64_t until = 0;
  std::shared_ptr<Together> together;
  bool busy = false;  // somebody moves it on right now
};

// An entry of one of a graph's streams, 0 the one it is captured from and launched on.
struct Node {
  int branch;
  Entry entry;
  int other = -1;  // it waits for this one to get to `until`
  std::uint64_t until = 0;
};
using Lengths = std::vector<std::uint64_t>;  // by branch

struct Captured {
  std::vector<Node> nodes;
  std::vector<std::shared_ptr<Queue>> streams;
  std::vector<Lengths> seen;  // by branch: how far of every other one it comes after; of itself, its length
  bool broken = false;        // something happened that may not be noted
  bool over = false;
};
struct Launchable {
  std::vector<Node> nodes;
  std::vector<std::shared_ptr<Queue>> branches;  // beside the first, which is where it is launched
};

struct Queue : std::enable_shared_from_this<Queue> {
  int device = 0, priority = 0;
  std::shared_ptr<Captured> capture;  // null: work is queued
  int branch = 0;                     // of it
  std::deque<Entry> entries;
  std::uint64_t pushed = 0, done = 0;
  double clock_ms = 0;  // what its work was said to take
};

struct Moment {
  std::shared_ptr<Queue> stream;
  std::uint64_t ordinal = 0;
  int asked = 0;  // how often a query was told "not yet"
  std::shared_ptr<double> ms;  // of an event that takes the time: its stream's clock
  std::shared_ptr<Captured> capture;  // of one that was recorded where work was noted
  int branch = 0;
  Lengths seen;
};

// One emulated machine: whoever runs work holds it, and lets go of it only while work waits for other threads of the host.
class Machine {
 public:
  void lock() {
    std::unique_lock held(mutex_);
    if (owner_ == std::this_thread::get_id()) {
      ++depth_;
      return;
    }
    take(held, 1);
  }
  void unlock() {
    const std::lock_guard held(mutex_);
    if (--depth_ == 0) let_go();
  }
  // Other threads may do anything meanwhile.
  void wait_for_news() {
    std::unique_lock held(mutex_);
    const int depth = depth_;
    depth_ = 0;
    let_go();
    news_.wait_for(held, std::chrono::milliseconds(2));
    take(held, depth);
  }
  void tell_news() { news_.notify_all(); }

 private:
  void take(std::unique_lock<std::mutex>& held, int depth) {
    free_.wait(held, [this] { return depth_ == 0; });
    owner_ = std::this_thread::get_id();
    depth_ = depth;
  }
  void let_go() {
    owner_ = {};
    free_.notify_one();
  }
  std::mutex mutex_;
  std::condition_variable free_, news_;
  std::thread::id owner_;
  int depth_ = 0;
};

struct Streams {
  Machine mutex;
  std::vector<std::shared_ptr<Queue>> all;
};
Streams& streams();
using Lock = std::lock_guard<Machine>;

cudaError_t say(cudaError_t error);  // what cudaGetLastError gives from now on, unless it is none
int& current_device();               // of this thread
void waits(const char* call);        // this thread waits on the host, or might

std::shared_ptr<Queue> make_queue(int device);
void push(Queue& q, Entry entry);
void run_until(Queue& q, std::uint64_t ordinal);

// The stream whose work this thread notes, null when it does not.
Queue*& capturing();
// Something happened that may not be noted, on the stream `of` or by this thread.
cudaError_t break_capture(Queue* of = nullptr, cudaError_t error = cudaErrorStreamCaptureUnsupported);
void note(Queue& q, Node node);
// `q` comes after an event of a capture: it is noted there from now on.
cudaError_t note_wait(Queue& q, const Moment& event);
void note_event(Queue& q, Moment& event);

}  // namespace mt::emulation
