#include "ops/scratch_peak.h"

#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <new>

namespace {

std::atomic<std::size_t> g_held{0}, g_peak{0}, g_base{0};

void* take(std::size_t size, std::size_t align) {
  void* p = std::aligned_alloc(align, (size + align - 1) / align * align);
  if (p == nullptr) throw std::bad_alloc();
  const std::size_t now = g_held += ::malloc_usable_size(p);
  std::size_t peak = g_peak;
  while (now > peak && !g_peak.compare_exchange_weak(peak, now)) {
  }
  return p;
}

void give(void* p) {
  if (p == nullptr) return;
  g_held -= ::malloc_usable_size(p);
  std::free(p);
}

}  // namespace

// The program's aligned allocations, replaced.
void* operator new(std::size_t size, std::align_val_t align) { return take(size, static_cast<std::size_t>(align)); }
void operator delete(void* p, std::align_val_t) noexcept { give(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { give(p); }

namespace mt::test {

void scratch_peak_reset() {
  g_base = g_held.load();
  g_peak = g_held.load();
}
std::size_t scratch_peak() { return g_peak - g_base; }

}  // namespace mt::test
