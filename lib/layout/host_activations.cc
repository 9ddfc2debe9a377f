#include "layout/host_activations.h"

namespace mt {

bool saved_on_host(const ModelSpec& model, const StageContent& chunk, int row, int layers) {
  const auto& rows = model.decoder().rows;
  if (row < chunk.first_row || row >= chunk.last_row) return false;
  if (rows[static_cast<std::size_t>(row)].kind == RowKind::none) return false;
  int before = 0;
  for (int i = chunk.first_row + 1; i <= row; ++i)
    before += rows[static_cast<std::size_t>(i)].layer != rows[static_cast<std::size_t>(i - 1)].layer;
  return before < layers;
}

}  // namespace mt
