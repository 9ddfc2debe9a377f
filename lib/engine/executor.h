#pragma once
// Walks a lane: the one place where a schedule's steps become calls of sub-layers.
//
//   slot   memory of one micro-batch in flight: its tokens, saved tensors and residual stream
// A training step is run_lane over the lane of this pipeline rank; a forward-only pass is `score` or `next_logits`.
// After a unit's last backward its gradient sums start (params/parameter_store.h); they end in run_lane.
// Code: engine/executor.cc. Tests: tests/engine/.

#include <functional>
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
  // needs  `parts` and `model` outlive it; the model is this rank's only chunk
  Executor(const ExecutorParts& parts, const Model& model, const BatchSpec& batch, Device device);

  // Forward and backward of every micro-batch as the lane says; gradients reduced.
  //   needs  lane fits batches.size() micro-batches; grads were zeroed
  //   gives  loss of every token of every micro-batch, [m][T], unmasked ones too
  //   on_step  called before each step of the lane (status page, tracing); may be empty
  std::vector<std::vector<float>> run_lane(const Lane& lane, const std::vector<HostBatch>& batches, double loss_scale,
                                           const std::function<void(const Step&)>& on_step);

  // Forward only: the loss of every token of one micro-batch, dropout off.
  std::vector<float> score(const HostBatch& batch);

  // Forward of new tokens of one sequence over the caches.
  //   gives  logits of the last token over the true vocabulary, the same on every tp rank
  std::vector<float> next_logits(const HostBatch& batch, std::vector<KvCache>& caches);

  // Empty caches for up to `capacity` tokens, by unit; memory lives in `arena`.
  std::vector<KvCache> make_caches(Arena& arena, std::int64_t capacity) const;

  // Bytes of arenas at their highest: slots together, scratch and kept.
  struct Memory {
    std::size_t slots = 0, scratch = 0;
  };
  Memory memory() const;

 private:
  struct Slot {
    Arena arena;
    int micro_batch = -1;
    Tokens tokens;
    std::vector<Saved> saved;  // by layer
    std::vector<View> inputs;  // x of each layer
    Slot(Device device, std::size_t bytes) : arena(device, bytes) {}
  };
  void forward(const Step& step, const HostBatch& batch, double loss_scale, View token_loss);
  void backward(const Step& step, bool last);
  // A layer's weights are whole from need() to done(); the next one's are on their way meanwhile (ZeRO 3).
  void need(std::size_t layer, std::ptrdiff_t next);
  void done(std::size_t layer);
  View run_forward_only(Ctx& ctx, std::int64_t tokens);
  Slot& slot_of(int micro_batch);
  Ctx context(const Tokens& tokens, Mode mode);

  ExecutorParts parts_;
  const Model& model_;
  BatchSpec batch_;
  Device device_;
  Arena scratch_, losses_;
  std::vector<std::unique_ptr<Slot>> slots_;
  Tensor gradients_[2];  // dy and dx, taking turns
  std::vector<bool> asked_;  // by layer: its gathers were started
};

}  // namespace mt
