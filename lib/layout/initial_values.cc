#include "layout/initial_values.h"

#include <algorithm>

#include "base/error.h"
#include "base/hash.h"
#include "base/philox.h"

namespace mt {

namespace {

// One Philox block gives the values of elements 2b and 2b+1.
double draw(PhiloxKey key, std::uint64_t element) {
  const std::uint64_t block = element / 2;
  const auto w = philox(key, static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32), 0, 0);
  const std::size_t half = element % 2 * 2;
  return normal_from_bits((std::uint64_t{w[half + 1]} << 32 | w[half]) >> 11);
}

}  // namespace

void initial_values(const Piece& piece, std::uint64_t seed, const Box& box, float* out) {
  MT_CHECK(inside(box, piece.shape), "{} in {}", box_text(box), dims_text(piece.shape));
  if (piece.init.kind != Init::Kind::normal) {
    std::fill_n(out, box.size(), piece.init.kind == Init::Kind::one ? 1.0f : 0.0f);
    return;
  }
  const PhiloxKey key = make_key(seed, Purpose::init, xxh3(piece.name));
  for_each_run(whole(piece.shape), box, [&](std::int64_t global, std::int64_t local, std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i)
      out[local + i] = static_cast<float>(draw(key, static_cast<std::uint64_t>(global + i)) * piece.init.std);
  });
}

}  // namespace mt
