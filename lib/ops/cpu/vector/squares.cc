#include "ops/cpu/vector/kernels.h"

namespace mt::ops::cpu::MT_ISA {

namespace {

typedef double Wide __attribute__((vector_size(64)));
typedef float Narrow __attribute__((vector_size(32)));
typedef float UnalignedNarrow __attribute__((vector_size(32), aligned(4), may_alias));

constexpr int kLowest = -298;  // exponent of digit 0's lowest bit

// digits += value·2^exponent. What would fall below digit 0 is zero: every square is a multiple of 2^kLowest.
MT_LANES void add_scaled(std::int64_t value, int exponent, std::int64_t* digits) {
  if (value == 0) return;
  const bool negative = value < 0;
  auto size = static_cast<std::uint64_t>(negative ? -value : value);
  int at = exponent - kLowest;
  if (at < 0) {
    size >>= -at;
    at = 0;
  }
  const int digit = at / 32, bit = at % 32;
  const std::uint64_t low = (size & 0xffffffffu) << bit, high = (size >> 32) << bit;
  const auto d0 = static_cast<std::int64_t>(low & 0xffffffffu),
             d1 = static_cast<std::int64_t>((low >> 32) + (high & 0xffffffffu)),
             d2 = static_cast<std::int64_t>(high >> 32);
  digits[digit] += negative ? -d0 : d0;
  digits[digit + 1] += negative ? -d1 : d1;
  digits[digit + 2] += negative ? -d2 : d2;
}

// Any numbers, one by one, by exponent: squares of mantissas are below 2^48, so 2^15 of them fit a slot. Four tables,
// because neighbours often share an exponent and would wait for each other's store.
Count add_by_exponent(const float* x, Count n, std::int64_t* digits) {
  std::uint64_t slots[4][256];
  __builtin_memset(slots, 0, sizeof slots);
  for (Count i = 0; i < n; ++i) {
    const std::uint32_t u = std::bit_cast<std::uint32_t>(x[i]), e = (u >> 23) & 255u;
    const std::uint64_t m = (u & 0x7fffffu) | (e != 0 ? 0x800000u : 0u);
    slots[i & 3][e] += e == 255 ? 1 : m * m;
  }
  for (int e = 0; e < 255; ++e)
    add_scaled(static_cast<std::int64_t>(slots[0][e] + slots[1][e] + slots[2][e] + slots[3][e]),
               2 * ((e == 0 ? 1 : e) - 1) + kLowest, digits);
  return static_cast<Count>(slots[0][255] + slots[1][255] + slots[2][255] + slots[3][255]);
}

// Adding and taking away 1.5·2^(52 + unit) leaves the part of a number that is a multiple of 2^unit, exactly.
MT_LANES double grid(int unit) {
  return std::bit_cast<double>((std::uint64_t{52} + 1023 + static_cast<std::uint64_t>(unit)) << 52) * 1.5;
}

struct Levels {
  Wide sum[3], grid[3], rest;
  MT_LANES void add(Levels& l, Narrow x) {
    const Wide d = __builtin_convertvector(x, Wide);
    Wide left = d * d;  // exact: 48 bits
    for (int i = 0; i < 3; ++i) {
      const Wide part = (left + l.grid[i]) - l.grid[i];
      l.sum[i] += part;
      left -= part;
    }
    l.rest += left * left;  // stays zero exactly when nothing was left over
  }
};

}  // namespace

// Squares are cut into three parts on fixed grids below the largest; each part adds up exactly in f64 because it has
// few bits. Where a number is so small that the grids do not reach its last bit, the block goes one by one.
Count add_squares(const float* x, Count n, std::int64_t* digits) {
  std::uint32_t largest = 0;
  for (Count i = 0; i < n; ++i) {
    const std::uint32_t u = std::bit_cast<std::uint32_t>(x[i]) & 0x7fffffffu;
    largest = u > largest ? u : largest;
  }
  if (largest == 0) return 0;
  if (largest >= 0x7f800000u || n < 64) return add_by_exponent(x, n, digits);

  // Every square is below 2^top. A lane adds at most 2^12 of them (n ≤ 2^15), so 41 bits and 12 fit a double.
  const int e = static_cast<int>(largest >> 23), top = 2 * ((e == 0 ? 1 : e) - 127) + 2;
  const int units[3] = {top - 41, top - 82, top - 123};
  Levels l;
  for (int i = 0; i < 3; ++i) {
    l.sum[i] = Wide{};
    l.grid[i] = Wide{} + grid(units[i]);
  }
  l.rest = Wide{};
  Count i = 0;
  for (; i + 8 <= n; i += 8) Levels::add(l, *reinterpret_cast<const UnalignedNarrow*>(x + i));
  Narrow tail = {};
  for (Count t = 0; i + t < n; ++t) tail[t] = x[i + t];
  Levels::add(l, tail);

  double rest = 0;
  for (int lane = 0; lane < 8; ++lane) rest += l.rest[lane];
  if (rest != 0) return add_by_exponent(x, n, digits);
  for (int level = 0; level < 3; ++level) {
    const double unit = std::bit_cast<double>(static_cast<std::uint64_t>(1023 - units[level]) << 52);
    std::int64_t sum = 0;
    for (int lane = 0; lane < 8; ++lane) sum += static_cast<std::int64_t>(l.sum[level][lane] * unit);
    add_scaled(sum, units[level], digits);
  }
  return 0;
}

}  // namespace mt::ops::cpu::MT_ISA
