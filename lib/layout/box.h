#pragma once
// Axis-aligned boxes of a global tensor: what a rank holds, what a file holds, and where the two meet.
//
// A box is (offset, extent) per dimension, in elements; a scalar has no dimensions and one element.
// Code: layout/box.cc. Tests: tests/layout/box_test.cc.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace mt {

using Dims = std::vector<std::int64_t>;

// Product of extents; 1 for a scalar.
std::int64_t num_elements(const Dims& dims);
// "[4096, 11008]"
std::string dims_text(const Dims& dims);

struct Box {
  Dims offset, extent;

  bool operator==(const Box&) const = default;
  int num_dims() const { return static_cast<int>(extent.size()); }
  std::int64_t size() const { return num_elements(extent); }
  bool empty() const { return size() == 0; }
};

// The box that is all of a tensor.
Box whole(const Dims& shape);
// "[0:128, 256:512]"; of a box that is none, whose offset has other dimensions than its extent, "[128] at [0, 256]"
std::string box_text(const Box& box);
// True if the box lies inside the tensor.
bool inside(const Box& box, const Dims& shape);

// Where two boxes of one tensor overlap; nothing when they do not.
//   needs  the same number of dimensions
std::optional<Box> intersect(const Box& a, const Box& b);

// Cut a box in `parts` nearly equal pieces along its first dimension with extent > 1; piece `index` of them. Pieces may
// be empty when there are fewer rows than parts. Every element is in exactly one piece.
Box part_of(const Box& box, int parts, int index);

// A flat row-major range [begin, end) of a tensor as at most 2·dims−1 boxes, in order (a ZeRO shard of a parameter).
std::vector<Box> boxes_of_range(const Dims& shape, std::int64_t begin, std::int64_t end);

// Visit the overlap of `part` with its container as contiguous runs, in row-major order:
//   f(element offset inside `outer`'s own row-major storage, element offset inside `part`'s storage, run length)
//   needs  part inside outer (both in global coordinates)
void for_each_run(const Box& outer, const Box& part,
                  const std::function<void(std::int64_t, std::int64_t, std::int64_t)>& f);

}  // namespace mt
