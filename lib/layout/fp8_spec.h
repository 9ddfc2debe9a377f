#pragma once
// How a training run rounds the operands of its products to fp8. Not part of a model: a checkpoint knows nothing of it
// but the history of magnitudes (nn/fp8_state.h).
//
// Code: header only. Tests: tests/train/fp8_test.cc.

#include <cstdint>

namespace mt {

struct Fp8Spec {
  enum class Recipe : std::uint8_t {
    none,
    delayed,     // a scale a tensor, from the magnitudes of earlier steps
    tensorwise,  // a scale a tensor, from its own magnitude over all tp ranks
    blockwise,   // a scale for 128 elements of activations and gradients, for 128x128 of weights
  };
  Recipe recipe = Recipe::none;
  bool hybrid = false;  // gradients in e5m2; all else, and without it all, in e4m3
  int margin = 0;       // powers of two left free above the largest magnitude
  int history = 1;      // steps delayed scaling looks back
  bool most_recent = true;  // of them the last one counts, else the largest
  bool weight_gradients = true;  // their products are fp8 too
  int first_bf16 = 0, last_bf16 = 0;  // layers left in bf16
  bool keep_weights = false;  // rounded once a step, for all its micro-batches; else once a product
  bool on() const { return recipe != Recipe::none; }
};

inline constexpr std::int64_t kFp8Line = 64;  // bytes; copies start on such borders

// Memory that holds both rounded copies of a matrix, one for each direction of a sum, with one scale or, `squares`, one for
// 128x128: in its own dtype the same numbers serve both, as fp8 each has its own.
inline std::int64_t fp8_pair_bytes(std::int64_t rows, std::int64_t columns, std::int64_t element_bytes, bool squares) {
  const auto up = [](std::int64_t n, std::int64_t to) { return (n + to - 1) / to * to; };
  const auto blocks = [](std::int64_t n) { return (n + 127) / 128; };
  const auto bytes = [&](std::int64_t outer, std::int64_t inner) {
    return up(rows * columns + 4 * (squares ? blocks(outer) * up(blocks(inner), 4) : 1), kFp8Line);
  };
  const std::int64_t rounded = up(element_bytes * rows * columns, kFp8Line);
  const std::int64_t apart = bytes(rows, columns) + bytes(columns, rows);
  return rounded > apart ? rounded : apart;
}
// What is kept of a weight: both copies, and its largest magnitude.
inline std::int64_t fp8_weight_bytes(const Fp8Spec& spec, std::int64_t rows, std::int64_t columns,
                                     std::int64_t element_bytes) {
  return fp8_pair_bytes(rows, columns, element_bytes, spec.recipe == Fp8Spec::Recipe::blockwise) + kFp8Line;
}

}  // namespace mt
