#include <chrono>
#include <thread>

#include "base/clock.h"
#include "base/error.h"
#include "engine/executor.h"
#include "ops/arithmetic.h"

namespace mt {

namespace {

constexpr auto kPoll = std::chrono::microseconds(500);  // messages move when polled, as beside real compute

// Asleep, not busy: more ranks than cores can wait at once.
void wait_until(Communicator& world, Clock::time_point end) {
  for (;;) {
    world.progress();
    const auto now = Clock::now();
    if (now >= end) return;
    std::this_thread::sleep_for(std::min<Clock::duration>(end - now, kPoll));
  }
}

}  // namespace

void Executor::spend(const Step& step, double model_ms, const OfLayer& begin, const OfLayer& end) {
  const auto start = Clock::now();
  const auto layers = model(step.chunk).layers().size();
  const double ms = model_ms / static_cast<double>(chunks_.size());
  const auto after = [&](std::size_t n, std::size_t of) {
    return start + std::chrono::nanoseconds(std::int64_t(ms * 1e6 * static_cast<double>(n) / static_cast<double>(of)));
  };
  auto& world = *parts_.groups.world;
  if (layers == 0) return wait_until(world, after(1, 1));
  for (std::size_t n = 0; n < layers; ++n) {
    const std::size_t i = step.act == Act::forward ? n : layers - 1 - n;
    begin(i);
    wait_until(world, after(n + 1, layers));
    end(i);
  }
}

void Executor::emulate_forward(const Step& step, LaneInput& input) {
  Slot& slot = slot_of(step);
  slot.x_arrives.wait(parts_.stream);
  slot.x_arrives = Handle();
  spend(
      step, parts_.emulated_ms->forward,
      [&](std::size_t i) { need(step.chunk, i, static_cast<std::ptrdiff_t>(i) + 1); },
      [&](std::size_t i) { done(step.chunk, i); });
  if (model(step.chunk).content().head)
    ops::fill(parts_.stream, input.losses[static_cast<std::size_t>(step.micro_batch)], 0);
  else
    slot.y = stream_view(*slot.arena, batch_.tokens_per_micro_batch());
}

// The weights a group needs to be made again; the last one's stay for its backward.
void Executor::emulate_recompute(const Step& step, std::size_t last) {
  Slot& slot = slot_of(step);
  slot.fresh = first_of_group(step.chunk, last);
  for (std::size_t i = slot.fresh; i <= last; ++i) {
    need(step.chunk, i, i < last ? static_cast<std::ptrdiff_t>(i) + 1 : -1);
    if (i < last) done(step.chunk, i);
  }
}

void Executor::emulate_backward(const Step& step, bool last) {
  Slot& slot = slot_of(step);
  slot.dy_arrives.wait(parts_.stream);
  slot.dy_arrives = Handle();
  slot.dx = input_gradient(step);
  const auto& layers = model(step.chunk).layers();
  spend(
      step, parts_.emulated_ms->backward_input + parts_.emulated_ms->backward_weight,
      [&](std::size_t i) {
        if (layers[i].again.any() && i < slot.fresh) emulate_recompute(step, i);
        need(step.chunk, i, next_of_backward(slot, step.chunk, i));
        parts_.params.begin_backward(parts_.stream, layers[i].unit, step.micro_batch);
      },
      [&](std::size_t i) {
        done(step.chunk, i);
        parts_.params.end_backward(parts_.stream, parts_.groups, layers[i].unit, last);
      });
}

void Executor::emulate_backward_input(const Step& step) {
  Slot& slot = slot_of(step);
  slot.dy_arrives.wait(parts_.stream);
  slot.dy_arrives = Handle();
  if (slot.kept == nullptr) slot.kept = &kept_arenas_.at(kept_arenas_.take(step.chunk, step.micro_batch));
  slot.dx = input_gradient(step);
  const auto& layers = model(step.chunk).layers();
  spend(
      step, parts_.emulated_ms->backward_input,
      [&](std::size_t i) {
        if (layers[i].again.any() && i < slot.fresh) emulate_recompute(step, i);
        need(step.chunk, i, next_of_backward(slot, step.chunk, i));
        parts_.params.begin_vectors(parts_.stream, layers[i].unit, step.micro_batch);
      },
      [&](std::size_t i) { done(step.chunk, i); });
}

void Executor::emulate_backward_weight(const Step& step, bool last) {
  const auto& layers = model(step.chunk).layers();
  spend(
      step, parts_.emulated_ms->backward_weight,
      [&](std::size_t i) { parts_.params.begin_backward(parts_.stream, layers[i].unit, step.micro_batch); },
      [&](std::size_t i) { parts_.params.end_backward(parts_.stream, parts_.groups, layers[i].unit, last); });
  kept_arenas_.give_back(step.chunk, step.micro_batch);
}

void Executor::emulate(const Step& step, bool last, LaneInput& input) {
  const auto& layers = model(step.chunk).layers();
  switch (step.act) {
    case Act::forward: return emulate_forward(step, input);
    case Act::backward: return emulate_backward(step, last);
    case Act::backward_input: return emulate_backward_input(step);
    case Act::backward_weight: return emulate_backward_weight(step, last);
    case Act::recompute:
      for (std::size_t i = layers.size(); i-- > 0;)
        if (layers[i].again.any()) {
          emulate_recompute(step, i);
          break;
        }
      return spend(step, parts_.emulated_ms->recompute, [](std::size_t) {}, [](std::size_t) {});
    default: MT_CHECK(false, "{} is not an act this executor knows", act_name(step.act));
  }
}

}  // namespace mt
