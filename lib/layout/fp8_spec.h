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
  bool on() const { return recipe != Recipe::none; }
};

}  // namespace mt
