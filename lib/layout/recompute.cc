#include "layout/recompute.h"

namespace mt {

namespace {

// The chunk that holds a row.
StageContent chunk_of(const ModelSpec& model, const ParallelSpec& p, int row) {
  for (int r = 0; r < p.pp; ++r)
    for (int c = 0; c < p.vpp; ++c)
      if (const auto content = stage_content(model, p, r, c); content.first_row <= row && row < content.last_row)
        return content;
  return {};
}

// Number of the group a row is in, −1 for none: layers are counted from the chunk's first.
int group_of(const ModelSpec& model, const RecomputeSpec& spec, const StageContent& chunk, int row) {
  if (row < chunk.first_row || row >= chunk.last_row) return -1;
  const auto& rows = model.decoder().rows;
  int layer = 0;
  for (int i = chunk.first_row + 1; i <= row; ++i)
    layer += rows[static_cast<std::size_t>(i)].layer != rows[static_cast<std::size_t>(i - 1)].layer;
  if (spec.method == RecomputeSpec::Method::block) return layer < spec.num_layers ? layer : -1;
  return layer / spec.num_layers;
}

}  // namespace

RowRecompute row_recompute(const ModelSpec& model, const ParallelSpec& p, int unit) {
  const RecomputeSpec& spec = p.recompute;
  const auto& rows = model.decoder().rows;
  const int row = unit - 1;
  if (!spec.on() || row < 0 || row >= static_cast<int>(rows.size())) return {};
  const RowKind kind = rows[static_cast<std::size_t>(row)].kind;
  if (kind == RowKind::none) return {};
  RowRecompute out;
  if (spec.granularity == RecomputeSpec::Granularity::selective) {
    const bool attention = kind == RowKind::attention;
    out.norm = spec.layernorm;
    out.inner = !attention && spec.mlp;
    out.middle = attention ? spec.core_attn : spec.mlp || spec.mlp_act;
    return out;
  }
  // Rows that compute nothing have no sub-layer: neighbours are looked for beyond them.
  const StageContent chunk = chunk_of(model, p, row);
  const int group = group_of(model, spec, chunk, row);
  if (group < 0) return {};
  const auto in_group = [&](int first, int step) {
    for (int i = first; i >= chunk.first_row && i < chunk.last_row; i += step)
      if (rows[static_cast<std::size_t>(i)].kind != RowKind::none) return group_of(model, spec, chunk, i) == group;
    return false;
  };
  out.norm = out.inner = out.middle = true;
  out.input = in_group(row - 1, -1);
  out.output = in_group(row + 1, 1);
  // What another stage or the embedding sends is whole already.
  bool first = true;
  for (int i = chunk.first_row; i < row; ++i) first = first && rows[static_cast<std::size_t>(i)].kind == RowKind::none;
  out.shard_input = spec.distribute_saved && p.tp > 1 && !out.input && !first;
  return out;
}

}  // namespace mt
