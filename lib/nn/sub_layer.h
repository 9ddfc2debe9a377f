#pragma once
// A sub-layer: three tables of segments (forward, backward_input, backward_weight) over one residual stream.
//
//   T   tokens of a micro-batch     Ts  T / tp with sequence parallelism, else T      C  hidden
//   x   [Ts, C] residual stream in, its dtype (layout/model_spec.h)      y  [Ts, C] out       dx, dy  their gradients
//
// The gradient rule, said here once: input gradients OVERWRITE their view; weight gradients ACCUMULATE in the gradient
// buffer's dtype (f32, or bf16: params/parameter_store.h). One weight-gradient product per micro-batch, micro-batches ascending.
//
// A segment computes, starts a collective, or awaits one, so that an engine may interleave the segments of two
// micro-batches, or of both gradients (whole_backward). One that computes may start or await pieces of a collective
// (nn/overlapped_linear.h). Saved state has two regions (layout/saved_tensors.h): dead after backward_input, or kept. What
// backward_input makes for backward_weight (dqkv, …) is allocated from Flow::kept, which the caller keeps until
// backward_weight ran, together with dy.
//
// With activation recompute, members the table marks `again` are lost after forward. Before backward_input either forward
// ran once more (a row whose output is needed too) or `recompute`, which makes exactly those members and no output.
// Kinds of sub-layers: nn/attention_layer.h, nn/mlp.h, nn/vocab_parallel_embedding.h, nn/vocab_parallel_loss.h.
// Code: nn/sub_layer.cc. Tests: tests/nn/.

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "layout/recompute.h"
#include "layout/saved_tensors.h"
#include "nn/context.h"

namespace mt {

// The saved tensors of one unit and one micro-batch, as views, in the order of the table.
struct Saved {
  std::vector<View> members;
};

// One micro-batch's way through one sub-layer.
struct Flow {
  View x, y, dx, dy;
  Saved* saved = nullptr;
  Arena* kept = nullptr;  // lives until backward_weight ran

  // Between segments; set and read by the sub-layer alone.
  View full, partial, sum, dz, dz_full, dinner, statistics;
  ops::Fp8Matrix rounded_dy[2];  // by product (nn/fp8_product.h): dy for the weight gradient, too
  Handle pending;
  std::vector<Handle> gathering, summing;  // of nn/parallel_linear.h: a message each, or the pieces of one
  bool gathers_in_pieces = false;          // its product awaits them
};

struct Segment {
  enum class Kind : std::uint8_t { compute, start, await };
  Kind kind;
  const char* name;
  std::function<void(Ctx&, Flow&)> run;
};

struct SubLayer {
  std::string name;  // "decoder.layers.3.self_attention"
  int unit = 0;
  std::vector<int> weight_units;  // whose weights it reads: its own, and the embedding's for a tied head
  std::vector<SavedTensor> saved;
  RowRecompute again;
  std::vector<Segment> forward, backward_input, backward_weight;
  std::vector<Segment> recompute;  // empty when nothing is made again
  bool fp8 = false;                // operands of its products are rounded

  // Member of `saved` by name; −1 when there is none.
  int member(std::string_view which) const;
};

// What layout says a row saves, and what of it is made again.
struct SavedTable {
  std::vector<SavedTensor> tensors;
  RowRecompute again;
};

// Fill `recompute` of a row from segments of its forward, by what is made again: "norm"; "gather" and `inner`; `middle`.
void take_recompute(SubLayer& layer, std::string_view inner, std::string_view middle);

// backward_input and backward_weight as one table: the second after the first, or, by `overlap`, the gather that
// backward_weight starts with before the last product of backward_input (bulk_dgrad), and all of backward_weight between the
// start and the await of backward_input's sum (bulk_wgrad). The same segments, so the same bits; no more memory, as scratch of the
// one stays beside the other's in any case. With fp8 the gather keeps its place: rounded operands would lie beside it.
std::vector<Segment> whole_backward(const SubLayer& layer, const TpOverlap& overlap);

// Allocate a unit's saved tensors for its forward: those made `again` in `passing`, the others in `kept`. The member "x"
// is not allocated: it is the given view.
Saved allocate_saved(Arena& kept, Arena& passing, const SubLayer& layer, View x);
// Allocate for a recompute the members made `again`: dead after backward_input in `input`, the others in `weight`.
void allocate_again(Arena& input, Arena& weight, const SubLayer& layer, View x, Saved& saved);

// Run a table from front to back. Scratch allocated by it stays until the caller rewinds ctx.scratch.
void run(std::span<const Segment> segments, Ctx& ctx, Flow& flow);

}  // namespace mt
