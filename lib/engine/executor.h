#pragma once
// Walks a lane: the one place where a schedule's steps become calls of sub-layers and messages.
//
//   chunk  one Model: a run of layers this pipeline rank holds
//   slot   memory of one micro-batch in flight on one chunk: tokens, saved tensors, residual stream, messages that arrive
// Which micro-batches share a slot is plan/lane_use.h's; what a slot holds is what plan/memory.h adds up.
// Saved tensors that are made again (layout/recompute.h) are lost after a layer's forward. A recompute act makes those of
// the last layers, while the gradient is on its way; the others are made each right before their backward.
// A training step is run_lane over the lane of this pipeline rank; forward-only passes are `score` and `next_logits`.
// Around each sub-layer its weights are gathered and its gradients reduced (params/parameter_store.h).
// Of rows whose saved tensors go to host memory, these and their inputs lie in engine/host_activations.h's buffers.
// With emulated compute an act is a wait of a given time; its messages, gathers and reductions are those of a real one.
// Code: engine/executor.cc, engine/recompute.cc, engine/emulated_compute.cc, engine/forward_only.cc. Tests: tests/engine/, tests/nn/, tests/train/.

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "engine/arena_pool.h"
#include "engine/batch.h"
#include "engine/host_activations.h"
#include "engine/step_graphs.h"
#include "nn/model.h"
#include "schedule/schedule.h"

namespace mt {

struct ExecutorParts {
  Stream& stream;
  const Groups& groups;
  ParameterStore& params;
  std::uint64_t seed = 0;
  // Sizes of the arenas' first blocks, from plan/memory.h; an arena that needs more grows. Empty, 0: small ones.
  ArenaSizes arenas;
  std::size_t scratch_bytes = 0;
  int gradient_buffers = 2;  // of gradients on their way to other stages, from schedule/message_buffers.h
  const float* loss_scale = nullptr;  // on the device: a further factor of every gradient
  Fp8State* fp8 = nullptr;            // where rows have fp8 products
  ops::GemmMode gemm_mode = {};       // of the layers' products
  ops::AttentionMode attention_mode = {};
  const Durations* emulated_ms = nullptr;  // acts compute nothing and take so long; needs tp 1, an immediate stream
  int host_layers = 0;  // saved tensors of so many layers of each chunk go to host memory; needs an accelerator, no
                        // recompute, no split backward
  int graph_warmup = 0;  // above 0: forwards and backwards that ran so often become graphs; needs an accelerator, ZeRO
                         // below 2, shapes that stay, whole backwards, nothing on the host; with tp messages that
                         // comm/graph_operations.h can capture
  TpOverlap tp_overlap = {};  // messages of tensor parallelism beside products
};

class Executor {
 public:
  // needs  `parts` and the models outlive it; chunks of this pipeline rank, ascending
  Executor(const ExecutorParts& parts, std::vector<const Model*> chunks, const BatchSpec& batch, Device device);
  Executor(const ExecutorParts& parts, const Model& model, const BatchSpec& batch, Device device)
      : Executor(parts, std::vector<const Model*>{&model}, batch, device) {}

  // Run every step of the lane; gradients are reduced at the end.
  //   needs  the lane of this pipeline rank, with its messages (insert_communication); all micro-batches on every rank;
  //          grads were zeroed
  //   gives  loss of every token of every micro-batch, [m][T], unmasked ones too, where this rank holds the head; empty
  //          vectors elsewhere
  //   on_step  called before each step of the lane (status page, tracing); may be empty
  std::vector<std::vector<float>> run_lane(const Lane& lane, const std::vector<HostBatch>& batches, double loss_scale,
                                           const std::function<void(const Step&)>& on_step);

  // Forward only through the whole pipeline: the loss of every token, dropout off; empty where there is no head.
  std::vector<float> score(const HostBatch& batch);

  // Forward of new tokens of one sequence over the caches.   needs  one stage
  //   gives  logits of the last token over the true vocabulary, the same on every tp rank
  std::vector<float> next_logits(const HostBatch& batch, std::vector<KvCache>& caches);

  // Empty caches for up to `capacity` tokens, by unit; memory lives in `arena`.
  std::vector<KvCache> make_caches(Arena& arena, std::int64_t capacity) const;

  // Bytes at their highest: arenas, and the residual gradients, messages and losses beside them.
  struct Memory {
    std::size_t slots = 0, kept = 0, recompute = 0, scratch = 0, other = 0;
    std::size_t host = 0;  // in host memory; not in the total
    std::size_t total() const { return slots + kept + recompute + scratch + other; }
  };
  Memory memory() const;
  // Null without.
  const StepGraphs* graphs() const { return graphs_ ? &*graphs_ : nullptr; }

 private:
  struct Slot {
    int place = 0;
    Arena* arena = nullptr;
    Arena* kept = nullptr;   // from an input gradient to its weight gradient
    Arena* again = nullptr;  // tensors made again
    std::size_t fresh = 0;   // layers from here on have all their saved tensors
    Tokens tokens;
    std::vector<Saved> saved;  // by layer
    std::vector<View> inputs;  // x of each layer, or this rank's share of it
    std::vector<Flow> flows;   // by layer, between input and weight gradients
    View x, y, dy, dx;         // at the chunk's ends; absent at the model's
    Handle x_arrives, dy_arrives;
    std::vector<Handle> sending;  // y
  };
  // A gradient on its way to another stage.
  struct Message {
    Tensor buffer;
    Handle leaving;
  };
  struct LaneInput {
    const std::vector<HostBatch>& batches;
    double loss_scale;
    std::vector<View> losses;  // by micro-batch, on the device
    bool split = false;        // this step's input gradient leaves its weight gradient to another
  };
  void do_step(const Step& step, bool last, LaneInput& input);
  void forward(const Step& step, LaneInput& input);
  void backward(const Step& step, bool last);
  void forward_layers(const Step& step, Slot& slot, const View& token_loss);
  void backward_layers(const Step& step, Slot& slot, bool last);
  void forward_by_graph(const Step& step, Slot& slot, const View& loss);
  void backward_by_graph(const Step& step, Slot& slot, bool last);
  void recompute_by_graph(const Step& step, std::size_t last);
  void backward_input(const Step& step);
  void backward_weight(const Step& step, bool last);
  void receive(const Step& step);
  void send(const Step& step);
  // The same acts without their arithmetic: losses are 0, gradients stay as they were.
  void emulate(const Step& step, bool last, LaneInput& input);
  void emulate_forward(const Step& step, LaneInput& input);
  void emulate_backward(const Step& step, bool last);
  void emulate_backward_input(const Step& step);
  void emulate_backward_weight(const Step& step, bool last);
  void emulate_recompute(const Step& step, std::size_t last);
  // `layer` after `layer`, each with its share of a chunk's part of `model_ms`: begin, wait, end.
  using OfLayer = std::function<void(std::size_t layer)>;
  void spend(const Step& step, double model_ms, const OfLayer& begin, const OfLayer& end);
  Slot& slot_of(const Step& step);
  void release(const Step& step);
  // Chunk of this rank that makes the input of this one, −1 when another rank does.
  int fed_by(int chunk) const;
  View input_gradient(const Step& step);
  View message_buffer();  // in turn; waits until what was in it has left
  void again_arena(const Step& step, Slot& slot);  // slot.again is there from now on
  // Make again what layers up to `last`, of the group it is in, lost after their forward.
  void recompute(const Step& step, std::size_t last, bool split);
  void recompute_last_group(const Step& step, bool split);
  void recompute_before_backward(const Step& step, std::size_t layer, bool split);
  std::size_t first_of_group(int chunk, std::size_t layer) const;
  // The layer whose weights are needed after this one's backward: a group is made again from its first.
  std::ptrdiff_t next_of_backward(const Slot& slot, int chunk, std::size_t layer) const;
  // Of a layer of a chunk: its row among those whose saved tensors go to host memory, −1 when they do not.
  int host_row(int chunk, std::size_t layer) const {
    return host_rows_[static_cast<std::size_t>(chunk)][layer];
  }
  void find_host_rows();
  // Where a layer's saved tensors are allocated, and what it gives to the next.
  Arena& saved_arena(Slot& slot, int chunk, std::size_t layer);
  View next_input(Slot& slot, int chunk, std::size_t layer);
  // The input a layer keeps: x itself, or a copy of this rank's share of it.
  View kept_input(Slot& slot, const SubLayer& layer, View x);
  View whole_input(Slot& slot, const SubLayer& layer, View kept);
  // A layer's weights are whole from need() to done(); the next one's are on their way meanwhile (ZeRO 3).
  void need(int chunk, std::size_t layer, std::ptrdiff_t next);
  void done(int chunk, std::size_t layer);
  View run_forward_only(Ctx& ctx, int chunk, View x, std::int64_t tokens);
  View stream_view(Arena& arena, std::int64_t tokens) const;
  DType stream_dtype() const { return residual_dtype(chunks_[0]->spec(), parts_.params.compute_dtype()); }
  Ctx context(const Tokens& tokens, Mode mode);
  const Model& model(int chunk) const { return *chunks_[static_cast<std::size_t>(chunk)]; }

  ExecutorParts parts_;
  std::vector<const Model*> chunks_;
  BatchSpec batch_;
  Device device_;
  Arena scratch_, losses_;
  std::vector<std::vector<int>> host_rows_;  // by chunk and layer
  std::unique_ptr<HostActivations> on_host_;
  std::optional<StepGraphs> graphs_;
  std::vector<std::vector<std::vector<Segment>>> whole_backwards_;  // by chunk and layer
  Tensor graph_loss_;
  ArenaPool slot_arenas_, kept_arenas_, again_arenas_;
  std::vector<std::unique_ptr<Slot>> slots_;  // by place in slot_arenas_
  std::vector<Message> messages_;
  std::size_t next_message_ = 0;
  Tensor gradients_[2];                   // dy and dx, taking turns
  std::vector<std::vector<bool>> asked_;  // by chunk and layer: its gathers were started
};

}  // namespace mt
