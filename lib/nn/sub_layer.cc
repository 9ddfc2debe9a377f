#include "nn/sub_layer.h"

#include <algorithm>

#include "base/error.h"
#include "tensor/tensor.h"

namespace mt {

int SubLayer::member(std::string_view which) const {
  for (std::size_t i = 0; i < saved.size(); ++i)
    if (saved[i].name == which) return static_cast<int>(i);
  return -1;
}

namespace {

View allocate_member(Arena& arena, const SavedTensor& t) {
  Shape shape;
  for (auto d : t.shape) shape.dims[static_cast<std::size_t>(shape.count++)] = d;
  return allocate(arena, t.dtype, shape);
}

}  // namespace

Saved allocate_saved(Arena& kept, Arena& passing, const SubLayer& layer, View x) {
  Saved s;
  for (const auto& t : layer.saved)
    s.members.push_back(t.name == "x" ? x : allocate_member(t.again ? passing : kept, t));
  return s;
}

void allocate_again(Arena& input, Arena& weight, const SubLayer& layer, View x, Saved& saved) {
  for (std::size_t i = 0; i < layer.saved.size(); ++i) {
    const SavedTensor& t = layer.saved[i];
    if (t.name == "x") saved.members[i] = x;
    else if (t.again) saved.members[i] = allocate_member(t.until == Until::backward_input ? input : weight, t);
  }
}

void take_recompute(SubLayer& layer, std::string_view inner, std::string_view middle) {
  for (const Segment& s : layer.forward) {
    const std::string_view name = s.name;
    if ((name == "norm" && layer.again.norm) || ((name == "gather" || name == inner) && layer.again.inner) ||
        (name == middle && layer.again.middle))
      layer.recompute.push_back(s);
  }
}

std::vector<Segment> whole_backward(const SubLayer& layer, const TpOverlap& overlap) {
  using K = Segment::Kind;
  std::vector<Segment> out = layer.backward_input, weight = layer.backward_weight;
  const auto is = [](const Segment& s, K kind, std::string_view name) { return s.kind == kind && name == s.name; };
  auto sum = std::find_if(out.begin(), out.end(), [&](const Segment& s) { return is(s, K::start, "sum"); });
  const bool summed = sum != out.end() && sum != out.begin();
  if (summed && overlap.bulk_dgrad && !layer.fp8 && !weight.empty() && is(weight.front(), K::start, "gather")) {
    sum = out.insert(sum - 1, weight.front()) + 2;
    weight.erase(weight.begin());
  }
  out.insert(summed && overlap.bulk_wgrad ? sum + 1 : out.end(), weight.begin(), weight.end());
  return out;
}

void run(std::span<const Segment> segments, Ctx& ctx, Flow& flow) {
  for (const auto& segment : segments) segment.run(ctx, flow);
}

}  // namespace mt
