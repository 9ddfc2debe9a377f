#include "base/philox.h"

#include <bit>
#include <cmath>

namespace mt {

namespace {

std::uint64_t splitmix64(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

// Natural logarithm of a normal positive double: split off the exponent, then 2 atanh(s) of the mantissa as a series
// in s <= 0.172, whose 13th term is below 1e-20.
double exact_log(double x) {
  std::uint64_t bits = std::bit_cast<std::uint64_t>(x);
  int exponent = static_cast<int>(bits >> 52) - 1023;
  bits = (bits & 0x000fffffffffffffull) | 0x3ff0000000000000ull;
  double m = std::bit_cast<double>(bits);
  if (m > 1.4142135623730951) {
    m *= 0.5;
    ++exponent;
  }
  const double s = (m - 1.0) / (m + 1.0), s2 = s * s;
  double sum = 0.0;
  for (int k = 25; k >= 1; k -= 2) sum = sum * s2 + 1.0 / k;
  return exponent * 0.6931471805599453 + 2.0 * s * sum;
}

// P. J. Acklam's rational approximations: p < 0.02425 from q = sqrt(-2 log p), else from p - 1/2.
double lower_half_quantile(double p) {
  if (p < 0.02425) {
    const double q = std::sqrt(-2.0 * exact_log(p));
    const double n = ((((-7.784894002430293e-03 * q - 3.223964580411365e-01) * q - 2.400758277161838e+00) * q -
                       2.549732539343734e+00) * q + 4.374664141464968e+00) * q + 2.938163982698783e+00;
    const double d = (((7.784695709041462e-03 * q + 3.224671290700398e-01) * q + 2.445134137142996e+00) * q +
                      3.754408661907416e+00) * q + 1.0;
    return n / d;
  }
  const double q = p - 0.5, r = q * q;
  const double n = ((((-3.969683028665376e+01 * r + 2.209460984245205e+02) * r - 2.759285104469687e+02) * r +
                     1.383577518672690e+02) * r - 3.066479806614716e+01) * r + 2.506628277459239e+00;
  const double d = ((((-5.447609879822406e+01 * r + 1.615858368580409e+02) * r - 1.556989798598866e+02) * r +
                     6.680131188771972e+01) * r - 1.328068155288572e+01) * r + 1.0;
  return n * q / d;
}

}  // namespace

PhiloxKey make_key(std::uint64_t seed, Purpose purpose, std::uint64_t name_hash) {
  std::uint64_t k = splitmix64(seed);
  k = splitmix64(k ^ static_cast<std::uint64_t>(purpose));
  k = splitmix64(k ^ name_hash);
  return {static_cast<std::uint32_t>(k), static_cast<std::uint32_t>(k >> 32)};
}

double normal_from_bits(std::uint64_t bits53) {
  // The middle of one of 2^53 equal cells. Folding at one half keeps (m + 1/2) exact and the result odd.
  const std::uint64_t bits = bits53 & ((1ull << 53) - 1), half = 1ull << 52;
  const bool upper = bits >= half;
  const std::uint64_t m = upper ? 2 * half - 1 - bits : bits;
  const double x = lower_half_quantile((static_cast<double>(m) + 0.5) * 0x1p-53);
  return upper ? -x : x;
}

}  // namespace mt
