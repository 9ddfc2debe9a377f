#pragma once
// The emulated accelerator: what device code and the emulated libraries ask of it.
//
// The threads of a block are fibers of whichever thread of the host waits for them, one block at a time. A thread runs until it waits (at a
// barrier, or for its warp) or ends; one that never waits costs no switch. Streams run as late as events and
// synchronisation allow. MT_EMULATION_SEED above 0 shuffles the order of blocks and threads, and which of the streams
// that could run goes first.
// Found, with one line and an abort: barriers and warp exchanges that not everybody reaches, accesses beyond the end of
// an allocation or of shared memory, to memory given back, to another device's memory, and the host's to device memory.
// Code: block.cc, streams.cc, graphs.cc, devices.cc, memory.cc. Tests: self_test/.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <utility>

struct uint3 {
  unsigned x, y, z;
};
struct dim3 {
  unsigned x = 1, y = 1, z = 1;
  constexpr dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c) {}  // NOLINT: as CUDA's
};

namespace mt::emulation {

struct Queue;      // a stream
struct Moment;     // an event
struct Captured;   // work noted for a graph
struct Launchable; // a graph
struct Fiber;

// Where in the source; a default argument gives the caller's.
struct Place {
  const char* file = "";
  unsigned line_number = 0;
  static constexpr Place current(const char* f = __builtin_FILE(), unsigned l = __builtin_LINE()) { return {f, l}; }
  const char* file_name() const { return file; }
  unsigned line() const { return line_number; }
};

inline constexpr std::size_t kMaxSharedBytes = 227 * 1024;
inline constexpr unsigned char kPoison = 0xCB;

// One thread of the running block.
struct Thread {
  uint3 index{}, block{};
  dim3 threads, blocks;
  unsigned linear = 0, lane = 0, warp = 0;
  enum class State : std::uint8_t { fresh, running, waiting, ended } state = State::fresh;
  Fiber* fiber = nullptr;
  // What it waits for.
  const char* what = nullptr;
  Place place;
  bool barrier = false;
  unsigned mask = 0;
  const void* mine = nullptr;
  void* all = nullptr;
  std::size_t bytes = 0;
  int vote = 0;
};
extern thread_local constinit Thread* self;  // null outside kernels

// Every lane of `mask` gives `bytes` and gets those of all, lane j's at all + j·bytes; bytes of other lanes are poison.
// Returns when the whole mask came. Lanes that ended or wait elsewhere: one message, abort.
void warp_exchange(const void* mine, std::size_t bytes, void* all, unsigned mask = ~0u,
                   const char* what = "warp_exchange", Place place = Place::current());

// Returns when all threads that have not ended came; gives the sum of `vote` over them.
int block_barrier(int vote, const char* what, Place place);

// Whether MT_EMULATION_LEAVE_OUT ("reduce.h:37") names this place: the barrier or wait there is then not carried out.
bool left_out(const Place& place);

// The block's dynamic shared memory, poisoned when the block starts.
std::byte* shared_memory();

// Stops where a word of a kernel's argument is an address of ordinary host memory, which no device reaches. Padding may
// hold anything, so it is cleared first; compilers that cannot do without the check.
void check_words(const void* value, std::size_t bytes, Place place);
template <class T>
void check_argument([[maybe_unused]] T& value, [[maybe_unused]] Place place) {
#if __has_builtin(__builtin_clear_padding)
  __builtin_clear_padding(&value);
  check_words(&value, sizeof value, place);
#endif
}

// Host work in the order of the stream, with the memory of its device open.
void queue(Queue* stream, std::function<void()> work, const char* what = "work of a library",
           Place place = Place::current());

// The running work of a stream took so long: what events on either side of it tell apart. Nothing else takes any time.
void pass_time(double ms);
// Work of a stream that ends only when other streams got to their part of it: a collective of several ranks.
class Together {
 public:
  virtual ~Together() = default;
  // Called at the front of the stream, again and again. Does what can be done; true when nothing is left.
  virtual bool advance() = 0;
  // Nobody needs it any more, whatever other streams do.
  virtual bool given_up() const { return false; }
  // Noted for a graph: the same work once more, of a launch.
  virtual std::shared_ptr<Together> again() = 0;

  std::shared_ptr<Queue> stream;  // and where it stands in it, once it is queued
  std::uint64_t before = 0;
};
void queue_together(Queue* stream, std::shared_ptr<Together> work, Place place);
// For `wanting`: runs what stands before `work` in its stream, until that is given up; false then. Threads of the host may
// go on meanwhile.
bool bring_to_front(const Together& work, const Together& wanting);
void with_devices_open(std::initializer_list<const Together*> works, const char* what, const std::function<void()>& body);
// Alone on the emulated machine; whoever waits looks again afterwards.
void on_machine(const std::function<void()>& body);
int device_of(Queue* stream);
bool is_captured(Queue* stream);  // what is queued there is noted for a graph

// Calls of this thread that wait on the host, or may in a real runtime, since it last asked, by name.
std::map<std::string, int> take_host_waits();

// 0, or the cudaError_t of a launch that hardware would refuse.
int queue_kernel(Queue* stream, dim3 blocks, unsigned threads, std::size_t shared_bytes, std::function<void()> body,
                 Place place);

// ---- between the emulation's own files ----------------------------------------------------------------------------
// A whole number the environment says; stops where it says something else.
std::size_t from_environment(const char* name, std::size_t otherwise);
[[noreturn]] void stop(const char* text);  // one line on stderr, then abort
void run_blocks(dim3 blocks, unsigned threads, std::size_t shared_bytes, const std::function<void()>& body);
// "the kernel launched at FILE:LINE, block (0, 0, 0), thread 5", or what else is running; empty outside
const char* running();
void set_running(const char* what, Place place);  // null: nothing

std::uint64_t seed();
std::uint64_t draw();  // of the calling thread's generator

int device_count();
void* allocate(int device, std::size_t bytes);  // device −1: pinned memory; null when short
bool release(int device, void* data);           // false: nothing of that kind starts there
std::size_t device_bytes_free(int device);
std::size_t device_bytes();
void open_device(int device);
void close_device(int device);
void check_red_zones();
bool near_shared_memory(const void* address);   // of the running block, or the pages around it
bool is_emulated_memory(const void* data);  // a device's, or pinned
bool is_device_memory(const void* data, int* device);

}  // namespace mt::emulation
