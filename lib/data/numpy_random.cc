#include "data/numpy_random.h"

#include <utility>

#include "base/error.h"

namespace mt::data {

namespace {
constexpr int kSize = 624, kMiddle = 397;
}

NumpyRandomState::NumpyRandomState(std::uint32_t seed) {
  state_[0] = seed;
  for (std::uint32_t i = 1; i < kSize; ++i) state_[i] = 1812433253u * (state_[i - 1] ^ (state_[i - 1] >> 30)) + i;
}

void NumpyRandomState::refill() {
  const auto at = [this](int i) -> std::uint32_t& { return state_[static_cast<std::size_t>(i)]; };
  for (int i = 0; i < kSize; ++i) {
    const std::uint32_t y = (at(i) & 0x80000000u) | (at((i + 1) % kSize) & 0x7fffffffu);
    at(i) = at((i + kMiddle) % kSize) ^ (y >> 1) ^ ((y & 1u) != 0 ? 0x9908b0dfu : 0u);
  }
  place_ = 0;
}

std::uint32_t NumpyRandomState::next() {
  if (place_ == kSize) refill();
  std::uint32_t y = state_[static_cast<std::size_t>(place_++)];
  y ^= y >> 11;
  y ^= (y << 7) & 0x9d2c5680u;
  y ^= (y << 15) & 0xefc60000u;
  return y ^ (y >> 18);
}

void NumpyRandomState::shuffle(std::span<std::uint32_t> values) {
  MT_CHECK(values.size() < 0xFFFFFFFFull, "{} elements", values.size());
  for (std::size_t i = values.size(); i-- > 1;) {
    const auto top = static_cast<std::uint32_t>(i);
    std::uint32_t mask = top;
    for (int shift = 1; shift < 32; shift *= 2) mask |= mask >> shift;
    std::uint32_t j = next() & mask;
    while (j > top) j = next() & mask;
    std::swap(values[i], values[j]);
  }
}

}  // namespace mt::data
