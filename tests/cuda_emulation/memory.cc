// Memory of the emulated devices: each allocation ends at a page nobody may touch, and opens only while its device works.
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <vector>

#include <sys/mman.h>

#include "emulation.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace mt::emulation {

namespace {

constexpr std::size_t kPage = 4096, kBorder = 256;  // allocations start at multiples of kBorder
constexpr std::size_t kQuarantine = 2048;           // ranges given back whose addresses are not used again

// Two small numbers side by side are no address, though the sanitizer's own memory lies where they would point.
bool is_shadow([[maybe_unused]] std::uintptr_t word) {
#if defined(__SANITIZE_ADDRESS__)
  return word >= 0x7fff8000u && word < 0x10007fff8000u;
#else
  return false;
#endif
}

struct Range {
  std::byte* map;
  std::size_t map_bytes;
  std::byte* data;
  std::size_t bytes;
  int device;
  bool given_back = false;
  std::size_t slack() const { return static_cast<std::size_t>(map + map_bytes - kPage - (data + bytes)); }
};

struct State {
  std::mutex mutex;
  std::map<std::byte*, Range> ranges;  // by map
  std::deque<std::byte*> quarantine;
  std::vector<std::vector<Range>> live;  // by device, those not given back
  std::vector<Range> with_slack;         // of any device or pinned, not given back
  std::vector<int> open;
  std::vector<std::size_t> used;
  struct sigaction before {};
};

State& state() {
  static auto& s = *new State;
  return s;
}

Range* find(State& s, const void* address) {
  auto* p = const_cast<std::byte*>(static_cast<const std::byte*>(address));
  auto at = s.ranges.upper_bound(p);
  if (at == s.ranges.begin()) return nullptr;
  --at;
  return p < at->second.map + at->second.map_bytes ? &at->second : nullptr;
}

void explain(const Range& r, const std::byte* address) {
  char owner[32], text[512];
  if (r.device < 0) std::snprintf(owner, sizeof owner, "pinned memory");
  else std::snprintf(owner, sizeof owner, "memory of cuda:%d", r.device);
  const char* who = running();
  const bool outside = *who == '\0';
  if (r.given_back)
    std::snprintf(text, sizeof text, "%s touches %s that was given back (%zu bytes)", outside ? "the host" : who, owner,
                  r.bytes);
  else if (address >= r.data + r.bytes)
    std::snprintf(text, sizeof text, "%s touches %s %td bytes past the end of an allocation of %zu bytes",
                  outside ? "the host" : who, owner, address - (r.data + r.bytes), r.bytes);
  else if (address < r.data)
    std::snprintf(text, sizeof text, "%s touches %s %td bytes before an allocation of %zu bytes",
                  outside ? "the host" : who, owner, r.data - address, r.bytes);
  else if (outside)
    std::snprintf(text, sizeof text, "the host touches %s, byte %td of an allocation of %zu; copy_bytes() brings it", owner,
                  address - r.data, r.bytes);
  else
    std::snprintf(text, sizeof text, "%s touches %s, which is another device's", who, owner);
  stop(text);
}

void on_fault(int signal, siginfo_t* info, void* context) {
  State& s = state();
  if (near_shared_memory(info->si_addr)) {
    char text[512];
    std::snprintf(text, sizeof text, "%s touches memory outside the block's shared memory", running());
    stop(text);
  }
  if (s.mutex.try_lock()) {
    if (const Range* r = find(s, info->si_addr)) explain(*r, static_cast<const std::byte*>(info->si_addr));
    s.mutex.unlock();
  }
  if (s.before.sa_flags & SA_SIGINFO) return s.before.sa_sigaction(signal, info, context);
  ::signal(SIGSEGV, SIG_DFL);  // the access comes again
}

void install() {
  static const bool once = [] {
    struct sigaction action {};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    sigaction(SIGSEGV, &action, &state().before);
    return true;
  }();
  (void)once;
}

void protect(const Range& r, int how) {
  if (mprotect(r.map, r.map_bytes - kPage, how) != 0) stop("mprotect failed; vm.max_map_count may be too low");
}

void check_red_zone(const Range& r) {
  const std::byte* end = r.data + r.bytes;
  for (std::size_t i = 0; i < r.slack(); ++i)
    if (end[i] != std::byte{kPoison}) {
      char text[512];
      const char* who = running();
      std::snprintf(text, sizeof text, "%s wrote %zu bytes past the end of an allocation of %zu bytes",
                    *who ? who : "somebody", i, r.bytes);
      stop(text);
    }
}

}  // namespace

std::size_t from_environment(const char* name, std::size_t otherwise) {
  const char* text = std::getenv(name);
  if (!text || !*text) return otherwise;
  char* end = nullptr;
  const auto value = std::strtoull(text, &end, 10);
  if (*end != '\0' || *text < '0' || *text > '9') {
    char line[256];
    std::snprintf(line, sizeof line, "%s is '%s' in the environment, wanted a whole number", name, text);
    stop(line);
  }
  return value;
}

int device_count() {
  const int there = static_cast<int>(std::min<std::size_t>(from_environment("MT_EMULATION_DEVICES", 8), 64));
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  if (!visible) return there;
  if (*visible == '\0' || *visible == '-') return 0;
  return std::min(there, 1 + static_cast<int>(std::count(visible, visible + std::strlen(visible), ',')));
}

std::size_t device_bytes() { return from_environment("MT_EMULATION_MEMORY", std::size_t{64} << 30); }

std::size_t device_bytes_free(int device) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  const auto i = static_cast<std::size_t>(device);
  return device_bytes() - (i < s.used.size() ? s.used[i] : 0);
}

void* allocate(int device, std::size_t bytes) {
  install();
  if (bytes > (device < 0 ? SIZE_MAX / 2 : device_bytes())) return nullptr;
  State& s = state();
  const std::lock_guard lock(s.mutex);
  const auto i = static_cast<std::size_t>(std::max(device, 0));
  if (s.open.size() <= i) {
    s.open.resize(i + 1);
    s.used.resize(i + 1);
    s.live.resize(i + 1);
  }
  if (device >= 0 && s.used[i] + bytes > device_bytes()) return nullptr;
  const std::size_t rounded = (std::max<std::size_t>(bytes, 1) + kBorder - 1) / kBorder * kBorder;
  const std::size_t inside = (rounded + kPage - 1) / kPage * kPage, map_bytes = inside + kPage;
  void* map = mmap(nullptr, map_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (map == MAP_FAILED) return nullptr;
  auto* base = static_cast<std::byte*>(map);
  Range r{base, map_bytes, base + inside - rounded, bytes, device};
  protect(r, PROT_READ | PROT_WRITE);
  std::memset(r.data + r.bytes, kPoison, r.slack());
  if (device >= 0) {
    s.used[i] += bytes;
    // cudaMalloc promises nothing of the content.
    std::memset(r.data, kPoison, std::min<std::size_t>(bytes, 1 << 16));
    if (s.open[i] == 0) protect(r, PROT_NONE);
  }
  s.ranges[base] = r;
  if (device >= 0) s.live[i].push_back(r);
  if (r.slack() > 0) s.with_slack.push_back(r);
  return r.data;
}

bool release(int device, void* data) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  Range* r = find(s, data);
  if (!r || r->data != data || r->given_back || (r->device < 0) != (device < 0)) return false;
  protect(*r, PROT_READ | PROT_WRITE);
  check_red_zone(*r);
  madvise(r->map, r->map_bytes, MADV_DONTNEED);
  protect(*r, PROT_NONE);
  r->given_back = true;
  const auto drop = [r](std::vector<Range>& v) { std::erase_if(v, [r](const Range& x) { return x.map == r->map; }); };
  if (r->device >= 0) drop(s.live[static_cast<std::size_t>(r->device)]);
  drop(s.with_slack);
  if (r->device >= 0) s.used[static_cast<std::size_t>(r->device)] -= r->bytes;
  s.quarantine.push_back(r->map);
  if (s.quarantine.size() > kQuarantine) {
    const Range& old = s.ranges[s.quarantine.front()];
    munmap(old.map, old.map_bytes);
    s.ranges.erase(s.quarantine.front());
    s.quarantine.pop_front();
  }
  return true;
}

void open_device(int device) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  const auto i = static_cast<std::size_t>(device);
  if (s.open.size() <= i) {
    s.open.resize(i + 1);
    s.used.resize(i + 1);
    s.live.resize(i + 1);
  }
  if (s.open[i]++ > 0) return;
  for (const Range& r : s.live[i]) protect(r, PROT_READ | PROT_WRITE);
}

void close_device(int device) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  const auto i = static_cast<std::size_t>(device);
  if (--s.open[i] > 0) return;
  for (const Range& r : s.live[i]) protect(r, PROT_NONE);
}

// Of everything that is open now.
void check_red_zones() {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  for (const Range& r : s.with_slack)
    if (r.device < 0 || s.open[static_cast<std::size_t>(r.device)] > 0) check_red_zone(r);
}

void check_words(const void* values, std::size_t bytes, Place place) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  for (std::size_t i = 0; i + sizeof(std::uintptr_t) <= bytes; i += sizeof(std::uintptr_t)) {
    std::uintptr_t word;
    std::memcpy(&word, static_cast<const std::byte*>(values) + i, sizeof word);
    if (word < kPage || word >> 47 != 0 || is_shadow(word)) continue;
    auto* page = reinterpret_cast<void*>(word / kPage * kPage);  // NOLINT: an address or not is the question
    if (find(s, reinterpret_cast<const void*>(word)) || msync(page, kPage, MS_ASYNC) != 0) continue;
    char text[512];
    const char* slash = std::strrchr(place.file_name(), '/');
    std::snprintf(text, sizeof text, "the kernel of %s:%u is given an address of the host's, at byte %zu of an argument",
                  slash ? slash + 1 : place.file_name(), place.line(), i);
    stop(text);
  }
}

bool is_emulated_memory(const void* data) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  return find(s, data) != nullptr;
}

bool is_device_memory(const void* data, int* device) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  const Range* r = find(s, data);
  if (!r || r->device < 0) return false;
  *device = r->device;
  return true;
}

}  // namespace mt::emulation
