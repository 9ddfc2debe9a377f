#include "engine/step_graphs.h"

#include "base/error.h"
#include "engine/executor.h"
#include "ops/arithmetic.h"

namespace mt {

bool StepGraphs::run(Stream& stream, Act& act, const std::function<void()>& work) {
  const bool known = static_cast<bool>(act.graph);
  if (!known && act.runs++ < warmup_) {
    work();
    return true;
  }
  if (!known) {
    act.graph = Graph::capture(stream, work);
    ++captured_;
  }
  act.graph.launch(stream);
  ++launched_;
  return !known;
}

namespace {

std::uintptr_t number(const void* p) { return reinterpret_cast<std::uintptr_t>(p); }

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
    act.left = {slot.saved, slot.inputs, slot.y, slot.arena->used() - before, slot.arena->mark()};
  if (!ran) {
    slot.saved = act.left.saved;
    slot.inputs = act.left.inputs;
    slot.y = act.left.y;
    if (act.left.arena_bytes > 0) slot.arena->allocate(act.left.arena_bytes);
    const auto at = slot.arena->mark();
    MT_CHECK(at.block == act.left.arena.block && at.used == act.left.arena.used, "an arena at {} {}, not {} {}", at.block,
             at.used, act.left.arena.block, act.left.arena.used);
  }
  if (loss) ops::cast(parts_.stream, {.x = graph_loss_.view(), .out = loss});
}

void Executor::backward_by_graph(const Step& step, Slot& slot, bool last) {
  auto& act = graphs_->act({1, static_cast<std::uintptr_t>(step.chunk), number(slot.x.data), number(slot.dy.data),
                            number(slot.dx.data), number(slot.inputs.empty() ? nullptr : slot.inputs.back().data),
                            number(slot.tokens.ids.data)});
  graphs_->run(parts_.stream, act, [&] { backward_layers(step, slot, last); });
  const auto& layers = model(step.chunk).layers();
  for (std::size_t i = layers.size(); i-- > 0;)
    parts_.params.end_backward(parts_.stream, parts_.groups, layers[i].unit, last);
}

}  // namespace mt
