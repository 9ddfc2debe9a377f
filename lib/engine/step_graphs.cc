#include "engine/step_graphs.h"

#include <algorithm>

#include "base/error.h"
#include "engine/executor.h"
#include "ops/arithmetic.h"

namespace mt {

void StepGraphs::capture(Stream& stream, Act& act, const std::function<void()>& work) {
  if (!messages_) {
    act.graph = Graph::capture(stream, work);
    return;
  }
  messages_->begin_capture();
  try {
    act.graph = Graph::capture(stream, work);
  } catch (...) {
    messages_->end_capture();
    throw;
  }
  act.operations = messages_->end_capture();
}

bool StepGraphs::run(Stream& stream, Act& act, const std::function<void()>& work) {
  const bool known = static_cast<bool>(act.graph);
  if (!known && act.runs++ < warmup_) {
    work();
    return true;
  }
  if (!known) {
    capture(stream, act, work);
    ++captured_;
  }
  if (act.operations) act.operations->before_launch(stream);
  act.graph.launch(stream);
  if (act.operations) act.operations->after_launch(stream);
  ++launched_;
  return !known;
}

namespace {

std::uintptr_t number(const void* p) { return reinterpret_cast<std::uintptr_t>(p); }

// What an act took of an arena is taken when its graph is launched, too.
void take_again(Arena& arena, std::size_t bytes, Arena::Mark end) {
  if (bytes > 0) arena.allocate(bytes);
  const auto at = arena.mark();
  MT_CHECK(at.block == end.block && at.used == end.used, "an arena at {} {}, not {} {}", at.block, at.used, end.block,
           end.used);
}

}  // namespace

// The loss goes by way of one place for all micro-batches, so that they share a graph.
void Executor::forward_by_graph(const Step& step, Slot& slot, const View& loss) {
  parts_.params.await_gathers(parts_.stream);
  if (loss && !graph_loss_.view()) graph_loss_ = Tensor(device_, DType::f32, loss.shape);
  auto& act = graphs_->act({0, static_cast<std::uintptr_t>(step.chunk), number(slot.x.data), slot.arena->used(),
                            number(slot.tokens.ids.data)});
  const std::size_t before = slot.arena->used();
  const bool ran = graphs_->run(parts_.stream, act, [&] { forward_layers(step, slot, loss ? graph_loss_.view() : View()); });
  if (ran && act.graph)
    act.left = {slot.saved, slot.inputs, slot.y, slot.arena->used() - before, slot.arena->mark(), slot.fresh};
  if (!ran) {
    slot.saved = act.left.saved;
    slot.inputs = act.left.inputs;
    slot.y = act.left.y;
    take_again(*slot.arena, act.left.arena_bytes, act.left.arena);
  }
  if (loss) ops::cast(parts_.stream, {.x = graph_loss_.view(), .out = loss});
}

void Executor::recompute_by_graph(const Step& step, std::size_t last) {
  Slot& slot = slot_of(step);
  again_arena(step, slot);
  auto& act = graphs_->act({2, static_cast<std::uintptr_t>(step.chunk), number(slot.x.data), number(slot.again),
                            number(slot.inputs.back().data), number(slot.tokens.ids.data)});
  const bool ran = graphs_->run(parts_.stream, act, [&] { recompute(step, last, false); });
  if (ran && act.graph) act.left = {slot.saved, slot.inputs, {}, slot.again->used(), slot.again->mark(), slot.fresh};
  if (ran) return;
  slot.saved = act.left.saved;
  slot.inputs = act.left.inputs;
  slot.fresh = act.left.fresh;
  slot.again->reset();
  take_again(*slot.again, act.left.arena_bytes, act.left.arena);
}

void Executor::backward_by_graph(const Step& step, Slot& slot, bool last) {
  const auto& all = model(step.chunk).layers();
  if (std::any_of(all.begin(), all.end(), [](const SubLayer& l) { return l.again.any(); })) again_arena(step, slot);
  auto& act = graphs_->act({1, static_cast<std::uintptr_t>(step.chunk), number(slot.x.data), number(slot.dy.data),
                            number(slot.dx.data), number(slot.inputs.empty() ? nullptr : slot.inputs.back().data),
                            number(slot.tokens.ids.data), number(slot.again), slot.fresh});
  graphs_->run(parts_.stream, act, [&] { backward_layers(step, slot, last); });
  for (std::size_t i = all.size(); i-- > 0;)
    parts_.params.end_backward(parts_.stream, parts_.groups, all[i].unit, last);
}

}  // namespace mt
