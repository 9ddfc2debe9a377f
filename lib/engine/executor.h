#pragma once
// Walks a lane: the one place where a schedule's steps become calls of sub-layers and messages.
//
//   chunk  one Model: a run of layers this pipeline rank holds
//   slot   memory of one micro-batch in flight on one chunk: tokens, saved tensors, residual stream, messages
// A training step is run_lane over the lane of this pipeline rank; forward-only passes are `score` and `next_logits`.
// Around each sub-layer its weights are gathered and its gradients reduced (params/parameter_store.h).
// Code: engine/executor.cc, engine/forward_only.cc. Tests: tests/engine/, tests/nn/, tests/train/.

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "engine/batch.h"
#include "nn/model.h"
#include "schedule/schedule.h"

namespace mt {

struct ExecutorParts {
  Stream& stream;
  const Groups& groups;
  ParameterStore& params;
  std::uint64_t seed = 0;
  // Sizes of the arenas' first blocks, from plan/memory.h; an arena that needs more grows.
  std::size_t slot_bytes = std::size_t{1} << 20, scratch_bytes = std::size_t{1} << 20;
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

  // Bytes of arenas at their highest: slots together, and scratch.
  struct Memory {
    std::size_t slots = 0, scratch = 0;
  };
  Memory memory() const;

 private:
  struct Slot {
    Arena arena, kept;  // kept: from an input gradient to its weight gradient
    int chunk = -1, micro_batch = -1;
    bool uploaded = false, finished = false;
    Tokens tokens;
    std::vector<Saved> saved;  // by layer
    std::vector<View> inputs;  // x of each layer
    std::vector<Flow> flows;   // by layer, between input and weight gradients
    View x, y, dy, dx;         // at the chunk's ends; absent at the model's
    Handle x_arrives, dy_arrives;
    std::vector<Handle> sending;
    bool dx_sent = false;
    Slot(Device device, std::size_t bytes) : arena(device, bytes), kept(device) {}
  };
  struct LaneInput {
    const std::vector<HostBatch>& batches;
    double loss_scale;
    std::vector<View> losses;  // by micro-batch, on the device
  };
  void do_step(const Step& step, bool last, LaneInput& input);
  void forward(const Step& step, LaneInput& input);
  void backward(const Step& step, bool last);
  void backward_input(const Step& step);
  void backward_weight(const Step& step, bool last);
  void receive(const Step& step);
  void send(const Step& step);
  Slot& slot_of(const Step& step);
  void release_if_done(Slot& slot);
  // A layer's weights are whole from need() to done(); the next one's are on their way meanwhile (ZeRO 3).
  void need(int chunk, std::size_t layer, std::ptrdiff_t next);
  void done(int chunk, std::size_t layer);
  View run_forward_only(Ctx& ctx, int chunk, View x, std::int64_t tokens);
  View stream_view(Arena& arena, std::int64_t tokens) const;
  Ctx context(const Tokens& tokens, Mode mode);
  const Model& model(int chunk) const { return *chunks_[static_cast<std::size_t>(chunk)]; }

  ExecutorParts parts_;
  std::vector<const Model*> chunks_;
  BatchSpec batch_;
  Device device_;
  Arena scratch_, losses_;
  std::vector<std::unique_ptr<Slot>> slots_;
  Tensor gradients_[2];                   // dy and dx, taking turns
  std::vector<std::vector<bool>> asked_;  // by chunk and layer: its gathers were started
};

}  // namespace mt
