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

// Buckets as params/zero.h cuts them: parameters start at multiples of 64 elements, a sharded bucket ends at one of
// 64·ranks. Under ZeRO 2 and 3 whole buckets live for a while beside the shards: one of gradients, and of weights the
// one at work, the next on its way, and the embedding's while a tied head needs it too.
void add_parameters(MemoryPlan& plan, const std::vector<ParamSpec>& specs, const ParallelSpec& parallel,
                    DType compute) {
  const int stage = parallel.zero_stage;
  const std::int64_t ranks = stage > 0 ? parallel.dp * parallel.cp : 1;
  std::map<int, std::int64_t> partial, bucket;  // by unit
  std::int64_t second = 0;
  bool tied = false;
  for (const auto& spec : specs) {
    bucket[spec.unit] += line(spec.elements());
    if (spec.grad_slots == 2) second += line(spec.elements());
    tied = tied || spec.grad_slots == 2;
    for (const auto& piece : spec.pieces)
      if (!piece.grad_sum.empty()) partial[spec.unit] += line(piece.local.size());
  }
  std::int64_t total = 0, largest = 0, pair = 0, before = 0, most = 0;
  for (auto& [unit, n] : bucket) {
    n = (n + kLine * ranks - 1) / (kLine * ranks) * (kLine * ranks);
    total += n;
    largest = std::max(largest, n);
    pair = std::max(pair, before + n);
    before = n;
  }
  for (const auto& [unit, n] : partial) most = std::max(most, n);
  const std::int64_t own = total / ranks;
  plan.weight_bytes = bytes_of(compute, stage == 3 ? own + pair + (tied ? bucket.begin()->second : 0) : total);
  plan.grad_bytes = bytes_of(DType::f32, (stage >= 2 ? own + largest : total) + second + most);
  plan.optimizer_bytes = bytes_of(DType::f32, own) * (compute == DType::f32 ? 2 : 3);
}

}  // namespace

MemoryPlan plan_memory(const ModelSpec& model, const ParallelSpec& parallel, const BatchSpec& batch,
                       const Coordinate& coordinate, DType compute, int max_in_flight) {
  MemoryPlan plan;
  plan.slots = max_in_flight;
  add_parameters(plan, param_specs(model, parallel, coordinate), parallel, compute);

  const std::int64_t t = batch.tokens_per_micro_batch() / parallel.cp;
  const Sizes s{t, t / parallel.sequence_shards(), model.hidden, compute,
                parallel.sequence_parallel && parallel.tp > 1, parallel.tp};
  // ids, labels, mask, positions (4 bytes), ordinals (8), sequence bounds
  plan.slot_bytes = 4 * line(4 * t) + line(8 * t) + line(4 * (batch.micro_batch + 1));
  const auto unit = [&](int u, bool has_output) {
    auto saved = saved_tensors(model, parallel, batch, compute, u);
    std::erase_if(saved, [](const SavedTensor& x) { return x.name == "x"; });
    plan.slot_bytes += saved_bytes(saved) + (has_output ? s.part(s.c) : 0);
  };
  const auto scratch = [&](std::int64_t bytes) { plan.scratch_bytes = std::max(plan.scratch_bytes, bytes); };
  // A slot is as large as the largest chunk needs; with a pipeline it also holds what comes and goes at the chunk's ends.
  const std::int64_t tokens_bytes = plan.slot_bytes;
  std::int64_t largest = 0;
  for (int c = 0; c < parallel.vpp; ++c) {
    const auto content = stage_content(model, parallel, coordinate.pp, c);
    plan.slot_bytes = tokens_bytes;
    if (parallel.pp > 1) plan.slot_bytes += (content.embedding ? 0 : 2 * s.part(s.c)) + (content.head ? 0 : s.part(s.c));
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
    largest = std::max(largest, plan.slot_bytes);
  }
  plan.slot_bytes = largest;
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
