#pragma once
// The part of numpy's legacy RandomState that Megatron's sample orders depend on: seeding and shuffle, bit for bit.
//
// Source: Matsumoto and Nishimura, "Mersenne Twister", 1998 (init_genrand, MT19937); numpy's shuffle is Fisher-Yates
// from the end, each index drawn by masking 32-bit outputs and rejecting those too large.
// Code: data/numpy_random.cc. Tests: tests/data/gpt_dataset_test.cc (values from numpy 1.24).

#include <array>
#include <cstdint>
#include <span>

namespace mt::data {

class NumpyRandomState {
 public:
  // RandomState(seed) with one 32-bit integer.
  explicit NumpyRandomState(std::uint32_t seed);

  // Next 32-bit output of the generator.
  std::uint32_t next();

  // shuffle(a): same order for any element type.   needs  fewer than 2^32 elements (MT_CHECK)
  void shuffle(std::span<std::uint32_t> values);

 private:
  void refill();
  std::array<std::uint32_t, 624> state_;
  int place_ = 624;
};

}  // namespace mt::data
