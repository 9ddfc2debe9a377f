#include "layout/flops.h"

#include "layout/recompute.h"

namespace mt {

StepFlops step_flops(const ModelSpec& model, const ParallelSpec& parallel, const BatchSpec& batch) {
  const double b = batch.global_batch, s = batch.seq_length, t = b * s, h = model.hidden;
  double weights = 0, core = 0, again = 0;
  int unit = 0;
  for (const auto& row : model.decoder().rows) {
    const RowRecompute r = row_recompute(model, parallel, ++unit);
    if (row.kind == RowKind::attention) {
      const double q = static_cast<double>(row.attention.heads) * row.attention.head_dim;
      const double kv = static_cast<double>(row.attention.kv_heads) * row.attention.head_dim;
      weights += 6 * t * h * (2 * q + 2 * kv);
      core += 6 * q * b * s * s;
      if (r.inner) again += 2 * t * h * (q + 2 * kv);
      if (r.middle) again += 2 * q * b * s * s;
      if (r.output) again += 2 * t * h * q;
    } else if (row.kind == RowKind::ffn) {
      weights += 6 * t * h * row.ffn.ffn_hidden * (row.ffn.gated ? 3 : 2);
      if (r.inner) again += 2 * t * h * row.ffn.ffn_hidden * (row.ffn.gated ? 2 : 1);
      if (r.output) again += 2 * t * h * row.ffn.ffn_hidden;
    } else if (row.kind == RowKind::moe) {
      const double width = static_cast<double>(row.moe.topk) * row.ffn.ffn_hidden + row.moe.shared_hidden;
      weights += 6 * t * h * (row.moe.experts + width * (row.ffn.gated ? 3 : 2));
    }
  }
  weights += 6 * t * h * static_cast<double>(padded_vocab(model, parallel.tp));
  return {weights + core, weights + 2 * core, weights + core + again};
}

}  // namespace mt
