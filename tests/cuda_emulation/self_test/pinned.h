#pragma once
// Numbers in pinned memory, which the host and the emulated device both see. Used by the self tests.

#include "device/buffer.h"

namespace mt::test {

inline constexpr Device kEmulatedDevice{DeviceKind::cuda, 0};

template <class T>
struct Pinned {
  Buffer buffer;
  explicit Pinned(std::size_t n) : buffer(kEmulatedDevice, n * sizeof(T), Memory::pinned) {}
  T* data() const { return reinterpret_cast<T*>(buffer.data()); }
  T& operator[](std::size_t i) const { return data()[i]; }
};

}  // namespace mt::test
