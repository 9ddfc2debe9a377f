#include "data/numpy_random.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/error.h"

namespace mt::data {

namespace {

constexpr std::size_t kN = 624, kMiddle = 397;

std::uint32_t twisted(std::uint32_t high, std::uint32_t low) {
  const std::uint32_t y = (high & 0x80000000u) | (low & 0x7fffffffu);
  return (y >> 1) ^ ((0u - (y & 1u)) & 0x9908b0dfu);
}

std::uint32_t tempered(std::uint32_t y) {
  y ^= y >> 11;
  y ^= (y << 7) & 0x9d2c5680u;
  y ^= (y << 15) & 0xefc60000u;
  return y ^ (y >> 18);
}

}  // namespace

NumpyRandomState::NumpyRandomState(std::uint32_t seed) {
  state_[0] = seed;
  for (std::uint32_t i = 1; i < kN; ++i) state_[i] = 1812433253u * (state_[i - 1] ^ (state_[i - 1] >> 30)) + i;
}

// Loops without a remainder and without a branch, so that they become vector code.
void NumpyRandomState::refill() {
  auto& s = state_;
  for (std::size_t i = 0; i < kN - kMiddle; ++i) s[i] = s[i + kMiddle] ^ twisted(s[i], s[i + 1]);
  for (std::size_t i = kN - kMiddle; i < kN - 1; ++i) s[i] = s[i + kMiddle - kN] ^ twisted(s[i], s[i + 1]);
  s[kN - 1] = s[kMiddle - 1] ^ twisted(s[kN - 1], s[0]);
  for (std::size_t i = 0; i < kN; ++i) output_[i] = tempered(s[i]);
  place_ = 0;
}

// The draws do not depend on the values, so a block of them is made first and the places it names are asked of memory;
// the exchanges themselves stay in order.
void NumpyRandomState::shuffle(std::span<std::uint32_t> values) {
  constexpr std::size_t kBlock = 256;
  MT_CHECK(values.size() < 0xFFFFFFFFull, "{} elements", values.size());
  std::array<std::uint32_t, kBlock + 1> drawn;  // one more for a draw that is not kept
  std::size_t left = values.size();             // elements that are not in place yet
  while (left > 1) {
    const std::size_t block = std::min(kBlock, left - 1);
    std::size_t k = 0;
    while (k < block) {
      if (place_ == kSize) refill();
      int place = place_;  // kept out of memory, which the draws below might be
      for (; place < kSize && k < block; ++place) {
        const auto top = static_cast<std::uint32_t>(left - 1 - k);
        const std::uint32_t j = output_[static_cast<std::size_t>(place)] & (0xFFFFFFFFu >> std::countl_zero(top));
        drawn[k] = j;
        k += j <= top ? 1 : 0;
      }
      place_ = place;
    }
    for (std::size_t i = 0; i < block; ++i) __builtin_prefetch(&values[drawn[i]], 1);
    for (std::size_t i = 0; i < block; ++i) std::swap(values[left - 1 - i], values[drawn[i]]);
    left -= block;
  }
}

}  // namespace mt::data
