#pragma once
// Walk the part that two row-major boxes share as runs that are contiguous in both.
//
// Code: header only. Tests: tests/ckpt/box_copy_test.cc.

#include <algorithm>
#include <cstdint>
#include <optional>

#include "layout/box.h"

namespace mt {

// Element offset of a global coordinate inside a box's row-major storage.
inline std::int64_t offset_in(const Box& box, const Dims& at) {
  std::int64_t off = 0;
  for (std::size_t i = 0; i < box.extent.size(); ++i) off = off * box.extent[i] + (at[i] - box.offset[i]);
  return off;
}

// Visit `part` in row-major order: f(offset in `from`, offset in `to`, run length), in elements.
//   needs  part inside both boxes, not empty; all in global coordinates
//   split_rows  never join two rows of the last dimension in a run (for a destination with a row stride)
//   cost   O(1) a run
template <class F>
void for_each_common_run(const Box& from, const Box& to, const Box& part, bool split_rows, F&& f) {
  const auto n = part.extent.size();
  if (n == 0) return f(std::int64_t{0}, std::int64_t{0}, std::int64_t{1});
  std::size_t inner = n - 1;  // dimensions from here on lie in one run
  std::int64_t run = part.extent[inner];
  while (!split_rows && inner > 0 && part.extent[inner] == from.extent[inner] &&
         part.extent[inner] == to.extent[inner])
    run *= part.extent[--inner];
  Dims at = part.offset;
  for (;;) {
    f(offset_in(from, at), offset_in(to, at), run);
    std::size_t i = inner;
    while (i > 0 && ++at[i - 1] == part.offset[i - 1] + part.extent[i - 1]) {
      at[i - 1] = part.offset[i - 1];
      --i;
    }
    if (i == 0) return;
  }
}

// The offset at which `part`, row-major, lies in one piece inside `outer`'s storage; nothing if it is scattered.
inline std::optional<std::int64_t> contiguous_offset(const Box& outer, const Box& part) {
  std::size_t i = 0;
  while (i < part.extent.size() && part.extent[i] == 1) ++i;
  for (++i; i < part.extent.size(); ++i)
    if (part.extent[i] != outer.extent[i]) return std::nullopt;
  return offset_in(outer, part.offset);
}

}  // namespace mt
