#include "engine/executor.h"

#include <algorithm>

#include "base/error.h"
#include "ops/arithmetic.h"

namespace mt {

Executor::Executor(const ExecutorParts& parts, std::vector<const Model*> chunks, const BatchSpec& batch, Device device)
    : parts_(parts),
      chunks_(std::move(chunks)),
      batch_(batch),
      device_(device),
      scratch_(device, parts.scratch_bytes > 0 ? parts.scratch_bytes : std::size_t{1} << 20),
      losses_(device, 4096),
      slot_arenas_(device, parts.arenas.slots),
      kept_arenas_(device, parts.arenas.kept),
      again_arenas_(device, parts.arenas.recompute),
      messages_(static_cast<std::size_t>(parts.gradient_buffers)) {
  MT_CHECK(static_cast<int>(chunks_.size()) == parts.groups.placement.spec.vpp, "{} chunks of {}", chunks_.size(),
           parts.groups.placement.spec.vpp);
  for (const Model* m : chunks_) asked_.emplace_back(m->layers().size(), false);
  find_host_rows();
  for (const Model* m : chunks_) {
    auto& tables = whole_backwards_.emplace_back();
    for (const SubLayer& layer : m->layers()) tables.push_back(whole_backward(layer, parts.tp_overlap));
  }
  if (parts.graph_warmup == 0) return;
  auto* messages = parts.groups.tp->size() > 1 ? comm::graph_capture(*parts.groups.world) : nullptr;
  MT_CHECK(messages || parts.groups.tp->size() == 1, "graphs over messages that go through the host");
  graphs_.emplace(parts.graph_warmup, messages);
}

Ctx Executor::context(const Tokens& tokens, Mode mode) {
  return Ctx{parts_.stream, parts_.groups, parts_.params, scratch_, tokens, parts_.seed, mode,
             nullptr,       {},            {},            parts_.fp8, mode == Mode::train, parts_.gemm_mode,
             parts_.tp_overlap, parts_.attention_mode};
}

// Residual stream of this rank's share of the tokens.
View Executor::stream_view(Arena& arena, std::int64_t tokens) const {
  const std::int64_t rows = tokens / parts_.groups.placement.spec.sequence_shards();
  return allocate(arena, stream_dtype(), {rows, chunks_[0]->spec().hidden});
}

// The slot of a micro-batch on a chunk. One that is used again has sent its y: the gradient of it has come back.
Executor::Slot& Executor::slot_of(const Step& step) {
  if (const int place = slot_arenas_.find(step.chunk, step.micro_batch); place >= 0)
    return *slots_[static_cast<std::size_t>(place)];
  const auto place = static_cast<std::size_t>(slot_arenas_.take(step.chunk, step.micro_batch));
  if (place == slots_.size()) slots_.push_back(std::make_unique<Slot>());
  Slot& s = *slots_[place];
  for (auto& h : s.sending) h.wait(parts_.stream);
  s = Slot();
  s.place = static_cast<int>(place);
  s.arena = &slot_arenas_.at(static_cast<int>(place));
  s.fresh = model(step.chunk).layers().size();
  return s;
}

void Executor::release(const Step& step) { slot_arenas_.give_back(step.chunk, step.micro_batch); }

View Executor::message_buffer() {
  Message& m = messages_[next_message_];
  next_message_ = (next_message_ + 1) % messages_.size();
  m.leaving.wait(parts_.stream);
  m.leaving = Handle();
  const std::int64_t rows = batch_.tokens_per_micro_batch() / parts_.groups.placement.spec.sequence_shards();
  if (!m.buffer.view()) m.buffer = Tensor(device_, stream_dtype(), {rows, chunks_[0]->spec().hidden});
  return m.buffer.view();
}

int Executor::fed_by(int chunk) const {
  const auto& parallel = parts_.groups.placement.spec;
  const int pp_rank = parts_.groups.coordinate.pp, stage = parallel.stage(pp_rank, chunk);
  if (stage == 0 || parallel.pp_rank_of_stage(stage - 1) != pp_rank) return -1;
  return (stage - 1) / parallel.pp;
}

// Where a chunk's input gradient goes: a message, or the slot of the chunk below it on this rank.
View Executor::input_gradient(const Step& step) {
  if (model(step.chunk).content().embedding) return {};
  const int below = fed_by(step.chunk);
  if (below < 0) return message_buffer();
  Slot& slot = slot_of({.chunk = below, .micro_batch = step.micro_batch});
  return slot.dy = stream_view(*slot.arena, batch_.tokens_per_micro_batch());
}

void Executor::need(int chunk, std::size_t layer, std::ptrdiff_t next) {
  const auto& layers = model(chunk).layers();
  auto& asked = asked_[static_cast<std::size_t>(chunk)];
  const auto ask = [&](std::size_t i) {
    if (asked[i]) return;
    for (int u : layers[i].weight_units) parts_.params.gather(parts_.stream, parts_.groups, u);
    asked[i] = true;
  };
  ask(layer);
  for (int u : layers[layer].weight_units) parts_.params.await_gather(parts_.stream, u);
  if (next >= 0 && next < std::ssize(layers)) ask(static_cast<std::size_t>(next));
}

void Executor::done(int chunk, std::size_t layer) {
  for (int u : model(chunk).layers()[layer].weight_units) parts_.params.release(u);
  asked_[static_cast<std::size_t>(chunk)][layer] = false;
}

void Executor::receive(const Step& step) {
  Slot& slot = slot_of(step);
  const View buffer = stream_view(*slot.arena, batch_.tokens_per_micro_batch());
  Handle arrives = parts_.groups.channels[static_cast<std::size_t>(step.channel)]->recv(parts_.stream, buffer, step.peer);
  if (step.act == Act::recv_activation) {
    slot.x = buffer;
    slot.x_arrives = std::move(arrives);
  } else {
    slot.dy = buffer;
    slot.dy_arrives = std::move(arrives);
  }
}

void Executor::send(const Step& step) {
  Slot& slot = slot_of(step);
  auto& channel = *parts_.groups.channels[static_cast<std::size_t>(step.channel)];
  if (step.act == Act::send_activation) {
    slot.sending.push_back(channel.send(parts_.stream, slot.y, step.peer));
    return;
  }
  const auto message = std::find_if(messages_.begin(), messages_.end(),
                                    [&](const Message& m) { return m.buffer.view().data == slot.dx.data; });
  message->leaving = channel.send(parts_.stream, slot.dx, step.peer);
}

void Executor::forward(const Step& step, LaneInput& input) {
  Slot& slot = slot_of(step);
  const auto m = static_cast<std::size_t>(step.micro_batch);
  slot.tokens = upload(parts_.stream, *slot.arena, input.batches[m], input.loss_scale, parts_.loss_scale);
  slot.x_arrives.wait(parts_.stream);
  slot.x_arrives = Handle();
  if (const int below = fed_by(step.chunk); below >= 0) {  // a copy: the slot below may end before this one
    slot.x = stream_view(*slot.arena, slot.tokens.count());
    ops::cast(parts_.stream, {.x = slot_of({.chunk = below, .micro_batch = step.micro_batch}).y, .out = slot.x});
  }
  const View loss = model(step.chunk).content().head ? input.losses[m] : View();
  graphs_ ? forward_by_graph(step, slot, loss) : forward_layers(step, slot, loss);
}

void Executor::forward_layers(const Step& step, Slot& slot, const View& token_loss) {
  Ctx ctx = context(slot.tokens, Mode::train);
  const Model& chunk = model(step.chunk);
  const auto& layers = chunk.layers();
  ctx.token_loss = token_loss;
  const auto passes = [&](std::size_t i) { return i < layers.size() && (layers[i].again.input || layers[i].again.shard_input); };
  ArenaScope all(scratch_);
  View passing[2];  // outputs that are made again, or kept as shares
  for (std::size_t i = 0; i < layers.size() && !passing[0]; ++i)
    if (passes(i)) passing[0] = stream_view(scratch_, slot.tokens.count()), passing[1] = stream_view(scratch_, slot.tokens.count());
  View x = slot.x;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const SubLayer& layer = layers[i];
    need(step.chunk, i, static_cast<std::ptrdiff_t>(i) + 1);
    ArenaScope scope(scratch_);
    slot.inputs.push_back(kept_input(slot, layer, x));
    slot.saved.push_back(allocate_saved(saved_arena(slot, step.chunk, i), scratch_, layer, x));
    Flow flow;
    flow.x = x;
    flow.saved = &slot.saved.back();
    const bool head = i + 1 == layers.size() && chunk.content().head;
    if (!head) flow.y = passes(i + 1) ? passing[i % 2] : next_input(slot, step.chunk, i);
    run(layer.forward, ctx, flow);
    if (const int row = host_row(step.chunk, i); row >= 0)
      on_host_->leave(parts_.stream, step.chunk, slot.place, static_cast<std::size_t>(row));
    x = flow.y;
    done(step.chunk, i);
    if (!graphs_) parts_.groups.world->progress();
  }
  slot.y = x;
}

void Executor::backward(const Step& step, bool last) {
  Slot& slot = slot_of(step);
  if (on_host_) on_host_->fetch(parts_.stream, step.chunk, slot.place);
  slot.dy_arrives.wait(parts_.stream);
  slot.dy_arrives = Handle();
  const std::int64_t rows = slot.tokens.count() / parts_.groups.placement.spec.sequence_shards();
  for (auto& g : gradients_)
    if (!g.view()) g = Tensor(device_, stream_dtype(), {rows, model(step.chunk).spec().hidden});
  slot.dx = input_gradient(step);
  graphs_ ? backward_by_graph(step, slot, last) : backward_layers(step, slot, last);
  if (slot.again != nullptr) again_arenas_.give_back(step.chunk, step.micro_batch);
}

void Executor::backward_layers(const Step& step, Slot& slot, bool last) {
  Ctx ctx = context(slot.tokens, Mode::train);
  const Model& chunk = model(step.chunk);
  if (chunk.layers().empty()) ops::cast(parts_.stream, {.x = slot.dy, .out = slot.dx});  // it passes through
  View dy = slot.dy;
  int turn = 0;
  for (std::size_t i = chunk.layers().size(); i-- > 0;) {
    const SubLayer& layer = chunk.layers()[i];
    recompute_before_backward(step, i, false);
    need(step.chunk, i, next_of_backward(slot, step.chunk, i));
    parts_.params.begin_backward(parts_.stream, layer.unit, step.micro_batch);
    ArenaScope scope(scratch_);
    Flow flow;
    flow.x = slot.inputs[i];
    flow.saved = &slot.saved[i];
    flow.kept = &scratch_;
    flow.dy = dy;
    flow.dx = i == 0 && slot.dx ? slot.dx : gradients_[turn].view();
    const int row = host_row(step.chunk, i);
    if (row >= 0) on_host_->await(parts_.stream, static_cast<std::size_t>(row));
    run(whole_backwards_[static_cast<std::size_t>(step.chunk)][i], ctx, flow);
    if (row >= 0) on_host_->done(parts_.stream, step.chunk, slot.place, static_cast<std::size_t>(row));
    done(step.chunk, i);
    if (!graphs_) parts_.params.end_backward(parts_.stream, parts_.groups, layer.unit, last);
    dy = flow.dx;
    turn = 1 - turn;
    if (!graphs_) parts_.groups.world->progress();
  }
}

// Input gradients alone; what the weight gradients need later stays in slot.kept and slot.flows.
void Executor::backward_input(const Step& step) {
  Slot& slot = slot_of(step);
  slot.dy_arrives.wait(parts_.stream);
  slot.dy_arrives = Handle();
  Ctx ctx = context(slot.tokens, Mode::train);
  const Model& chunk = model(step.chunk);
  slot.flows.resize(chunk.layers().size());
  if (slot.kept == nullptr) slot.kept = &kept_arenas_.at(kept_arenas_.take(step.chunk, step.micro_batch));
  slot.dx = input_gradient(step);
  if (chunk.layers().empty()) ops::cast(parts_.stream, {.x = slot.dy, .out = slot.dx});  // it passes through
  View dy = slot.dy;
  for (std::size_t i = chunk.layers().size(); i-- > 0;) {
    const SubLayer& layer = chunk.layers()[i];
    recompute_before_backward(step, i, true);
    need(step.chunk, i, next_of_backward(slot, step.chunk, i));
    parts_.params.begin_vectors(parts_.stream, layer.unit, step.micro_batch);
    ArenaScope scope(scratch_);
    Flow& flow = slot.flows[i];
    flow.x = slot.inputs[i];
    flow.saved = &slot.saved[i];
    flow.kept = slot.kept;
    flow.dy = dy;
    flow.dx = i == 0 ? slot.dx : stream_view(*slot.kept, slot.tokens.count());
    run(layer.backward_input, ctx, flow);
    done(step.chunk, i);
    dy = flow.dx;
    parts_.groups.world->progress();
  }
  if (slot.again != nullptr) again_arenas_.give_back(step.chunk, step.micro_batch);
}

void Executor::backward_weight(const Step& step, bool last) {
  Slot& slot = slot_of(step);
  Ctx ctx = context(slot.tokens, Mode::train);
  const Model& chunk = model(step.chunk);
  for (std::size_t i = chunk.layers().size(); i-- > 0;) {
    const SubLayer& layer = chunk.layers()[i];
    ArenaScope scope(scratch_);
    parts_.params.begin_backward(parts_.stream, layer.unit, step.micro_batch);
    run(layer.backward_weight, ctx, slot.flows[i]);
    parts_.params.end_backward(parts_.stream, parts_.groups, layer.unit, last);
    parts_.groups.world->progress();
  }
  kept_arenas_.give_back(step.chunk, step.micro_batch);
}

void Executor::do_step(const Step& step, bool last, LaneInput& input) {
  const bool message = is_send(step.act) || is_recv(step.act);
  if (parts_.emulated_ms != nullptr && !message) return emulate(step, last, input);
  switch (step.act) {
    case Act::forward: return forward(step, input);
    case Act::backward: return backward(step, last);
    case Act::backward_input: return backward_input(step);
    case Act::backward_weight: return backward_weight(step, last);
    case Act::recompute: return recompute_last_group(step, input.split);
    case Act::send_activation:
    case Act::send_gradient: return send(step);
    case Act::recv_activation:
    case Act::recv_gradient: return receive(step);
    default: MT_CHECK(false, "{} is not an act this executor knows", act_name(step.act));
  }
}

std::vector<std::vector<float>> Executor::run_lane(const Lane& lane, const std::vector<HostBatch>& batches,
                                                   double loss_scale,
                                                   const std::function<void(const Step&)>& on_step) {
  losses_.reset();
  LaneInput input{batches, loss_scale, {}, false};
  const bool head = chunks_.back()->content().head;
  for (const auto& b : batches)
    if (head) input.losses.push_back(allocate(losses_, DType::f32, {static_cast<std::int64_t>(b.ids.size())}));
  // Of each chunk, the step after which no gradient is added to it.
  std::vector<std::size_t> last(chunks_.size(), lane.size());
  for (std::size_t i = 0; i < lane.size(); ++i)
    if (lane[i].act == Act::backward || lane[i].act == Act::backward_weight)
      last[static_cast<std::size_t>(lane[i].chunk)] = i;
  const std::vector<bool> slot_ends = last_steps(lane);
  for (std::size_t i = 0; i < lane.size(); ++i) {
    if (on_step) on_step(lane[i]);
    input.split = lane[i].act == Act::recompute && splits_backward(lane, i);
    do_step(lane[i], i == last[static_cast<std::size_t>(lane[i].chunk)], input);
    if (slot_ends[i]) release(lane[i]);
  }
  parts_.params.sum_tied(parts_.stream, parts_.groups);
  parts_.params.finish_reduce(parts_.stream, parts_.groups);
  for (auto& s : slots_) {
    for (auto& h : s->sending) h.wait(parts_.stream);
    s->sending.clear();
  }
  for (auto& m : messages_) {
    m.leaving.wait(parts_.stream);
    m.leaving = Handle();
  }
  auto out = read_floats(parts_.stream, input.losses);
  if (!head) out.resize(batches.size());
  return out;
}

Executor::Memory Executor::memory() const {
  Memory m;
  m.slots = slot_arenas_.high_water();
  m.kept = kept_arenas_.high_water();
  m.recompute = again_arenas_.high_water();
  m.scratch = scratch_.high_water();
  m.other = losses_.high_water();
  for (const auto& g : gradients_) m.other += static_cast<std::size_t>(g.bytes());
  for (const auto& message : messages_) m.other += static_cast<std::size_t>(message.buffer.bytes());
  m.other += static_cast<std::size_t>(graph_loss_.bytes());
  if (on_host_) {
    m.other += on_host_->device_bytes();
    m.host = on_host_->host_bytes();
  }
  return m;
}

}  // namespace mt
