#include "nn/model.h"

#include <algorithm>
#include <cstring>

#include "nn/attention_layer.h"
#include "nn/mlp.h"
#include "nn/vocab_parallel_embedding.h"
#include "nn/vocab_parallel_loss.h"
#include "ops/rotary.h"

namespace mt {

namespace {

Tensor make_rotary_table(const ModelSpec& model, std::int64_t positions, Device device) {
  for (const auto& row : model.decoder().rows) {
    if (row.kind != RowKind::attention || !row.attention.rotary.on) continue;
    const auto& r = row.attention.rotary;
    ops::RotarySpec spec;
    spec.rotary_dim = static_cast<std::int64_t>(row.attention.head_dim * r.percent) / 2 * 2;
    spec.base = r.base;
    if (r.scaling_factor > 0) spec.factor = r.scaling_factor;
    const auto table = ops::rotary_table(spec, positions);
    Tensor t(device, DType::f32, {positions, spec.rotary_dim});
    Stream stream(device);
    copy_bytes(stream, t.view().data, table.data(), t.view().bytes());
    stream.synchronize();
    return t;
  }
  return {};
}

}  // namespace

Model::Model(const ModelSpec& spec, const BatchSpec& batch, const Groups& groups, const ParameterStore& params,
             int chunk, Device device)
    : spec_(spec) {
  const auto& parallel = groups.placement.spec;
  const auto& at = groups.coordinate;
  content_ = stage_content(spec, parallel, at.pp, chunk);
  rotary_table_ = make_rotary_table(spec, std::max({batch.seq_length, batch.max_positions, spec.max_positions}), device);
  const std::int64_t vocab_rows = padded_vocab(spec, parallel.tp) / parallel.tp, first_id = vocab_rows * at.tp;
  const auto saved = [&](int unit) {
    return SavedTable{saved_tensors(spec, parallel, batch, params.compute_dtype(), unit),
                      row_recompute(spec, parallel, unit)};
  };
  if (content_.embedding) layers_.push_back(vocab_parallel_embedding(params, spec, first_id));
  for (int i = content_.first_row; i < content_.last_row; ++i) {
    const Row& row = spec.decoder().rows[static_cast<std::size_t>(i)];
    if (row.kind == RowKind::attention)
      layers_.push_back(attention_layer(params, row, i + 1, saved(i + 1), rotary_table_.view()));
    MT_CHECK(row.kind != RowKind::moe, "layer {}: experts were to be refused", row.layer);
    if (row.kind == RowKind::ffn) layers_.push_back(mlp(params, row, i + 1, saved(i + 1)));
  }
  const int head = num_units(spec) - 1;
  if (content_.head)
    layers_.push_back(vocab_parallel_loss(params, spec, head, saved(head).tensors,
                                          {first_id, std::clamp<std::int64_t>(spec.vocab_size - first_id, 0,
                                                                              vocab_rows)}));
}

}  // namespace mt
