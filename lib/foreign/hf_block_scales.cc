#include "foreign/hf_block_scales.h"

#include <vector>

#include "base/error.h"

namespace mt {

namespace {

const std::string kScale = "_scale_inv";

}  // namespace

BlockScales::BlockScales(const Json& config, const HfWeights& weights) : weights_(weights) {
  if (!config.contains("quantization_config") || !config["quantization_config"].is_object()) return;
  const Json& q = config["quantization_config"];
  if (!q.contains("weight_block_size")) return;
  const auto sizes = json_field<std::vector<int>>(q, "weight_block_size", "config.json");
  if (sizes.size() != 2) throw Error(Code::corrupt, "weight_block_size is not two numbers", "config.json");
  rows_ = sizes[0], columns_ = sizes[1];
  if (rows_ < 1 || columns_ < 1) throw Error(Code::config, fmt::format("weight_block_size is {} by {}", rows_, columns_), "config.json");
}

bool BlockScales::are_of(const std::string& name) const {
  const auto t = weights_.tensors().find(name);
  return t != weights_.tensors().end() && t->second.entry.dtype == DType::e4m3 && weights_.tensors().count(name + kScale) > 0;
}

bool BlockScales::is_scale(const std::string& name) const { return name.ends_with(kScale) && are_of(name.substr(0, name.size() - kScale.size())); }

std::string BlockScales::problem(const std::string& name) const {
  const auto& matrix = weights_.tensors().at(name).entry;
  const auto& scales = weights_.tensors().at(name + kScale).entry;
  if (matrix.shape.size() != 2) return fmt::format("{} has scales by blocks and shape {}", name, dims_text(matrix.shape));
  const Dims blocks{(matrix.shape[0] + rows_ - 1) / rows_, (matrix.shape[1] + columns_ - 1) / columns_};
  if (scales.dtype != DType::f32 || scales.shape != blocks)
    return fmt::format("{} is {} of shape {}, blocks of {} by {} need F32 {}", name + kScale, scales.dtype_text, dims_text(scales.shape),
                       rows_, columns_, dims_text(blocks));
  return "";
}

void BlockScales::read(const std::string& name, const Box& box, bf16* out) const {
  const Dims& blocks = weights_.tensors().at(name + kScale).entry.shape;
  std::vector<float> scales(static_cast<std::size_t>(num_elements(blocks)));
  weights_.read(name + kScale, whole(blocks), reinterpret_cast<std::byte*>(scales.data()));
  std::vector<e4m3> values(static_cast<std::size_t>(box.size()));
  weights_.read(name, box, reinterpret_cast<std::byte*>(values.data()));
  const e4m3* from = values.data();
  for (std::int64_t r = 0; r < box.extent[0]; ++r) {
    const float* line = scales.data() + (box.offset[0] + r) / rows_ * blocks[1];
    for (std::int64_t c = 0; c < box.extent[1]; ++c)
      *out++ = to_bf16(to_f32(*from++) * line[(box.offset[1] + c) / columns_]);
  }
}

}  // namespace mt
