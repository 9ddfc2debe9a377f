#include "layout/saved_tensors.h"

#include <algorithm>

#include "layout/recompute.h"

namespace mt {

std::vector<SavedTensor> saved_tensors(const ModelSpec& model, const ParallelSpec& p, const BatchSpec& batch,
                                       DType compute, int unit) {
  const std::int64_t t = batch.tokens_per_micro_batch() / p.cp, ts = t / p.sequence_shards(), c = model.hidden;
  const auto input = Until::backward_input, weight = Until::backward_weight;
  const int rows = static_cast<int>(model.decoder().rows.size());
  if (unit == 0) return {};
  const bool head = unit == rows + 1;
  if (!head && model.decoder().rows[static_cast<std::size_t>(unit - 1)].kind == RowKind::none) return {};
  const NormKind norm =
      head ? model.final_norm.kind : model.decoder().rows[static_cast<std::size_t>(unit - 1)].norm.kind;

  const RowRecompute again = row_recompute(model, p, unit);
  std::vector<SavedTensor> s{{"x", {ts, c}, residual_dtype(model, compute), input, again.input}, {"normed", {ts, c}, compute, weight, again.norm}};
  const bool statistics = again.norm && again.inner && again.middle;  // a few bytes, not worth it alone
  if (norm == NormKind::layer_norm) s.push_back({"mean", {ts}, DType::f32, input, statistics});
  s.push_back({"rstd", {ts}, DType::f32, input, statistics});
  if (head) {
    s.push_back({"logits", {t, padded_vocab(model, p.tp) / p.tp}, compute, weight});
    return s;
  }
  const Row& row = model.decoder().rows[static_cast<std::size_t>(unit - 1)];
  if (row.kind == RowKind::attention) {
    const auto& a = row.attention;
    const std::int64_t h = a.heads / p.tp, kv = std::max(1, a.kv_heads / p.tp);
    s.push_back({"qkv", {t, (h + 2 * kv) * a.head_dim}, compute, input, again.inner});
    if (a.qk_norm) {
      s.push_back({"qk", {t, (h + kv) * a.head_dim}, compute, input, again.inner});
      s.push_back({"qk_rstd", {h + kv, t}, DType::f32, input, again.inner});
    }
    s.push_back({"context", {t, h * a.head_dim}, compute, weight, again.middle});
    s.push_back({"lse", {t, h}, DType::f32, input, again.middle});
  } else if (row.kind == RowKind::moe) {
    // As many tokens visit this rank's experts as leave it: spread evenly over experts.
    const std::int64_t visits = ts * row.moe.topk, f = row.ffn.ffn_hidden, wide = row.ffn.gated ? 2 : 1;
    s.push_back({"router", {ts, row.moe.experts}, DType::f32, input, again.inner});
    s.push_back({"dispatched", {visits * p.etp, c}, compute, weight, again.inner});
    s.push_back({"fc1", {visits, wide * f}, compute, input, again.inner});
    s.push_back({"activated", {visits, f}, compute, weight, again.middle});
    if (const std::int64_t shared = row.moe.shared_hidden / p.tp; shared > 0) {
      s.push_back({"shared_fc1", {t, wide * shared}, compute, input, again.inner});
      s.push_back({"shared_activated", {t, shared}, compute, weight, again.middle});
    }
  } else {
    const std::int64_t f = row.ffn.ffn_hidden / p.tp;
    s.push_back({"fc1", {t, row.ffn.gated ? 2 * f : f}, compute, input, again.inner});
    s.push_back({"activated", {t, f}, compute, weight, again.middle});
  }
  return s;
}

std::int64_t saved_bytes(const std::vector<SavedTensor>& tensors) {
  std::int64_t n = 0;
  for (const auto& t : tensors)
    if (t.name != "x") n += (bytes_of(t.dtype, num_elements(t.shape)) + 63) / 64 * 64;
  return n;
}

}  // namespace mt
