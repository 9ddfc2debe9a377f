#pragma once
// The part of numpy's legacy RandomState that Megatron's sample orders depend on: seeding and shuffle, bit for bit.
//
// Source: Matsumoto and Nishimura, "Mersenne Twister", 1998 (init_genrand, MT19937); numpy's shuffle is Fisher-Yates
// from the end, each index drawn by masking 32-bit outputs and rejecting those too large.
// Code: data/numpy_random.cc. Tests: tests/data/gpt_dataset_test.cc (values from numpy 1.24),
// tests/data/sample_order_test.cc (against the plain loops).

#include <array>
#include <cstdint>
#include <span>

namespace mt::data {

class NumpyRandomState {
 public:
  // RandomState(seed) with one 32-bit integer.
  explicit NumpyRandomState(std::uint32_t seed);

  // Next 32-bit output of the generator.
  std::uint32_t next() {
    if (place_ == kSize) refill();
    return output_[static_cast<std::size_t>(place_++)];
  }

  // shuffle(a): same order for any element type.
  //   needs  fewer than 2^32 elements (MT_CHECK)
  //   cost   1.4 draws an element and one exchange with a far place, which is fetched from memory some hundred exchanges
  //          ahead: about 15 ns an element where the array is much larger than the caches
  void shuffle(std::span<std::uint32_t> values);

 private:
  static constexpr int kSize = 624;
  void refill();
  std::array<std::uint32_t, kSize> state_, output_;
  int place_ = kSize;
};

}  // namespace mt::data
