// One block after another: its threads as fibers, barriers and exchanges among them.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include <pthread.h>
#include <sys/mman.h>

#include <boost/context/fiber.hpp>
#include <boost/context/protected_fixedsize_stack.hpp>

#include "emulation.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

namespace mt::emulation {

thread_local constinit Thread* self = nullptr;

void stop(const char* text) {
  std::fprintf(stderr, "emulated CUDA: %s\n", text);
  std::abort();
}

// A stack that runs threads of blocks, one at a time, and is used again.
struct Fiber {
  boost::context::fiber context;  // where it is, while it is not running
  const void* stack = nullptr;
  std::size_t stack_bytes = 0;
  void* fake = nullptr;  // the sanitizers' view of it
  void* tsan = nullptr;
};

namespace {

constexpr std::size_t kStackBytes = 256 * 1024;

struct Warp {
  unsigned arrived = 0;
};

class Runner {
 public:
  Runner();
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;
  void run(dim3 blocks, uint3 block, unsigned threads, std::size_t shared_bytes, const std::function<void()>& body);
  void exchange(Thread& t);
  int barrier(Thread& t);
  std::byte* shared() { return shared_; }
  bool near_shared(const void* address) const { return address >= map_ && address < map_ + map_bytes_; }
  [[noreturn]] void stuck(const char* reason);

 private:
  void work(Fiber& fiber);
  void to_scheduler(Fiber& fiber);
  void resume(Fiber& fiber);
  void wait(Thread& t);
  void wake(Thread& t);
  void end(Thread& t);
  void release_barrier(Thread* last);
  Fiber& idle_fiber();

  std::vector<Thread> threads_;
  std::vector<Warp> warps_;
  std::vector<unsigned> order_;
  std::deque<Thread*> ready_;
  std::size_t fresh_ = 0, ended_ = 0, at_barrier_ = 0;
  int votes_ = 0;
  const std::function<void()>* body_ = nullptr;

  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Fiber*> idle_;
  boost::context::fiber scheduler_;
  const void* scheduler_stack_ = nullptr;
  std::size_t scheduler_bytes_ = 0;
  void* scheduler_fake_ = nullptr;
  void* scheduler_tsan_ = nullptr;

  std::byte *map_ = nullptr, *shared_ = nullptr;
  std::size_t map_bytes_ = 0;
};

Runner::Runner() {
  const std::size_t page = 4096;
  map_bytes_ = (kMaxSharedBytes + page - 1) / page * page + 2 * page;
  map_ = static_cast<std::byte*>(mmap(nullptr, map_bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  if (map_ == MAP_FAILED || mprotect(map_ + page, map_bytes_ - 2 * page, PROT_READ | PROT_WRITE) != 0)
    stop("no memory for shared memory");
}

void Runner::resume([[maybe_unused]] Fiber& fiber) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(&scheduler_fake_, fiber.stack, fiber.stack_bytes);
#endif
#if defined(__SANITIZE_THREAD__)
  scheduler_tsan_ = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(fiber.tsan, 0);
#endif
  fiber.context = std::move(fiber.context).resume();
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(scheduler_fake_, nullptr, nullptr);
#endif
}

void Runner::to_scheduler([[maybe_unused]] Fiber& fiber) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(&fiber.fake, scheduler_stack_, scheduler_bytes_);
#endif
#if defined(__SANITIZE_THREAD__)
  __tsan_switch_to_fiber(scheduler_tsan_, 0);
#endif
  scheduler_ = std::move(scheduler_).resume();
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(fiber.fake, &scheduler_stack_, &scheduler_bytes_);
#endif
}

// A fiber is entered once while it is made. AddressSanitizer must not lay that frame on the fake stack of this thread, which
// may end long before the fiber: as if on the way from one stack to the other, it lays none.
class NoFakeFrames {
 public:
#if defined(__SANITIZE_ADDRESS__)
  explicit NoFakeFrames(void** fake) : fake_(fake) {
    pthread_attr_t attributes;
    void* stack = nullptr;
    std::size_t bytes = 0;
    if (pthread_getattr_np(pthread_self(), &attributes) != 0) stop("where the stack of a thread lies is not known");
    pthread_attr_getstack(&attributes, &stack, &bytes);
    pthread_attr_destroy(&attributes);
    __sanitizer_start_switch_fiber(fake_, stack, bytes);
  }
  ~NoFakeFrames() { __sanitizer_finish_switch_fiber(*fake_, nullptr, nullptr); }

 private:
  void** fake_;
#else
  explicit NoFakeFrames(void**) {}
#endif
};

Fiber& Runner::idle_fiber() {
  if (idle_.empty()) {
    fibers_.push_back(std::make_unique<Fiber>());
    Fiber& f = *fibers_.back();
    boost::context::protected_fixedsize_stack stacks(kStackBytes);
    boost::context::stack_context stack = stacks.allocate();
    f.stack = static_cast<const char*>(stack.sp) - stack.size;
    f.stack_bytes = stack.size;
#if defined(__SANITIZE_THREAD__)
    f.tsan = __tsan_create_fiber(0);
#endif
    const NoFakeFrames none(&scheduler_fake_);
    f.context = boost::context::fiber(std::allocator_arg, boost::context::preallocated(stack.sp, stack.size, stack),
                                      stacks, [this, &f](boost::context::fiber&& from) {
      scheduler_ = std::move(from);
#if defined(__SANITIZE_ADDRESS__)
      __sanitizer_finish_switch_fiber(nullptr, &scheduler_stack_, &scheduler_bytes_);
#endif
      for (;;) {
        work(f);
        idle_.push_back(&f);
        to_scheduler(f);
      }
      return std::move(scheduler_);
    });
    return f;
  }
  Fiber& f = *idle_.back();
  idle_.pop_back();
  return f;
}

// Fresh threads, one after the other, until one of them waits (then another fiber goes on) or none is left.
void Runner::work(Fiber& fiber) {
  while (fresh_ < order_.size()) {
    Thread& t = threads_[order_[fresh_++]];
    t.fiber = &fiber;
    t.state = Thread::State::running;
    self = &t;
    (*body_)();
    self = nullptr;
    end(t);
    if (seed() != 0 && !ready_.empty() && draw() % 4 == 0) return;
  }
}

void Runner::wait(Thread& t) {
  t.state = Thread::State::waiting;
  to_scheduler(*t.fiber);
}

void Runner::wake(Thread& t) {
  t.state = Thread::State::running;
  ready_.push_back(&t);
}

// `last` goes on by itself; null: a thread's end let the others go.
void Runner::release_barrier(Thread* last) {
  const Thread* first = nullptr;
  for (Thread& t : threads_) {
    if (t.state != Thread::State::waiting || !t.barrier) continue;
    if (first && (t.place.line() != first->place.line() || t.what != first->what))
      stuck("threads of a block are at different barriers");
    first = &t;
  }
  for (Thread& t : threads_) {
    if (t.state != Thread::State::waiting || !t.barrier) continue;
    t.vote = votes_;
    if (&t == last) t.state = Thread::State::running;
    else wake(t);
  }
  at_barrier_ = 0;
  votes_ = 0;
}

void Runner::end(Thread& t) {
  t.state = Thread::State::ended;
  ++ended_;
  if (at_barrier_ > 0 && at_barrier_ == threads_.size() - ended_) release_barrier(nullptr);
}

int Runner::barrier(Thread& t) {
  t.barrier = true;
  votes_ += t.vote;
  t.state = Thread::State::waiting;
  if (++at_barrier_ == threads_.size() - ended_) release_barrier(&t);
  else wait(t);
  return t.vote;
}

void Runner::exchange(Thread& t) {
  t.barrier = false;
  if ((t.mask >> t.lane & 1u) == 0) stuck("a thread is not in the mask that it gives");
  Warp& warp = warps_[t.warp];
  warp.arrived |= 1u << t.lane;
  t.state = Thread::State::waiting;
  if ((warp.arrived & t.mask) == t.mask) {
    std::vector<std::byte> all(32 * t.bytes, std::byte{kPoison});
    const unsigned first = t.warp * 32;
    for (unsigned lane = 0; lane < 32; ++lane) {
      if ((t.mask >> lane & 1u) == 0) continue;
      const Thread& other = threads_[first + lane];
      if (other.mask != t.mask || other.bytes != t.bytes || std::strcmp(other.what, t.what) != 0)
        stuck("lanes of a warp differ in what they exchange");
      if (t.bytes > 0) std::memcpy(all.data() + lane * t.bytes, other.mine, t.bytes);
    }
    for (unsigned lane = 0; lane < 32; ++lane) {
      if ((t.mask >> lane & 1u) == 0) continue;
      Thread& other = threads_[first + lane];
      if (t.bytes > 0) std::memcpy(other.all, all.data(), all.size());
      if (&other != &t) wake(other);
    }
    warp.arrived &= ~t.mask;
    t.state = Thread::State::running;
    return;
  }
  wait(t);
}

void Runner::stuck(const char* reason) {
  std::string text = reason;
  text += " in ";
  text += running();
  const auto state = [](const Thread& t) {
    if (t.state == Thread::State::ended) return std::string("ended");
    if (t.state == Thread::State::fresh) return std::string("not started");
    if (t.what == nullptr) return std::string("running");
    const char* file = std::strrchr(t.place.file_name(), '/');
    std::string s = t.state == Thread::State::waiting ? "at " : "last at ";
    s += std::string(t.what) + " (" + (file ? file + 1 : t.place.file_name()) + ":" + std::to_string(t.place.line()) + ")";
    if (!t.barrier && t.mask != ~0u) {
      char mask[24];
      std::snprintf(mask, sizeof mask, " mask %08x", t.mask);
      s += mask;
    }
    return s;
  };
  int listed = 0;
  for (std::size_t i = 0; i < threads_.size();) {
    std::size_t end = i + 1;
    while (end < threads_.size() && state(threads_[end]) == state(threads_[i])) ++end;
    if (++listed > 12) {
      text += "; ...";
      break;
    }
    text += "; thread";
    text += end - i > 1 ? "s " + std::to_string(i) + "-" + std::to_string(end - 1) : " " + std::to_string(i);
    text += " " + state(threads_[i]);
    i = end;
  }
  stop(text.c_str());
}

void Runner::run(dim3 blocks, uint3 block, unsigned threads, std::size_t shared_bytes,
                 const std::function<void()>& body) {
  threads_.assign(threads, Thread{});
  warps_.assign((threads + 31) / 32, Warp{});
  order_.resize(threads);
  ready_.clear();
  fresh_ = ended_ = at_barrier_ = 0;
  votes_ = 0;
  body_ = &body;
  for (unsigned i = 0; i < threads; ++i) {
    Thread& t = threads_[i];
    t.index = {i, 0, 0};
    t.block = block;
    t.threads = dim3(threads);
    t.blocks = blocks;
    t.linear = i;
    t.lane = i % 32;
    t.warp = i / 32;
    order_[i] = i;
  }
  if (seed() != 0)
    for (unsigned i = threads; i > 1; --i) std::swap(order_[i - 1], order_[draw() % i]);
  const std::size_t page = 4096;
  shared_ = map_ + map_bytes_ - page - (shared_bytes + 15) / 16 * 16;
  std::memset(shared_, kPoison, (shared_bytes + 15) / 16 * 16);

  while (ended_ < threads) {
    const bool fresh = fresh_ < order_.size();
    if (!ready_.empty() && (!fresh || (seed() != 0 && draw() % 2 == 0))) {
      if (seed() != 0) std::swap(ready_.front(), ready_[draw() % ready_.size()]);
      Thread* t = ready_.front();
      ready_.pop_front();
      self = t;
      resume(*t->fiber);
      self = nullptr;
    } else if (fresh) {
      resume(idle_fiber());
      self = nullptr;
    } else {
      stuck("threads wait for others that never come");
    }
  }
}

// One for all threads of the host: whoever runs work holds the lock of streams.cc. Never destroyed: its fibers stand in
// loops that do not end.
Runner& runner() {
  static Runner* const r = new Runner;
  return *r;
}

}  // namespace

std::byte* shared_memory() { return runner().shared(); }

bool near_shared_memory(const void* address) { return self && runner().near_shared(address); }

bool left_out(const Place& place) {
  static const std::string text = [] {
    const char* said = std::getenv("MT_EMULATION_LEAVE_OUT");
    return std::string(said ? said : "");
  }();
  if (text.empty()) return false;
  static const std::size_t colon = text.rfind(':');
  static const auto line = static_cast<unsigned>(std::strtoul(text.c_str() + colon + 1, nullptr, 10));
  if (place.line() != line) return false;
  const std::string_view file = place.file_name(), wanted = std::string_view(text).substr(0, colon);
  return file.ends_with(wanted) && file.substr(0, file.size() - wanted.size()).ends_with('/');
}

void warp_exchange(const void* mine, std::size_t bytes, void* all, unsigned mask, const char* what, Place place) {
  Thread& t = *self;
  t.mine = mine;
  t.bytes = bytes;
  t.all = all;
  t.mask = mask;
  t.what = what;
  t.place = place;
  runner().exchange(t);
}

int block_barrier(int vote, const char* what, Place place) {
  Thread& t = *self;
  t.vote = vote;
  t.what = what;
  t.place = place;
  return runner().barrier(t);
}

void run_blocks(dim3 blocks, unsigned threads, std::size_t shared_bytes, const std::function<void()>& body) {
  const std::uint64_t count = std::uint64_t{blocks.x} * blocks.y * blocks.z;
  // A stride that is coprime to the count visits every block once, in another order for every draw.
  std::uint64_t stride = 1, at = 0;
  if (seed() != 0 && count > 2) {
    const auto coprime = [count](std::uint64_t a) {
      std::uint64_t b = count;
      while (b != 0) a = std::exchange(b, a % b);
      return a == 1;
    };
    do stride = 1 + draw() % (count - 1);
    while (!coprime(stride));
    at = draw() % count;
  }
  for (std::uint64_t i = 0; i < count; ++i) {
    const uint3 block{static_cast<unsigned>(at % blocks.x), static_cast<unsigned>(at / blocks.x % blocks.y),
                      static_cast<unsigned>(at / blocks.x / blocks.y)};
    runner().run(blocks, block, threads, shared_bytes, body);
    at = (at + stride) % count;
  }
}

}  // namespace mt::emulation
