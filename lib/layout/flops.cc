#include "layout/flops.h"

namespace mt {

StepFlops step_flops(const ModelSpec& model, const ParallelSpec& parallel, const BatchSpec& batch) {
  const double b = batch.global_batch, s = batch.seq_length, t = b * s, h = model.hidden;
  double weights = 0, core = 0;
  for (const auto& row : model.decoder().rows) {
    if (row.kind == RowKind::attention) {
      const double q = static_cast<double>(row.attention.heads) * row.attention.head_dim;
      const double kv = static_cast<double>(row.attention.kv_heads) * row.attention.head_dim;
      weights += 6 * t * h * (2 * q + 2 * kv);
      core += 6 * q * b * s * s;
    } else if (row.kind == RowKind::ffn) {
      weights += 6 * t * h * row.ffn.ffn_hidden * (row.ffn.gated ? 3 : 2);
    }
  }
  weights += 6 * t * h * static_cast<double>(padded_vocab(model, parallel.tp));
  return {weights + core, weights + 2 * core, weights + core};
}

}  // namespace mt
