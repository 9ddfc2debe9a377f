#pragma once
// The parameter store: weights and gradients of one rank in flat buffers, gathered and reduced a unit at a time.
//
//   unit    what the ParamSpec table calls so: embedding, a row, the head; a bucket never spans two units
//   slot    a tied word embedding has two gradients, input side 0 and output side 1, added once a step
//   shard   the flat range of a parameter this rank's optimizer updates (all of it while ZeRO is off)
//
// Life of a step: zero_grads; per micro-batch backward adds into grad(); after a unit's last backward reduce(unit)
// starts its sums (axes of ParamSpec.grad_sum, then dp·cp); finish_reduce waits. Gradients accumulate in f32.
// Code: params/parameter_store.cc. Tests: tests/params/.

#include <cstdint>
#include <string>
#include <vector>

#include "comm/groups.h"
#include "device/buffer.h"
#include "layout/param_spec.h"
#include "tensor/view.h"

namespace mt {

class ParameterStore {
 public:
  struct Shard {
    int param = 0;
    std::int64_t begin = 0, end = 0;  // flat local elements
  };

  enum class Gradients : std::uint8_t { present, absent };  // absent: weights for scoring alone

  // Allocates weights (compute dtype) and gradients (f32); content zero.
  //   fails  Error{device} when memory is short
  ParameterStore(std::vector<ParamSpec> specs, DType compute, Device device,
                 Gradients gradients = Gradients::present);

  int num_params() const { return static_cast<int>(specs_.size()); }
  const ParamSpec& spec(int param) const { return specs_[static_cast<std::size_t>(param)]; }
  const std::vector<ParamSpec>& specs() const { return specs_; }
  // Index of a parameter by its local name, −1 when this rank does not hold it.
  int find(const std::string& name) const;
  DType compute_dtype() const { return compute_; }

  View weight(int param) const;              // local shape, compute dtype
  View grad(int param, int slot = 0) const;  // local shape, f32; a bug when gradients are absent
  // Flat views of all of them, padding between parameters included (it stays zero).
  const std::vector<Shard>& shards() const { return shards_; }

  void zero_grads(Stream& stream);
  // Start the sums of a unit's gradients. Call once a step and unit, after its last backward, the same order of units
  // on all ranks.   cost  bytes sent per rank: 2·grad_bytes·(n−1)/n over dp·cp, plus the small partial ones over tp, kv
  void reduce(Stream& stream, const Groups& groups, int unit);
  // Wait for all of them; gradients are then final and equal on all replicas.
  void finish_reduce(Stream& stream);
  // Units this rank holds, ascending.
  const std::vector<int>& units() const { return units_; }

  std::size_t weight_bytes() const { return weights_.size(); }
  std::size_t grad_bytes() const { return grads_.size() + second_slots_.size(); }

 private:
  struct Place {
    std::int64_t offset = 0;  // elements, in the weight and the gradient buffer alike
    std::int64_t second_slot = -1;
  };
  void sum_partial(Stream& stream, const Groups& groups, int unit, Axis axis);

  std::vector<ParamSpec> specs_;
  std::vector<Place> places_;
  std::vector<Shard> shards_;
  std::vector<int> units_;
  DType compute_;
  Buffer weights_, grads_, second_slots_, partial_;
  std::vector<Handle> in_flight_;
};

// Rows of a piece as a view of its parameter (2-D, maybe strided) or of its gradient.
View piece_view(View parameter, const Piece& piece);

}  // namespace mt
