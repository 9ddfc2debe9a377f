#include "layout/box.h"

#include <algorithm>

#include "base/error.h"

namespace mt {

std::int64_t num_elements(const Dims& dims) {
  std::int64_t n = 1;
  for (auto d : dims) n *= d;
  return n;
}

std::string dims_text(const Dims& dims) {
  std::string s = "[";
  for (std::size_t i = 0; i < dims.size(); ++i) s += fmt::format("{}{}", i ? ", " : "", dims[i]);
  return s + "]";
}

Box whole(const Dims& shape) { return {Dims(shape.size(), 0), shape}; }

std::string box_text(const Box& box) {
  if (box.offset.size() != box.extent.size()) return dims_text(box.extent) + " at " + dims_text(box.offset);
  std::string s = "[";
  for (std::size_t i = 0; i < box.extent.size(); ++i) {
    const std::int64_t begin = box.offset[i];
    std::int64_t end = 0;
    if (__builtin_add_overflow(begin, box.extent[i], &end)) s += fmt::format("{}{}+{}", i ? ", " : "", begin, box.extent[i]);
    else s += fmt::format("{}{}:{}", i ? ", " : "", begin, end);
  }
  return s + "]";
}

bool inside(const Box& box, const Dims& shape) {
  if (box.extent.size() != shape.size() || box.offset.size() != shape.size()) return false;
  for (std::size_t i = 0; i < shape.size(); ++i)
    if (box.offset[i] < 0 || box.extent[i] < 0 || box.offset[i] > shape[i] - box.extent[i]) return false;
  return true;
}

std::optional<Box> intersect(const Box& a, const Box& b) {
  MT_CHECK(a.num_dims() == b.num_dims(), "{} and {}", box_text(a), box_text(b));
  Box r{Dims(a.extent.size()), Dims(a.extent.size())};
  for (std::size_t i = 0; i < a.extent.size(); ++i) {
    const auto lo = std::max(a.offset[i], b.offset[i]);
    const auto hi = std::min(a.offset[i] + a.extent[i], b.offset[i] + b.extent[i]);
    if (lo >= hi) return std::nullopt;
    r.offset[i] = lo;
    r.extent[i] = hi - lo;
  }
  return r;
}

Box part_of(const Box& box, int parts, int index) {
  MT_CHECK(parts > 0 && index >= 0 && index < parts, "part {} of {}", index, parts);
  Box r = box;
  std::size_t dim = 0;
  while (dim < box.extent.size() && box.extent[dim] <= 1) ++dim;
  if (dim == box.extent.size()) {  // one element: the first part has it
    if (index > 0 && !r.extent.empty()) r.extent[0] = 0;
    if (index > 0 && r.extent.empty()) r = Box{{0}, {0}};
    return r;
  }
  const auto n = box.extent[dim], lo = n * index / parts, hi = n * (index + 1) / parts;
  r.offset[dim] += lo;
  r.extent[dim] = hi - lo;
  return r;
}

namespace {

// Rows [begin, end) of the sub-tensor at `prefix` whose first dimension is `dim`.
void cut_range(const Dims& shape, std::size_t dim, std::int64_t begin, std::int64_t end, const Dims& prefix,
               std::vector<Box>& out) {
  if (begin >= end) return;
  const auto emit = [&](std::int64_t lo, std::int64_t hi) {
    if (lo >= hi) return;
    Box b = whole(shape);
    for (std::size_t i = 0; i < prefix.size(); ++i) b.offset[i] = prefix[i], b.extent[i] = 1;
    b.offset[dim] = lo;
    b.extent[dim] = hi - lo;
    out.push_back(b);
  };
  std::int64_t row = 1;
  for (std::size_t i = dim + 1; i < shape.size(); ++i) row *= shape[i];
  if (dim + 1 == shape.size()) return emit(begin, end);
  const auto deeper = [&](std::int64_t r, std::int64_t lo, std::int64_t hi) {
    Dims p = prefix;
    p.push_back(r);
    cut_range(shape, dim + 1, lo, hi, p, out);
  };
  const auto first = begin / row, last = end / row;
  if (first == last) return deeper(first, begin - first * row, end - first * row);
  auto lo = first;
  if (begin % row != 0) {
    deeper(first, begin - first * row, row);
    ++lo;
  }
  emit(lo, last);
  if (end % row != 0) deeper(last, 0, end - last * row);
}

}  // namespace

std::vector<Box> boxes_of_range(const Dims& shape, std::int64_t begin, std::int64_t end) {
  MT_CHECK(begin >= 0 && begin <= end && end <= num_elements(shape), "range {}:{} of {}", begin, end, dims_text(shape));
  std::vector<Box> out;
  if (shape.empty()) {
    if (begin < end) out.push_back(Box{});
    return out;
  }
  cut_range(shape, 0, begin, end, {}, out);
  return out;
}

void for_each_run(const Box& outer, const Box& part,
                  const std::function<void(std::int64_t, std::int64_t, std::int64_t)>& f) {
  if (part.empty()) return;
  const auto n = part.extent.size();
  if (n == 0) return f(0, 0, 1);
  // Dimensions from `split` on are full in both, so one run covers them and one row of dimension split-1.
  std::size_t split = n - 1;
  while (split > 0 && part.extent[split] == outer.extent[split]) --split;
  std::int64_t run = 1;
  for (std::size_t i = split; i < n; ++i) run *= part.extent[i];
  Dims stride(n, 1);
  for (std::size_t i = n - 1; i > 0; --i) stride[i - 1] = stride[i] * outer.extent[i];
  Dims at(split, 0);
  std::int64_t inner = 0;
  for (;;) {
    std::int64_t off = 0;
    for (std::size_t i = 0; i < n; ++i)
      off += (part.offset[i] - outer.offset[i] + (i < split ? at[i] : 0)) * stride[i];
    f(off, inner, run);
    inner += run;
    std::size_t i = split;
    while (i > 0 && ++at[i - 1] == part.extent[i - 1]) at[--i] = 0;
    if (i == 0) return;
  }
}

}  // namespace mt
