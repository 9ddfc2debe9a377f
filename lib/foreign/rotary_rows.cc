#include "foreign/rotary_rows.h"

#include "base/error.h"

namespace mt {

std::int64_t row_in_pairs(std::int64_t row, std::int64_t head_dim) {
  const std::int64_t in_head = row % head_dim, half = head_dim / 2;
  return row - in_head + 2 * (in_head % half) + in_head / half;
}

SourceTensor with_rows_in_halves(SourceTensor pairs, std::int64_t head_dim) {
  if (head_dim < 2 || head_dim % 2 != 0 || pairs.shape.size() != 2 || pairs.shape[0] % head_dim != 0)
    throw Error(Code::config, fmt::format("a tensor of shape {} is no heads of {} features in pairs", dims_text(pairs.shape), head_dim), pairs.where);
  SourceTensor halves = pairs;
  const auto width = static_cast<std::size_t>(bytes_of(*pairs.dtype, 1));
  halves.read = [read = std::move(pairs.read), head_dim, width](const Box& box, std::byte* out) {
    for (std::int64_t r = 0; r < box.extent[0]; ++r) {
      read({{row_in_pairs(box.offset[0] + r, head_dim), box.offset[1]}, {1, box.extent[1]}}, out);
      out += static_cast<std::size_t>(box.extent[1]) * width;
    }
  };
  return halves;
}

}  // namespace mt
