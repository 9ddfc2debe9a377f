#include "nn/sub_layer.h"

#include "base/error.h"
#include "tensor/tensor.h"

namespace mt {

int SubLayer::member(std::string_view which) const {
  for (std::size_t i = 0; i < saved.size(); ++i)
    if (saved[i].name == which) return static_cast<int>(i);
  return -1;
}

Saved allocate_saved(Arena& arena, const SubLayer& layer, View x) {
  Saved s;
  for (const auto& t : layer.saved) {
    if (t.name == "x") {
      s.members.push_back(x);
      continue;
    }
    Shape shape;
    for (auto d : t.shape) shape.dims[static_cast<std::size_t>(shape.count++)] = d;
    s.members.push_back(allocate(arena, t.dtype, shape));
  }
  return s;
}

void run(std::span<const Segment> segments, Ctx& ctx, Flow& flow) {
  for (const auto& segment : segments) segment.run(ctx, flow);
}

}  // namespace mt
