#pragma once
// Weights of a Hugging Face model that are e4m3 by blocks: `NAME` in e4m3 beside `NAME_scale_inv`, one f32 a block, which the
// elements are multiplied by. They are read as bf16.
//
// Code: foreign/hf_block_scales.cc. Tests: tests/foreign/hf_block_scales_test.cc.

#include <optional>
#include <string>

#include "base/json.h"
#include "foreign/hf_files.h"

namespace mt {

class BlockScales {
 public:
  // Blocks are quantization_config.weight_block_size of the config, 128 by 128 where it says none.
  //   fails  Error{config}: sizes below 1; Error{corrupt}: no two numbers
  BlockScales(const Json& config, const HfWeights& weights);

  // True of a matrix in e4m3 with scales beside it.
  bool are_of(const std::string& name) const;
  // True of the tensor of scales of one.
  bool is_scale(const std::string& name) const;
  // What is wrong with a matrix's scales; empty when nothing is.   needs  are_of(name)
  std::string problem(const std::string& name) const;

  // The box of one, row-major, each element rounded once from the f32 product.
  //   needs  are_of(name), no problem, `box` inside it
  //   cost   reads the box and all scales of the matrix; one buffer of the box in e4m3
  void read(const std::string& name, const Box& box, bf16* out) const;

 private:
  const HfWeights& weights_;
  std::int64_t rows_ = 128, columns_ = 128;
};

}  // namespace mt
