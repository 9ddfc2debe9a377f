#pragma once
// Philox4x32-10: random numbers as a pure function of (key, counter), so a value depends on its place, never on order.
//
// Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC11. Known-answer vectors are in the test.
// Code: header only. Tests: tests/base/philox_test.cc.

#include <array>
#include <cstdint>

#include "base/dtype.h"

namespace mt {

struct PhiloxKey {
  std::uint32_t k0, k1;
};

// Four 32-bit words for one 128-bit counter.   cost  40 multiplications
MT_HD inline std::array<std::uint32_t, 4> philox(PhiloxKey key, std::uint32_t c0, std::uint32_t c1, std::uint32_t c2,
                                                 std::uint32_t c3) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = 0xD2511F53ull * c0, p1 = 0xCD9E8D57ull * c2;
    const auto hi0 = static_cast<std::uint32_t>(p0 >> 32), lo0 = static_cast<std::uint32_t>(p0);
    const auto hi1 = static_cast<std::uint32_t>(p1 >> 32), lo1 = static_cast<std::uint32_t>(p1);
    c0 = hi1 ^ c1 ^ key.k0;
    c1 = lo1;
    c2 = hi0 ^ c3 ^ key.k1;
    c3 = lo0;
    key.k0 += 0x9E3779B9u;
    key.k1 += 0xBB67AE85u;
  }
  return {c0, c1, c2, c3};
}

// Uniform in [0, 1) with 24 bits, exact in f32.
MT_HD inline float uniform_f32(std::uint32_t word) { return static_cast<float>(word >> 8) * 0x1p-24f; }

// What a stream of random numbers is for; part of the key, so two purposes never share bits. Values are stored in
// nobody's file but change every run if renumbered: append only.
enum class Purpose : std::uint32_t { init = 1, hidden_dropout = 2, attention_dropout = 3, shuffle = 4, sampling = 5 };

// Key of (seed, purpose, name hash): mixes 64 + 32 + 64 bits to 64 by splitmix64 steps.
PhiloxKey make_key(std::uint64_t seed, Purpose purpose, std::uint64_t name_hash);

// The standard normal value of a uniform word pair, by the inverse CDF with IEEE-exact operations only (+, -, *, /,
// sqrt): the same bits on every host, no libm.  Relative error of the quantile below 2e-9 (Acklam's rational
// approximation, one exact evaluation; the logarithm of the tails is our own exact-operation series).
double normal_from_bits(std::uint64_t bits53);

}  // namespace mt
