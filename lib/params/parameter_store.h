#pragma once
// The parameter store: weights and gradients of one rank in flat buckets, gathered and reduced a unit at a time.
//
//   unit    what the ParamSpec table calls so: embedding, a row, the head; a bucket is a unit's parameters
//   slot    a tied word embedding has two gradients, input side 0 and output side 1, added once
//   shard   the flat ranges this rank's optimizer updates: all of it, or a part under ZeRO (layout/shards.h)
//
// Life of a step: zero_grads; then per micro-batch and unit, forward inside gather … release, backward inside
// begin_backward … end_backward (a split backward: begin_vectors before its input gradients); after the last micro-batch
// end_backward(…, last) makes a unit's gradients final here; finish_reduce sums what is left and waits; the optimizer
// updates shards; publish_weights makes them whole.
//   stage 0, 1  gradients whole, summed once a step: all-reduce, or reduce-scatter
//   stage 2, 3  a whole bucket lives from begin_backward to end_backward alone, and is reduce-scattered each micro-batch;
//               of a tied embedding each side on its own, so that it is the same where they lie on different stages
//   stage 3     so do weights, from gather to release (counted: whoever needs a unit gathers it)
// With several optimizer instances the sums above are of one instance; a shard's are then added over instances once a
// step. Order of a sum: ranks of an instance, ascending, of each micro-batch (stage 0, 1: after the micro-batches); then
// instances. So bits depend on their number, and on nothing else that they did not depend on before.
// When messages leave is a choice that changes no bit (Overlap): sums of a step as soon as a unit's gradients are final,
// or all at the end; new weights of stages 1 and 2 while the next forward runs, or at once.
// Gradients accumulate, are sent and kept in f32, or all in bf16: each micro-batch's is then made in f32 and rounded into the
// buffer, and the sum over ranks, in f32, rounded once (once more across instances). Code: params/parameter_store.cc. Tests: tests/params/.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "comm/groups.h"
#include "device/buffer.h"
#include "layout/param_spec.h"
#include "layout/shards.h"
#include "plan/open_buckets.h"
#include "tensor/view.h"

namespace mt {

// Stages 2 and 3 send gradients, and stage 3 weights, unit by unit in any case.
struct Overlap {
  bool grad_reduce = false;   // stages 0, 1: a unit's sum starts in its end_backward(…, last), not in finish_reduce
  bool param_gather = false;  // stages 1, 2: publish_weights starts the gathers, await_gather of a unit waits
};

class ParameterStore {
 public:
  // present: in f32; absent: weights for scoring alone
  enum class Gradients : std::uint8_t { present, absent, bf16 };

  // Allocates weights (compute dtype) and gradients; content zero.
  //   fails  Error{device} when memory is short
  ParameterStore(std::vector<ParamSpec> specs, DType compute, Device device,
                 Gradients gradients = Gradients::present, const ShardSpec& sharding = {});

  void set_overlap(const Overlap& overlap) { overlap_ = overlap; }

  int num_params() const { return static_cast<int>(specs_.size()); }
  const ParamSpec& spec(int param) const { return specs_[static_cast<std::size_t>(param)]; }
  const std::vector<ParamSpec>& specs() const { return specs_; }
  // Index of a parameter by its local name, −1 when this rank does not hold it.
  int find(const std::string& name) const;
  Device device() const { return device_; }
  DType compute_dtype() const { return compute_; }
  DType grad_dtype() const { return grad_dtype_; }
  const ShardPlan& plan() const { return plan_; }
  // Units this rank holds, ascending.
  const std::vector<int>& units() const { return units_; }

  // Local shape, compute dtype.   needs  stage 3: between gather and release of its unit
  View weight(int param) const;
  // Local shape, grad_dtype(); a bug when gradients are absent.   needs  stage 2, 3: between begin_backward (a vector:
  // begin_vectors) and end_backward of its unit
  View grad(int param, int slot = 0) const;
  // Flat, of plan().shards[shard]; always there. The gradient is final after finish_reduce.
  View shard_weight(std::size_t shard) const;
  View shard_grad(std::size_t shard) const;

  // Start making a unit's weights whole; nothing below stage 3. Nested calls count; await before the first use.
  //   cost  stage 3, bytes sent per rank: weight_bytes·(n−1)/n over the n ranks of an instance
  void gather(Stream& stream, const Groups& groups, int unit);
  void await_gather(Stream& stream, int unit);
  void release(int unit);

  void zero_grads(Stream& stream);
  // Around a unit's backward of one micro-batch. `last`: no further micro-batch adds to this unit in this step. The same
  // order of units on all ranks.
  //   cost  bytes sent per rank over dp·cp: stage 0 2·G(n−1)/n and stage 1 G(n−1)/n, on `last`; stage 2, 3 G(n−1)/n each
  //         time, G bytes of the unit's gradients; plus the small partial ones over tp, kv as often. Of i instances
  //         n is their ranks, and 2·(G/n)·(i−1)/i more go across once
  // At stages 0 and 1 a tied embedding whose two sides lie on different stages waits for sum_tied instead.
  // Where input and weight gradients are apart, begin_vectors comes before the input gradients, which add to vectors
  // (norms, biases) alone, and begin_backward before the weight gradients: a micro-batch's sum stays its own, in any
  // schedule, without a whole bucket between the two.
  void begin_vectors(Stream& stream, int unit, int micro_batch);
  void begin_backward(Stream& stream, int unit, int micro_batch);
  void end_backward(Stream& stream, const Groups& groups, int unit, bool last);
  // end_backward(…, true) for stages 0 and 1, where begin_backward does nothing.
  void reduce(Stream& stream, const Groups& groups, int unit) { end_backward(stream, groups, unit, true); }
  // After the last backward of the step, with a pipeline: exchange the two sides of a tied embedding between the ranks of
  // its first and last stage (none where that is one rank), and start the sums that waited for them.
  //   cost  grad_bytes of the embedding sent by both; at stages 2 and 3 of this rank's part
  void sum_tied(Stream& stream, const Groups& groups);
  // Start the sums that overlap did not, and wait for all, also for gathers of publish_weights; gradients of shards are
  // then final and equal on all replicas.
  void finish_reduce(Stream& stream, const Groups& groups);
  // Whole weights from every rank's updated shards (stage 1, 2). With overlap they are whole after await_gather, unit by
  // unit, or finish_reduce.   cost  bytes sent per rank: weight_bytes·(n−1)/n
  //   needs  the gathers of the call before were waited for
  void publish_weights(Stream& stream, const Groups& groups);
  // Wait for the gathers publish_weights left under way.
  void await_gathers(Stream& stream);

  std::size_t weight_bytes() const { return weights_.size(); }
  std::size_t grad_bytes() const { return grads_.size() + second_slots_.size(); }
  // Of whole buckets, and vectors, that live for a while; what they reached stays.
  std::size_t bucket_bytes() const { return static_cast<std::size_t>(buckets_.places.total() + vector_pool_.places.total()); }

 private:
  struct Pool {  // memory of whole buckets that live for a while
    GrowingPlaces places;
    std::vector<Buffer> memory;
    const Buffer& at(int place) const { return memory[static_cast<std::size_t>(place)]; }
  };
  struct Open {
    int place = -1;
    int users = 0;
    Handle arriving;
  };
  struct Vectors {  // gradients of a unit's vectors between its input and its weight gradients
    int unit, micro_batch;
    bool current;  // the micro-batch whose gradients are being made
    int place;
  };
  struct GradPlace {
    std::size_t bucket;
    int slot;
    bool operator<(const GradPlace& o) const { return bucket != o.bucket ? bucket < o.bucket : slot < o.slot; }
  };
  bool whole_weights() const { return plan_.spec.stage < 3; }
  bool whole_grads() const { return plan_.spec.stage < 2; }
  bool has_parameters(int unit) const { return written_by_.count(unit) > 0; }
  const Bucket& bucket(std::size_t i) const { return plan_.buckets[i]; }
  bool tied(const Bucket& b) const { return spec(b.first_param).grad_slots == 2; }  // it is then all there is in it
  std::int64_t stored(const Bucket& bucket) const;  // where this rank's part lies among parts alone
  int take(Stream& stream, Pool& pool, std::size_t bytes) const;
  View bucket_grads(std::size_t bucket, int slot) const;
  View own_part(const Bucket& bucket, View whole) const;
  View kept_part(const Bucket& bucket, int slot) const;  // of stages 2 and 3
  View vector_grad(const Vectors& vectors, int param) const;
  std::pair<int, int> params_of(int unit) const;                   // half open
  std::int64_t vector_elements(int unit, int before) const;  // of its parameters before `before`
  bool tied_elsewhere(const Groups& groups, const Bucket& bucket) const;
  void exchange_slots(Stream& stream, const Groups& groups, View slot0, View slot1);
  void reduce_bucket(Stream& stream, const Groups& groups, std::size_t bucket);
  void go_across(Stream& stream, const Groups& groups);
  void reduce_and_close(Stream& stream, const Groups& groups, const GradPlace& place);
  void sum_partial(Stream& stream, const Groups& groups, const Bucket& bucket, Axis axis);

  std::vector<ParamSpec> specs_;
  ShardPlan plan_;
  std::vector<std::int64_t> second_slot_;  // by parameter: element in second_slots_, −1
  std::vector<int> units_;
  std::map<int, std::vector<GradPlace>> written_by_;  // by unit: where its backward adds gradients
  DType compute_, grad_dtype_;
  Device device_;
  Buffer weights_, grads_;  // whole, or this rank's parts of all buckets
  Buffer second_slots_, partial_;
  std::map<std::size_t, Open> open_weights_;  // by bucket
  std::map<GradPlace, Open> open_grads_;
  Pool buckets_, vector_pool_;
  std::vector<Vectors> vectors_;
  Overlap overlap_;
  std::vector<Handle> in_flight_;
  Handle scattering_;  // with several instances: the sum of `scattered_` inside this one, before it goes across
  View scattered_;
  std::map<std::size_t, Handle> arriving_;  // whole weights of buckets under overlap
  std::vector<std::size_t> ready_;          // buckets whose gradients wait for finish_reduce
  std::vector<std::size_t> waiting_;        // and for sum_tied
};

// Rows of a piece as a view of its parameter (2-D, maybe strided) or of its gradient.
View piece_view(View parameter, const Piece& piece);

}  // namespace mt
