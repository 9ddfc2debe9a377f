#pragma once
// Rotary position embedding, in place: pairs of features turn by an angle proportional to the token's position.
//
//   T  tokens   H  heads   D  head dim   R  rotary dim, the first R features of a head turn (R = percent·D, even)
// half         pairs (i, i + R/2), as in LLaMA and Megatron's default
// interleaved  pairs (2i, 2i + 1), as in GPT-J and Megatron's --rotary-interleaved
// Angle of pair i at position p: p·f_i, taken from a table made once on the host. Source: Su et al., arXiv:2104.09864.
// Code: ops/rotary.cc, ops/cpu/rotary.cc. Tests: tests/ops/rotary_test.cc.

#include <cstdint>
#include <vector>

#include "device/stream.h"
#include "ops/cost.h"
#include "tensor/view.h"

namespace mt::ops {

// How frequencies are made.
struct RotarySpec {
  std::int64_t rotary_dim = 0;  // R, even
  double base = 10000;          // --rotary-base
  double interpolation = 1;     // --rotary-seq-len-interpolation-factor: positions are divided by it
  // LLaMA-3.1's rule (--use-rope-scaling): wave lengths above original/low are divided by `factor`, below
  // original/high kept, blended between. factor 1 turns it off.
  double factor = 1;
  double low_freq_factor = 1, high_freq_factor = 4;
  double original_positions = 8192;
};

// f_i = base^(−2i/R), scaled; R/2 values rounded to f32.   fails  MT_CHECK on an odd R
std::vector<float> rotary_frequencies(const RotarySpec& spec);

// [positions, R] row-major: R/2 cosines then R/2 sines of f32(p)·f_i rounded to f32, as PyTorch computes them.
std::vector<float> rotary_table(const RotarySpec& spec, std::int64_t positions);

struct RotaryArgs {
  View x;          // [T, H, D], any float, last stride 1; changed in place (a slice of a fused qkv works)
  View positions;  // i32 [T], each below the table's rows
  View table;      // f32 [P, R], R ≤ D
  bool interleaved = false;
  bool inverse = false;  // turn back: what backward does to the gradient
};

// cost  2·T·H·R elements moved
void rotary(Stream& stream, const RotaryArgs& args);

Cost rotary_cost(std::int64_t tokens, std::int64_t heads, std::int64_t rotary_dim, int bytes_per_element);

}  // namespace mt::ops
