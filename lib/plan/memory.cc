#include "plan/memory.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "layout/fp8_spec.h"
#include "layout/host_activations.h"
#include "layout/recompute.h"
#include "layout/saved_tensors.h"
#include "layout/shards.h"
#include "plan/lane_use.h"
#include "plan/open_buckets.h"
#include "plan/optimizer_memory.h"

namespace mt {

namespace {

constexpr int kGradientBuffers = 2;  // on their way: enough for every schedule of the table, schedule/message_buffers.h
constexpr std::int64_t kLine = 64;  // arenas hand out whole cache lines
std::int64_t line(std::int64_t bytes) { return (bytes + kLine - 1) / kLine * kLine; }

struct Sizes {
  std::int64_t t, ts, c;
  DType compute, residual;
  bool sharded;  // sequence parallel over more than one rank
  int tp;
  std::int64_t full(std::int64_t width) const { return line(bytes_of(compute, t * width)); }
  std::int64_t part(std::int64_t width) const { return line(bytes_of(compute, ts * width)); }
  std::int64_t stream() const { return line(bytes_of(residual, ts * c)); }
  // dz is dy itself without dropout, where both are of one dtype.
  std::int64_t dz(double dropout) const { return dropout > 0 || residual != compute ? part(c) : 0; }
  std::int64_t gathered() const { return sharded ? full(c) : 0; }
  std::int64_t summed() const { return sharded ? part(c) : 0; }
};

// Two widths of a row, local: what its output product reads (context, activated), what its input product gives (qkv, fc1).
struct Widths {
  std::int64_t middle, inner;
};
Widths widths_of(const Row& row, const Sizes& s) {
  const int tp = s.tp;
  if (row.kind == RowKind::moe) {  // of visits to experts, told as so much a token
    const std::int64_t f = row.moe.topk * std::int64_t{row.ffn.ffn_hidden} * s.ts / s.t + row.moe.shared_hidden / tp;
    return {f, row.ffn.gated ? 2 * f : f};
  }
  if (row.kind == RowKind::attention) {
    const auto& a = row.attention;
    const std::int64_t h = a.heads / tp, g = std::max(1, a.kv_heads / tp);
    return {h * a.head_dim, (h + 2 * g) * a.head_dim};
  }
  const std::int64_t f = row.ffn.ffn_hidden / tp;
  return {f, row.ffn.gated ? 2 * f : f};
}

// What weights and gradients of this rank are.
struct Parameters {
  const std::vector<ParamSpec>& specs;
  ShardPlan shards;
  std::map<int, std::int64_t> vectors;  // by unit: elements of vectors, each rounded up

  const ParamSpec& first_of(const Bucket& b) const { return specs[static_cast<std::size_t>(b.first_param)]; }
};

Parameters add_parameters(MemoryPlan& plan, const std::vector<ParamSpec>& specs, const ShardSpec& sharding,
                          const StateSpec& state) {
  Parameters p{specs, plan_shards(specs, sharding), {}};
  std::map<int, std::int64_t> partial;  // by unit
  for (const auto& spec : specs) {
    if (spec.shape.size() == 1) p.vectors[spec.unit] += line(spec.elements());
    for (const auto& piece : spec.pieces)
      if (!piece.grad_sum.empty()) partial[spec.unit] += line(piece.local.size());
  }
  const bool own_gradients = sharding.stage >= 2;
  std::int64_t second = 0, most = 0;
  for (const auto& b : p.shards.buckets)
    if (p.first_of(b).output_unit >= 0) second += own_gradients ? b.own_size() : b.size();
  for (const auto& [unit, n] : partial) most = std::max(most, n);
  plan.weight_bytes = bytes_of(state.compute, sharding.stage == 3 ? p.shards.own() : p.shards.total);
  plan.grad_bytes = bytes_of(state.grads, (own_gradients ? p.shards.own() : p.shards.total) + second + most);
  return p;
}

// What a unit's layer opens of them; `reads_table`: a tied head whose table this rank holds as the embedding.
LayerBuckets buckets_of(const Parameters& p, int unit, bool reads_table, int stage, const StateSpec& state) {
  LayerBuckets l;
  if (stage < 2) return l;
  const auto& all = p.shards.buckets;
  const auto gather = [&](int of_unit) {
    for (std::size_t i = 0; i < all.size(); ++i)
      if (all[i].unit == of_unit) l.weights.push_back({static_cast<int>(i), bytes_of(state.compute, all[i].size())});
  };
  if (stage == 3) gather(unit);
  if (stage == 3 && reads_table) gather(0);
  for (const auto& b : all) {
    const ParamSpec& first = p.first_of(b);
    if ((b.unit == unit && !first.tie_copy) || first.output_unit == unit) l.grads.push_back(bytes_of(state.grads, b.size()));
  }
  if (const auto it = p.vectors.find(unit); it != p.vectors.end()) l.vectors = bytes_of(state.grads, it->second);
  return l;
}

// A layer of a chunk: embedding, row or head.
struct LayerBytes {
  int unit = 0;
  RowRecompute again;
  std::int64_t saved = 0, again_input = 0, again_weight = 0;  // members: kept from forward, or made again
  std::int64_t kept = 0;                                      // of a split backward, but dx
  std::int64_t forward = 0, backward = 0, input = 0, weight = 0, recompute = 0;  // scratch of its passes
  std::int64_t rounded = 0;  // operands of fp8 products of the forward
  std::int64_t rounded_weights = 0;
  bool head = false, on_host = false;
};

// Rounded copies of the operands of fp8 products, as nn/fp8_product.h makes them: in scratch the most of any product of each
// pass, wherever in it that is; dy's until the weight gradient; weights kept from micro-batch to micro-batch.
struct RoundedBytes {
  std::int64_t forward = 0, input = 0, weight = 0, kept = 0, weights = 0;
};
RoundedBytes rounded_bytes(const ModelSpec& model, const Row& row, const Widths& w, const Sizes& s) {
  if (!row.fp8) return {};
  const Fp8Spec& fp8 = model.fp8;
  const std::int64_t element = bytes_of(s.compute, 1), c = s.c;
  const std::int64_t amax = fp8.recipe == Fp8Spec::Recipe::tensorwise ? 2 * kLine : 0;
  const auto weight = [&](std::int64_t out, std::int64_t in) {
    return fp8.keep_weights ? 0 : line(bytes_of(s.compute, out * in));
  };
  const bool lines = fp8.recipe == Fp8Spec::Recipe::blockwise;
  const auto along = [&](std::int64_t width) { return lines || !fp8.weight_gradients ? s.full(width) : 0; };
  const auto pair = [&](std::int64_t width) { return lines ? s.full(width) : fp8_pair_bytes(s.t, width, element, false); };
  RoundedBytes r;
  r.forward = amax + std::max(s.full(c) + weight(w.inner, c), s.full(w.middle) + weight(c, w.middle));
  r.input = amax + std::max(along(c) + weight(c, w.middle), along(w.inner) + weight(w.inner, c));
  if (fp8.weight_gradients) r.weight = amax + std::max(s.full(c), s.full(w.middle));
  if (fp8.weight_gradients) r.kept = pair(c) + pair(w.inner);
  if (fp8.keep_weights)
    r.weights = fp8_weight_bytes(fp8, w.inner, c, element) + fp8_weight_bytes(fp8, c, w.middle, element);
  return r;
}

LayerBytes layer_bytes(const ModelSpec& model, const Sizes& s, const std::vector<SavedTensor>& saved, int unit) {
  LayerBytes l;
  l.unit = unit;
  for (const auto& t : saved) {
    if (t.name == "x") continue;
    const std::int64_t bytes = line(bytes_of(t.dtype, num_elements(t.shape)));
    (!t.again ? l.saved : t.until == Until::backward_input ? l.again_input : l.again_weight) += bytes;
  }
  const std::int64_t sum = s.full(s.c) + s.summed();
  if (unit == 0) {
    l.forward = sum + (model.learned_positions ? s.part(s.c) : 0);
    l.kept = l.backward = s.dz(model.embedding_dropout) + s.gathered();
    return l;
  }
  l.head = unit == num_units(model) - 1;
  l.weight = s.gathered();
  if (l.head) {
    l.forward = s.gathered() + line(4 * 3 * s.t);
    l.input = sum;
    l.backward = l.input + l.weight;
    return l;
  }
  const Row& row = model.decoder().rows[static_cast<std::size_t>(unit - 1)];
  const Widths w = widths_of(row, s);
  const RoundedBytes r = rounded_bytes(model, row, w, s);
  l.kept = s.dz(row.residual_dropout) + s.gathered() + s.full(w.inner) + r.kept;
  l.input = s.full(w.middle) + sum;
  l.forward = s.gathered() + sum;
  l.backward = l.kept + l.input + std::max(r.input, l.weight + r.weight);
  l.forward += l.rounded = r.forward;
  l.input += r.input;
  l.weight += r.weight;
  l.rounded_weights = r.weights;
  return l;
}

// Layers of a chunk, as nn/model.h has them.
std::vector<LayerBytes> layers_of(const ModelSpec& model, const ParallelSpec& parallel, const BatchSpec& batch,
                                  const Sizes& s, const StageContent& content, int host_layers) {
  std::vector<LayerBytes> layers;
  const auto add = [&](int unit) {
    layers.push_back(layer_bytes(model, s, saved_tensors(model, parallel, batch, s.compute, unit), unit));
    LayerBytes& l = layers.back();
    l.again = row_recompute(model, parallel, unit);
    l.recompute = l.again.output ? l.forward : l.again.inner ? s.gathered() + l.rounded : 0;
    l.forward += l.again_input + l.again_weight;
    l.on_host = saved_on_host(model, content, unit - 1, host_layers);
  };
  if (content.embedding) add(0);
  for (int i = content.first_row; i < content.last_row; ++i)
    if (model.decoder().rows[static_cast<std::size_t>(i)].kind != RowKind::none) add(i + 1);
  if (content.head) add(num_units(model) - 1);
  return layers;
}

struct Chunk {
  ChunkBytes bytes;
  std::int64_t scratch = 0, forward_only = 0;
  std::int64_t host_rows = 0, host_row = 0;  // how many, and the largest
  bool recomputes = false;
};

Chunk plan_chunk(const std::vector<LayerBytes>& layers, const Sizes& s, bool whole, bool split) {
  Chunk c;
  const auto passes = [&](std::size_t i) {  // its input is not kept whole
    return i < layers.size() && (layers[i].again.input || layers[i].again.shard_input);
  };
  std::int64_t passing = 0, group = 0;
  for (std::size_t i = 0; i < layers.size(); ++i)
    if (passes(i)) passing = 2 * s.stream();
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const LayerBytes& l = layers[i];
    c.recomputes |= l.again.any();
    const bool leaves = i + 1 < layers.size() && layers[i + 1].on_host;  // with the next row
    c.bytes.slot += (l.on_host ? 0 : l.saved) + (l.head || passes(i + 1) || leaves ? 0 : s.stream());
    if (l.on_host) {
      const std::int64_t row = l.saved + (i > 0 ? s.stream() : 0);
      c.bytes.host += row;
      c.host_row = std::max(c.host_row, row);
      ++c.host_rows;
    }
    if (l.again.shard_input) c.bytes.slot += line(bytes_of(s.residual, s.ts * s.c / s.tp));
    c.bytes.kept += l.kept + l.again_weight + (i > 0 ? s.stream() : 0);
    if (!l.again.input) group = 0;
    group += l.again_input + (whole ? l.again_weight : 0) + (l.again.output ? s.stream() : 0) +
             (l.again.shard_input ? s.stream() : 0);
    c.bytes.recompute = std::max(c.bytes.recompute, group);
    c.forward_only = std::max(c.forward_only, l.saved + l.forward);
    c.scratch = std::max({c.scratch, passing + l.forward, l.recompute, whole ? l.backward : 0, split ? l.input : 0,
                          split ? l.weight : 0});
  }
  if (!split) c.bytes.kept = 0;
  return c;
}

std::int64_t most(const std::vector<ChunkBytes>& chunks, std::int64_t ChunkBytes::* bytes) {
  std::int64_t n = 0;
  for (const auto& c : chunks) n = std::max(n, c.*bytes);
  return n;
}

// A place is as large as the largest chunk it serves.
std::vector<std::int64_t> sizes_of(const PlaceTable& places, const std::vector<ChunkBytes>& chunks,
                                   std::int64_t ChunkBytes::* bytes) {
  std::vector<std::int64_t> sizes;
  for (int p = 0; p < places.size(); ++p) {
    sizes.push_back(0);
    for (const int c : places.chunks(p)) sizes.back() = std::max(sizes.back(), chunks[static_cast<std::size_t>(c)].*bytes);
  }
  return sizes;
}

// Everything but the sum over slots. `use` says which acts there are.
MemoryPlan plan_rank(const ModelSpec& model, const ParallelSpec& parallel, const BatchSpec& batch,
                     const Coordinate& coordinate, const StateSpec& state, const Lane& lane, const LaneUse& use,
                     int host_layers) {
  MemoryPlan plan;
  const DType compute = state.compute;
  const auto specs = param_specs(model, parallel, coordinate);
  const Parameters parameters = add_parameters(plan, specs, shard_spec(parallel, coordinate), state);
  plan.optimizer_bytes = optimizer_bytes(specs, parallel, coordinate, state);
  plan.host_bytes = host_optimizer_bytes(specs, parallel, coordinate, state);
  const std::int64_t t = batch.tokens_per_micro_batch() / parallel.cp;
  const Sizes s{t, t / parallel.sequence_shards(), model.hidden, compute, residual_dtype(model, compute),
                parallel.sequence_parallel && parallel.tp > 1, parallel.tp};
  // ids, labels, mask, positions (4 bytes), ordinals (8), sequence bounds; of parts the bounds, and places beside positions
  const std::int64_t tokens = (batch.parts ? 5 : 4) * line(4 * t) + line(8 * t) +
                              line(4 * ((batch.parts ? batch.tokens_per_micro_batch() : batch.micro_batch) + 1));
  bool head = false, table = false;
  std::int64_t host_rows = 0, host_row = 0;
  std::vector<std::vector<LayerBuckets>> opened;
  std::int64_t kept = tokens;  // of a forward-only pass, by the chunks before
  for (int c = 0; c < parallel.vpp; ++c) {
    const auto content = stage_content(model, parallel, coordinate.pp, c);
    const auto layers = layers_of(model, parallel, batch, s, content, host_layers);
    Chunk chunk = plan_chunk(layers, s, use.whole_backward, use.split_backward);
    table = table || content.embedding;
    opened.emplace_back();
    for (const auto& l : layers) {
      plan.fp8_weight_bytes += l.rounded_weights;
      opened.back().push_back(buckets_of(parameters, l.unit, l.head && model.tied && table, parallel.zero_stage, state));
      opened.back().back().again = l.again;
    }
    const int stage = parallel.stage(coordinate.pp, c);
    const bool arrives = stage > 0 && parallel.pp_rank_of_stage(stage - 1) != coordinate.pp;
    kept += (arrives ? 3 : 2) * s.stream() + (content.head ? line(4 * t) : 0);
    plan.forward_only_scratch_bytes = std::max(plan.forward_only_scratch_bytes, kept + chunk.forward_only);
    chunk.bytes.slot += tokens;
    if (parallel.pp > 1) chunk.bytes.slot += (content.embedding ? 0 : s.stream()) + (content.head ? 0 : s.stream());
    plan.chunks.push_back(chunk.bytes);
    plan.scratch_bytes = std::max(plan.scratch_bytes, chunk.scratch);
    head |= content.head;
    host_row = std::max(host_row, chunk.host_row);
    host_rows = std::max(host_rows, chunk.host_rows);
  }
  plan.other_bytes += std::min<std::int64_t>(host_rows, kRowBuffers) * host_row;
  if (parallel.zero_stage >= 2) plan.bucket_bytes = open_bucket_bytes(lane, opened);
  plan.slot_bytes = most(plan.chunks, &ChunkBytes::slot);
  if (use.whole_backward) plan.other_bytes += 2 * s.stream();
  plan.other_bytes += std::min(use.gradients_sent, kGradientBuffers) * s.stream();
  if (head) plan.other_bytes += batch.num_micro_batches(parallel) * line(4 * t);
  for (const auto& row : model.decoder().rows)
    if (row.kind == RowKind::attention && row.attention.rotary.on) {
      const std::int64_t turning =
          static_cast<std::int64_t>(row.attention.head_dim * row.attention.rotary.percent) / 2 * 2;
      plan.other_bytes += parallel.vpp * 4 * turning *
                          std::max({batch.seq_length, batch.max_positions, model.max_positions});
      break;
    }
  return plan;
}

}  // namespace

MemoryPlan plan_memory(const ModelSpec& model, const ParallelSpec& parallel, const BatchSpec& batch,
                       const Coordinate& coordinate, const StateSpec& state, const Lane& lane, int host_layers) {
  std::vector<bool> recomputes;
  for (int c = 0; c < parallel.vpp; ++c) {
    const auto content = stage_content(model, parallel, coordinate.pp, c);
    recomputes.push_back(false);
    for (int i = content.first_row; i < content.last_row; ++i)
      recomputes.back() = recomputes.back() || row_recompute(model, parallel, i + 1).any();
  }
  const LaneUse use = lane_use(lane, recomputes);
  MemoryPlan plan = plan_rank(model, parallel, batch, coordinate, state, lane, use, host_layers);
  plan.slots = use.slots.size();
  plan.arenas = {sizes_of(use.slots, plan.chunks, &ChunkBytes::slot),
                 sizes_of(use.kept, plan.chunks, &ChunkBytes::kept),
                 sizes_of(use.recompute, plan.chunks, &ChunkBytes::recompute), {}};
  if (host_layers > 0) plan.arenas.host = sizes_of(use.slots, plan.chunks, &ChunkBytes::host);
  plan.host_bytes = std::accumulate(plan.arenas.host.begin(), plan.arenas.host.end(), plan.host_bytes);
  for (const auto* sizes : {&plan.arenas.slots, &plan.arenas.kept, &plan.arenas.recompute})
    plan.activation_bytes = std::accumulate(sizes->begin(), sizes->end(), plan.activation_bytes);
  return plan;
}

MemoryPlan plan_memory(const ModelSpec& model, const ParallelSpec& parallel, const BatchSpec& batch,
                       const Coordinate& coordinate, const StateSpec& state, int max_in_flight) {
  LaneUse use;
  use.whole_backward = true;
  use.gradients_sent = parallel.pp > 1 && coordinate.pp + parallel.vpp > 1 ? kGradientBuffers : 0;
  Lane lane;
  for (const Act act : {Act::forward, Act::backward})
    for (int c = 0; c < parallel.vpp; ++c) lane.push_back({.act = act, .chunk = c});
  MemoryPlan plan = plan_rank(model, parallel, batch, coordinate, state, lane, use, 0);
  plan.slots = max_in_flight;
  plan.activation_bytes = plan.slots * plan.slot_bytes + most(plan.chunks, &ChunkBytes::recompute);
  return plan;
}

}  // namespace mt
