#include "layout/param_spec.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "base/hash.h"
#include "layout/param_table.h"

namespace mt {

int num_units(const ModelSpec& model) {
  std::size_t rows = 0;
  for (const auto& tower : model.towers) rows += tower.rows.size();
  return static_cast<int>(rows) + 2;
}

StageContent stage_content(const ModelSpec& model, const ParallelSpec& p, int pp_rank, int chunk) {
  const int stages = p.pp * p.vpp, stage = p.stage(pp_rank, chunk);
  const std::int64_t layers = model.num_layers();
  const auto row_of = [&](std::int64_t layer) {  // rows are in the order of their layers
    std::ptrdiff_t before = 0;
    for (const auto& tower : model.towers) {
      const auto& rows = tower.rows;
      before += std::partition_point(rows.begin(), rows.end(), [&](const Row& r) { return r.layer < layer; }) - rows.begin();
      if (model.towers.size() > 1) layer -= tower.num_layers();
    }
    return static_cast<int>(before);
  };
  std::int64_t first = layers * stage / stages, last = layers * (stage + 1) / stages;
  if (const auto& uneven = p.stage_layers; !uneven.empty()) {
    first = std::accumulate(uneven.begin(), uneven.begin() + stage, std::int64_t{0});
    last = first + uneven[static_cast<std::size_t>(stage)];
  }
  return {stage == 0, row_of(first), row_of(last), stage == stages - 1};
}

std::vector<ParamSpec> param_specs(const ModelSpec& model, const ParallelSpec& parallel, const Coordinate& coordinate) {
  ParamTable table(model, parallel, coordinate);
  const auto rows = stacked_rows(model);
  bool embedding_here = false;
  for (int chunk = 0; chunk < parallel.vpp; ++chunk) {
    const auto content = stage_content(model, parallel, coordinate.pp, chunk);
    if (content.embedding) {
      table.embedding(0, model.tied ? 2 : 1);
      embedding_here = true;
    }
    for (int i = content.first_row; i < content.last_row; ++i) {
      const auto at = static_cast<std::size_t>(i);
      table.row(*rows[at].tower, *rows[at].row, i + 1);
      if (at + 1 < rows.size() && rows[at + 1].tower != rows[at].tower) table.tower_end(*rows[at].tower, i + 1);
    }
    if (content.head) table.head(num_units(model) - 1, embedding_here);
  }
  return table.take();
}

bool first_replica(const Piece& piece, const Coordinate& c) { return c.tp % piece.tp_replicas == 0; }

Replica replica_of(const ParamSpec& spec, const Piece& piece, const ParallelSpec& parallel, const Coordinate& c) {
  if (spec.expert) return {c.edp, parallel.edp()};
  const int tp = piece.tp_replicas;
  return {c.tp % tp + tp * (c.cp + parallel.cp * c.dp), tp * parallel.cp * parallel.dp};
}

Box written_part(const Piece& piece, const Replica& replica, DType dtype) {
  if (replica.count == 1) return piece.box;
  if (bytes_of(dtype, piece.box.size()) >= kWorthCutting) return part_of(piece.box, replica.count, replica.index);
  const auto writer = static_cast<int>(xxh3(piece.name) % static_cast<std::uint64_t>(replica.count));
  if (writer == replica.index) return piece.box;
  Box none = piece.box;
  if (!none.extent.empty()) none.extent[0] = 0;
  return none;
}

std::vector<LogicalTensor> logical_tensors(const ModelSpec& model) {
  std::vector<LogicalTensor> out;
  for (const auto& spec : param_specs(model, ParallelSpec{}, Coordinate{}))
    for (const auto& piece : spec.pieces) out.push_back({piece.name, piece.shape});
  return out;
}

}  // namespace mt
