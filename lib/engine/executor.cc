#include "engine/executor.h"

#include <algorithm>

#include "base/error.h"
#include "ops/arithmetic.h"

namespace mt {

Executor::Executor(const ExecutorParts& parts, const Model& model, const BatchSpec& batch, Device device)
    : parts_(parts), model_(model), batch_(batch), device_(device), scratch_(device, parts.scratch_bytes), losses_(device, 4096) {
  const auto& parallel = parts.groups.placement.spec;
  MT_CHECK(parallel.pp == 1 && parallel.vpp == 1, "one chunk on one pipeline rank, got {}", parallel_text(parallel));
}

Ctx Executor::context(const Tokens& tokens, Mode mode) {
  return Ctx{parts_.stream, parts_.groups, parts_.params, scratch_, tokens, parts_.seed, mode, nullptr, {}, {}};
}

Executor::Slot& Executor::slot_of(int micro_batch) {
  for (auto& s : slots_)
    if (s->micro_batch == micro_batch) return *s;
  MT_CHECK(false, "micro-batch {} is not in flight", micro_batch);
  return *slots_.front();
}

namespace {

std::int64_t stream_rows(const Groups& groups, std::int64_t tokens) {
  return tokens / groups.placement.spec.sequence_shards();
}

}  // namespace

void Executor::need(std::size_t layer, std::ptrdiff_t next) {
  const auto ask = [&](std::size_t i) {
    if (asked_[i]) return;
    for (int u : model_.layers()[i].weight_units) parts_.params.gather(parts_.stream, parts_.groups, u);
    asked_[i] = true;
  };
  asked_.resize(model_.layers().size(), false);
  ask(layer);
  for (int u : model_.layers()[layer].weight_units) parts_.params.await_gather(parts_.stream, u);
  if (next >= 0 && next < std::ssize(model_.layers())) ask(static_cast<std::size_t>(next));
}

void Executor::done(std::size_t layer) {
  for (int u : model_.layers()[layer].weight_units) parts_.params.release(u);
  asked_[layer] = false;
}

void Executor::forward(const Step& step, const HostBatch& batch, double loss_scale, View token_loss) {
  auto free = std::find_if(slots_.begin(), slots_.end(), [](const auto& s) { return s->micro_batch < 0; });
  if (free == slots_.end()) free = slots_.insert(slots_.end(), std::make_unique<Slot>(device_, parts_.slot_bytes));
  Slot& slot = **free;
  slot.micro_batch = step.micro_batch;
  slot.arena.reset();
  slot.saved.clear();
  slot.inputs.clear();
  slot.tokens = upload(parts_.stream, slot.arena, batch, loss_scale);
  Ctx ctx = context(slot.tokens, Mode::train);
  ctx.token_loss = token_loss;
  const std::int64_t rows = stream_rows(parts_.groups, slot.tokens.count());
  View x;
  for (std::size_t i = 0; i < model_.layers().size(); ++i) {
    const SubLayer& layer = model_.layers()[i];
    need(i, static_cast<std::ptrdiff_t>(i) + 1);
    ArenaScope scope(scratch_);
    slot.inputs.push_back(x);
    slot.saved.push_back(allocate_saved(slot.arena, layer, x));
    Flow flow;
    flow.x = x;
    flow.saved = &slot.saved.back();
    const bool head = i + 1 == model_.layers().size() && model_.content().head;
    if (!head) flow.y = allocate(slot.arena, parts_.params.compute_dtype(), {rows, model_.spec().hidden});
    run(layer.forward, ctx, flow);
    x = flow.y;
    done(i);
    parts_.groups.dp_cp->progress();
  }
}

void Executor::backward(const Step& step, bool last) {
  Slot& slot = slot_of(step.micro_batch);
  Ctx ctx = context(slot.tokens, Mode::train);
  const std::int64_t rows = stream_rows(parts_.groups, slot.tokens.count());
  for (auto& g : gradients_)
    if (!g.view()) g = Tensor(device_, parts_.params.compute_dtype(), {rows, model_.spec().hidden});
  int turn = 0;
  for (std::size_t i = model_.layers().size(); i-- > 0;) {
    const SubLayer& layer = model_.layers()[i];
    need(i, static_cast<std::ptrdiff_t>(i) - 1);
    parts_.params.begin_backward(parts_.stream, layer.unit);
    ArenaScope scope(scratch_);
    Flow flow;
    flow.x = slot.inputs[i];
    flow.saved = &slot.saved[i];
    flow.kept = &scratch_;
    flow.dy = gradients_[turn];
    flow.dx = gradients_[1 - turn];
    run(layer.backward_input, ctx, flow);
    run(layer.backward_weight, ctx, flow);
    done(i);
    parts_.params.end_backward(parts_.stream, parts_.groups, layer.unit, last);
    turn = 1 - turn;
    parts_.groups.dp_cp->progress();
  }
  slot.micro_batch = -1;
}

std::vector<std::vector<float>> Executor::run_lane(const Lane& lane, const std::vector<HostBatch>& batches,
                                                   double loss_scale,
                                                   const std::function<void(const Step&)>& on_step) {
  losses_.reset();
  std::vector<View> losses;
  for (const auto& b : batches)
    losses.push_back(allocate(losses_, DType::f32, {static_cast<std::int64_t>(b.ids.size())}));
  const auto is_backward = [](const Step& s) { return s.act == Act::backward; };
  const auto last = std::find_if(lane.rbegin(), lane.rend(), is_backward);
  for (const Step& step : lane) {
    if (on_step) on_step(step);
    const auto m = static_cast<std::size_t>(step.micro_batch);
    if (step.act == Act::forward)
      forward(step, batches[m], loss_scale, losses[m]);
    else if (step.act == Act::backward)
      backward(step, &step == &*last);
    else
      MT_CHECK(false, "{} is not an act of a single stage", act_name(step.act));
  }
  parts_.params.finish_reduce(parts_.stream);
  parts_.stream.synchronize();
  std::vector<std::vector<float>> out;
  for (const View& v : losses) out.emplace_back(v.as<float>(), v.as<float>() + v.size());
  return out;
}

View Executor::run_forward_only(Ctx& ctx, std::int64_t tokens) {
  const std::int64_t rows = stream_rows(parts_.groups, tokens);
  const Shape shape{rows, model_.spec().hidden};
  const DType dtype = parts_.params.compute_dtype();
  const View residual[2] = {allocate(scratch_, dtype, shape), allocate(scratch_, dtype, shape)};
  View x, logits;
  int turn = 0;
  for (std::size_t i = 0; i < model_.layers().size(); ++i) {
    const SubLayer& layer = model_.layers()[i];
    need(i, static_cast<std::ptrdiff_t>(i) + 1);
    ArenaScope scope(scratch_);
    Saved saved = allocate_saved(scratch_, layer, x);
    Flow flow;
    flow.x = x;
    flow.y = residual[turn];
    flow.saved = &saved;
    run(layer.forward, ctx, flow);
    x = flow.y;
    turn = 1 - turn;
    done(i);
  }
  return ctx.last_logits;
}

std::vector<float> Executor::score(const HostBatch& batch) {
  ArenaScope scope(scratch_);
  const Tokens tokens = upload(parts_.stream, scratch_, batch, 1.0);
  Ctx ctx = context(tokens, Mode::evaluate);
  ctx.token_loss = allocate(scratch_, DType::f32, {tokens.count()});
  run_forward_only(ctx, tokens.count());
  parts_.stream.synchronize();
  const float* loss = ctx.token_loss.as<float>();
  return {loss, loss + tokens.count()};
}

std::vector<float> Executor::next_logits(const HostBatch& batch, std::vector<KvCache>& caches) {
  ArenaScope scope(scratch_);
  const Tokens tokens = upload(parts_.stream, scratch_, batch, 1.0);
  Ctx ctx = context(tokens, Mode::generate);
  ctx.caches = &caches;
  const View logits = run_forward_only(ctx, tokens.count());
  // The layer's scratch is free again but nothing was launched since: the last row is still there.
  auto& tp = *parts_.groups.tp;
  const std::int64_t local = logits.dim(1);
  const View last = allocate(losses_, DType::f32, {local}), all = allocate(losses_, DType::f32, {local * tp.size()});
  ops::cast(parts_.stream, {.x = logits.rows(tokens.count() - 1, tokens.count()).reshape({local}), .out = last});
  tp.all_gather(parts_.stream, last, all).wait_host();
  parts_.stream.synchronize();
  std::vector<float> out(all.as<float>(), all.as<float>() + model_.spec().vocab_size);
  losses_.reset();
  return out;
}

std::vector<KvCache> Executor::make_caches(Arena& arena, std::int64_t capacity) const {
  std::vector<KvCache> caches(static_cast<std::size_t>(num_units(model_.spec())));
  const auto& rows = model_.spec().decoder().rows;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].kind != RowKind::attention) continue;
    const auto& a = rows[i].attention;
    const std::int64_t heads = std::max(1, a.kv_heads / parts_.groups.tp->size());
    for (View KvCache::* which : {&KvCache::k, &KvCache::v})
      caches[i + 1].*which = allocate(arena, parts_.params.compute_dtype(), {capacity, heads, a.head_dim});
  }
  return caches;
}

Executor::Memory Executor::memory() const {
  Memory m;
  for (const auto& s : slots_) m.slots += s->arena.high_water();
  m.scratch = scratch_.high_water();
  return m;
}

}  // namespace mt
