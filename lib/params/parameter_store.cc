#include "params/parameter_store.h"

#include <algorithm>

#include "base/error.h"
#include "ops/arithmetic.h"

namespace mt {

namespace {

constexpr std::int64_t kParamAlign = 64;  // elements; a parameter starts on a cache line in every dtype

View flat_view(const Buffer& buffer, std::int64_t offset, DType dtype, std::int64_t n) {
  return View(buffer.data() + bytes_of(dtype, offset), dtype, {n});
}

View shaped_view(const Buffer& buffer, std::int64_t offset, DType dtype, const Dims& dims) {
  View v = flat_view(buffer, offset, dtype, num_elements(dims));
  return dims.size() == 2 ? v.reshape({dims[0], dims[1]}) : v;
}

bool sums_over(const Piece& piece, Axis axis) {
  return std::find(piece.grad_sum.begin(), piece.grad_sum.end(), axis) != piece.grad_sum.end();
}

}  // namespace

View piece_view(View parameter, const Piece& piece) {
  const auto& at = piece.local;
  View v = parameter;
  for (int d = 0; d < v.num_dims(); ++d) {
    const auto i = static_cast<std::size_t>(d);
    v = v.slice(d, at.offset[i], at.offset[i] + at.extent[i]);
  }
  return v;
}

ParameterStore::ParameterStore(std::vector<ParamSpec> specs, DType compute, Device device, Gradients gradients)
    : specs_(std::move(specs)), compute_(compute) {
  std::int64_t total = 0, second = 0, partial = 0, unit_partial = 0;
  const auto aligned = [](std::int64_t n) { return (n + kParamAlign - 1) / kParamAlign * kParamAlign; };
  for (int i = 0; i < num_params(); ++i) {
    const auto& s = spec(i);
    MT_CHECK(units_.empty() || s.unit >= units_.back(), "parameters are not in order of units at {}", s.name);
    if (units_.empty() || s.unit != units_.back()) {
      units_.push_back(s.unit);
      unit_partial = 0;
    }
    Place place{total, -1};
    total += aligned(s.elements());
    if (s.grad_slots == 2) {
      place.second_slot = second;
      second += aligned(s.elements());
    }
    for (const auto& p : s.pieces)
      if (!p.grad_sum.empty()) unit_partial += aligned(p.local.size());
    partial = std::max(partial, unit_partial);
    places_.push_back(place);
    shards_.push_back({i, 0, s.elements()});
  }
  const auto bytes = [](DType d, std::int64_t n) { return static_cast<std::size_t>(bytes_of(d, n)); };
  weights_ = Buffer(device, bytes(compute, total));
  if (gradients == Gradients::absent) return;
  grads_ = Buffer(device, bytes(DType::f32, total));
  second_slots_ = Buffer(device, bytes(DType::f32, second));
  partial_ = Buffer(device, bytes(DType::f32, partial));
}

int ParameterStore::find(const std::string& name) const {
  for (int i = 0; i < num_params(); ++i)
    if (spec(i).name == name) return i;
  return -1;
}

View ParameterStore::weight(int param) const {
  return shaped_view(weights_, places_[static_cast<std::size_t>(param)].offset, compute_, spec(param).shape);
}

View ParameterStore::grad(int param, int slot) const {
  const auto& place = places_[static_cast<std::size_t>(param)];
  MT_CHECK(slot < spec(param).grad_slots && grads_.size() > 0, "slot {} of {}", slot, spec(param).name);
  return slot == 0 ? shaped_view(grads_, place.offset, DType::f32, spec(param).shape)
                   : shaped_view(second_slots_, place.second_slot, DType::f32, spec(param).shape);
}

void ParameterStore::zero_grads(Stream& stream) {
  zero_bytes(stream, grads_.data(), grads_.size());
  zero_bytes(stream, second_slots_.data(), second_slots_.size());
}

// Pieces whose gradient is partial over `axis`, packed into one message.
void ParameterStore::sum_partial(Stream& stream, const Groups& groups, int unit, Axis axis) {
  Communicator& group = axis == Axis::kv ? *groups.kv : *groups.tp;
  if (group.size() == 1) return;
  std::vector<std::pair<View, View>> copies;
  std::int64_t at = 0;
  for (int i = 0; i < num_params(); ++i) {
    if (spec(i).unit != unit) continue;
    for (const auto& piece : spec(i).pieces) {
      if (!sums_over(piece, axis)) continue;
      const View g = piece_view(grad(i), piece);
      View packed(partial_.data() + bytes_of(DType::f32, at), DType::f32, g.shape);
      copies.emplace_back(g, packed);
      at += g.size();
    }
  }
  if (at == 0) return;
  for (auto& [g, packed] : copies) ops::cast(stream, {.x = g, .out = packed});
  group.all_reduce(stream, flat_view(partial_, 0, DType::f32, at), Reduce::sum).wait(stream);
  for (auto& [g, packed] : copies) ops::cast(stream, {.x = packed, .out = g});
}

void ParameterStore::reduce(Stream& stream, const Groups& groups, int unit) {
  std::int64_t begin = -1, end = 0;
  for (int i = 0; i < num_params(); ++i) {
    if (spec(i).unit != unit) continue;
    if (spec(i).grad_slots == 2) ops::add(stream, {.a = grad(i, 0), .b = grad(i, 1), .out = grad(i, 0)});
    const auto& place = places_[static_cast<std::size_t>(i)];
    if (begin < 0) begin = place.offset;
    end = place.offset + spec(i).elements();
  }
  if (begin < 0) return;
  sum_partial(stream, groups, unit, Axis::tp);
  sum_partial(stream, groups, unit, Axis::kv);
  if (groups.dp_cp->size() > 1)
    in_flight_.push_back(
        groups.dp_cp->all_reduce(stream, flat_view(grads_, begin, DType::f32, end - begin), Reduce::sum));
}

void ParameterStore::finish_reduce(Stream& stream) {
  for (auto& h : in_flight_) h.wait(stream);
  in_flight_.clear();
}

}  // namespace mt
