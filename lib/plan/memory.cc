#include "plan/memory.h"

#include <algorithm>
#include <map>

#include "layout/saved_tensors.h"

namespace mt {

namespace {

constexpr std::int64_t kLine = 64;  // arenas hand out whole cache lines
std::int64_t line(std::int64_t bytes) { return (bytes + kLine - 1) / kLine * kLine; }

struct Sizes {
  std::int64_t t, ts, c;
  DType compute;
  bool sharded;  // sequence parallel over more than one rank
  int tp;
  std::int64_t full(std::int64_t width) const { return line(bytes_of(compute, t * width)); }
  std::int64_t part(std::int64_t width) const { return line(bytes_of(compute, ts * width)); }
  std::int64_t gathered() const { return sharded ? full(c) : 0; }
  std::int64_t summed() const { return sharded ? part(c) : 0; }
};

// Scratch of a row's backward, input and weight part together (its forward needs less).
std::int64_t row_scratch(const Row& row, const Sizes& s) {
  const std::int64_t dz = row.residual_dropout > 0 ? s.part(s.c) : 0;
  const std::int64_t around = dz + s.gathered() + s.full(s.c) + s.summed() + s.gathered();
  if (row.kind == RowKind::attention) {
    const auto& a = row.attention;
    const std::int64_t h = a.heads / s.tp, g = std::max(1, a.kv_heads / s.tp);
    return around + s.full(h * a.head_dim) + s.full((h + 2 * g) * a.head_dim);
  }
  const std::int64_t f = row.ffn.ffn_hidden / s.tp;
  return around + s.full(f) + s.full(row.ffn.gated ? 2 * f : f);
}

void add_parameters(MemoryPlan& plan, const std::vector<ParamSpec>& specs, DType compute) {
  std::map<int, std::int64_t> partial;  // by unit
  for (const auto& spec : specs) {
    const std::int64_t n = line(spec.elements());  // parameters start at multiples of 64 elements
    plan.weight_bytes += bytes_of(compute, n);
    plan.grad_bytes += bytes_of(DType::f32, n) * spec.grad_slots;
    plan.optimizer_bytes += bytes_of(DType::f32, n) * (compute == DType::f32 ? 2 : 3);
    for (const auto& piece : spec.pieces)
      if (!piece.grad_sum.empty()) partial[spec.unit] += line(piece.local.size());
  }
  std::int64_t most = 0;
  for (const auto& [unit, n] : partial) most = std::max(most, n);
  plan.grad_bytes += bytes_of(DType::f32, most);
}

}  // namespace

MemoryPlan plan_memory(const ModelSpec& model, const ParallelSpec& parallel, const BatchSpec& batch,
                       const Coordinate& coordinate, DType compute, int max_in_flight) {
  MemoryPlan plan;
  plan.slots = max_in_flight;
  add_parameters(plan, param_specs(model, parallel, coordinate), compute);

  const std::int64_t t = batch.tokens_per_micro_batch() / parallel.cp;
  const Sizes s{t, t / parallel.sequence_shards(), model.hidden, compute,
                parallel.sequence_parallel && parallel.tp > 1, parallel.tp};
  const auto content = stage_content(model, parallel, coordinate.pp, 0);
  // ids, labels, mask, positions (4 bytes), ordinals (8), sequence bounds
  plan.slot_bytes = 4 * line(4 * t) + line(8 * t) + line(4 * (batch.micro_batch + 1));
  const auto unit = [&](int u, bool has_output) {
    auto saved = saved_tensors(model, parallel, batch, compute, u);
    std::erase_if(saved, [](const SavedTensor& x) { return x.name == "x"; });
    plan.slot_bytes += saved_bytes(saved) + (has_output ? s.part(s.c) : 0);
  };
  const auto scratch = [&](std::int64_t bytes) { plan.scratch_bytes = std::max(plan.scratch_bytes, bytes); };
  if (content.embedding) {
    unit(0, true);
    scratch(s.full(s.c) + s.summed() + (model.learned_positions ? s.part(s.c) : 0));
    scratch((model.embedding_dropout > 0 ? s.part(s.c) : 0) + s.gathered());
  }
  for (int i = content.first_row; i < content.last_row; ++i) {
    unit(i + 1, true);
    scratch(row_scratch(model.decoder().rows[static_cast<std::size_t>(i)], s));
  }
  if (content.head) {
    unit(num_units(model) - 1, false);
    scratch(s.gathered() + line(4 * 3 * t));
    scratch(s.full(s.c) + s.summed() + s.gathered());
  }
  const std::int64_t micro_batches = batch.num_micro_batches(parallel);
  plan.other_bytes = 2 * s.part(s.c) + micro_batches * line(4 * t);
  for (const auto& row : model.decoder().rows)
    if (row.kind == RowKind::attention && row.attention.rotary.on) {
      const std::int64_t turning =
          static_cast<std::int64_t>(row.attention.head_dim * row.attention.rotary.percent) / 2 * 2;
      plan.other_bytes += 4 * turning * std::max(batch.seq_length, model.max_positions);
      break;
    }
  return plan;
}

}  // namespace mt
