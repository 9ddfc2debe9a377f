#include "engine/executor.h"
#include "ops/arithmetic.h"

namespace mt {

View Executor::kept_input(Slot& slot, const SubLayer& layer, View x) {
  if (!layer.again.shard_input) return x;
  const auto& tp = *parts_.groups.tp;
  const std::int64_t n = x.size() / tp.size();
  const View share = allocate(*slot.arena, x.dtype, {n});
  ops::cast(parts_.stream, {.x = x.reshape({x.size()}).rows(n * tp.rank(), n * (tp.rank() + 1)), .out = share});
  return share;
}

View Executor::whole_input(Slot& slot, const SubLayer& layer, View kept) {
  if (!layer.again.shard_input) return kept;
  const View x = stream_view(*slot.again, slot.tokens.count());
  parts_.groups.tp->all_gather(parts_.stream, kept, x.reshape({x.size()})).wait(parts_.stream);
  return x;
}

std::size_t Executor::first_of_group(int chunk, std::size_t layer) const {
  while (model(chunk).layers()[layer].again.input) --layer;
  return layer;
}

std::ptrdiff_t Executor::next_of_backward(const Slot& slot, int chunk, std::size_t layer) const {
  const auto before = static_cast<std::ptrdiff_t>(layer) - 1;
  if (before < 0 || layer > slot.fresh) return before;
  return static_cast<std::ptrdiff_t>(first_of_group(chunk, layer - 1));
}

void Executor::again_arena(const Step& step, Slot& slot) {
  if (slot.again == nullptr) slot.again = &again_arenas_.at(again_arenas_.take(step.chunk, step.micro_batch));
}

void Executor::recompute(const Step& step, std::size_t last, bool split) {
  Slot& slot = slot_of(step);
  const auto& layers = model(step.chunk).layers();
  again_arena(step, slot);
  if (split && slot.kept == nullptr) slot.kept = &kept_arenas_.at(kept_arenas_.take(step.chunk, step.micro_batch));
  slot.again->reset();
  Ctx ctx = context(slot.tokens, Mode::train);
  ctx.records = false;  // it has seen these values
  slot.fresh = first_of_group(step.chunk, last);
  View x = whole_input(slot, layers[slot.fresh], slot.inputs[slot.fresh]);
  for (std::size_t i = slot.fresh; i <= last; ++i) {
    const SubLayer& layer = layers[i];
    need(step.chunk, i, i < last ? static_cast<std::ptrdiff_t>(i) + 1 : -1);
    ArenaScope scope(scratch_);
    slot.inputs[i] = x;
    allocate_again(*slot.again, split ? *slot.kept : *slot.again, layer, x, slot.saved[i]);
    Flow flow;
    flow.x = x;
    flow.saved = &slot.saved[i];
    if (layer.again.output) flow.y = stream_view(*slot.again, slot.tokens.count());
    run(layer.again.output ? layer.forward : layer.recompute, ctx, flow);
    x = flow.y;
    if (i < last) done(step.chunk, i);  // the last one's weights stay for its backward
    if (!graphs_) parts_.groups.world->progress();
  }
}

void Executor::recompute_last_group(const Step& step, bool split) {
  const auto& layers = model(step.chunk).layers();
  for (std::size_t i = layers.size(); i-- > 0;)
    if (layers[i].again.any()) return graphs_ ? recompute_by_graph(step, i) : recompute(step, i, split);
}

void Executor::recompute_before_backward(const Step& step, std::size_t layer, bool split) {
  if (model(step.chunk).layers()[layer].again.any() && layer < slot_of(step).fresh) recompute(step, layer, split);
}

}  // namespace mt
