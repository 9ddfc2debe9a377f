#include "ckpt/diff.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "ckpt/tensor_scan.h"

namespace mt {
namespace {

double distance(double a, double b) {
  if (std::isnan(a) && std::isnan(b)) return 0;
  if (a == b) return 0;
  const double d = std::fabs(a - b);
  return std::isnan(d) ? std::numeric_limits<double>::infinity() : d;
}

Dims coordinate_of(const Box& box, std::int64_t flat) {
  Dims at = box.offset;
  for (std::size_t i = box.extent.size(); i-- > 0;) {
    at[i] += flat % box.extent[i];
    flat /= box.extent[i];
  }
  return at;
}

class Comparison {
 public:
  Comparison(const Reader& a, const Reader& b) : a_(a), b_(b) {}

  void values(const TensorEntry& t, TensorDifference& d) {
    scan_tensor(a_, t, whole(t.shape), [&](const Box& box, const std::byte* x) { compare_box(t, box, x, d); });
  }

 private:
  void compare_box(const TensorEntry& t, const Box& box, const std::byte* x, TensorDifference& d) {
    TensorRequest q;
    q.what = {t.name, t.kind, t.dtype, t.shape, box};
    const auto bytes = static_cast<std::size_t>(q.what.bytes());
    y_.resize(std::max(y_.size(), bytes));
    q.out = y_.data();
    b_.read({&q, 1});
    if (std::memcmp(x, y_.data(), bytes) == 0) return;
    const auto elem = static_cast<std::size_t>(bytes_of(t.dtype, 1));
    for (std::int64_t i = 0; i < box.size(); ++i) {
      const auto off = static_cast<std::size_t>(i) * elem;
      if (std::memcmp(x + off, y_.data() + off, elem) == 0) continue;
      if (d.num_differ++ == 0) d.at = coordinate_of(box, i);
      d.largest = std::max(d.largest, distance(element_value(t.dtype, x + off), element_value(t.dtype, y_.data() + off)));
    }
  }

  const Reader &a_, &b_;
  std::vector<std::byte> y_;
};

bool takes_part(const DiffOptions& options, const std::string& kind) {
  return options.kinds.empty() || std::find(options.kinds.begin(), options.kinds.end(), kind) != options.kinds.end();
}

TensorDifference compare(const TensorEntry& t, const TensorEntry* other, Comparison& comparison) {
  using Kind = TensorDifference::Kind;
  TensorDifference d;
  d.name = t.name;
  d.kind = t.kind;
  d.num_elements = num_elements(t.shape);
  const auto of = tensor_text(t.name, t.kind);
  if (!other) {
    d.kind_of = Kind::only_in_a;
    d.text = of + ": only in the first";
  } else if (t.shape != other->shape) {
    d.kind_of = Kind::shape;
    d.text = fmt::format("{}: shape {} and {}", of, dims_text(t.shape), dims_text(other->shape));
  } else if (t.dtype != other->dtype) {
    d.kind_of = Kind::dtype;
    d.text = fmt::format("{}: {} and {}", of, dtype_name(t.dtype), dtype_name(other->dtype));
  } else {
    comparison.values(t, d);
    if (d.num_differ > 0) {
      d.kind_of = Kind::values;
      d.text = fmt::format("{}: {} of {} elements differ, the first at {}, largest absolute difference {:.9g}", of,
                           d.num_differ, d.num_elements, dims_text(d.at), d.largest);
    }
  }
  return d;
}

}  // namespace

const char* difference_name(TensorDifference::Kind kind) {
  switch (kind) {
    case TensorDifference::Kind::same: return "same";
    case TensorDifference::Kind::values: return "values";
    case TensorDifference::Kind::only_in_a: return "only_in_a";
    case TensorDifference::Kind::only_in_b: return "only_in_b";
    case TensorDifference::Kind::dtype: return "dtype";
    case TensorDifference::Kind::shape: break;
  }
  return "shape";
}

void diff_checkpoints(const Reader& a, const Reader& b, const DiffOptions& options,
                      const std::function<bool(const TensorDifference&)>& visit) {
  Comparison comparison(a, b);
  for (const auto& t : a.manifest().tensors)
    if (takes_part(options, t.kind) && !visit(compare(t, b.manifest().find(t.name, t.kind), comparison))) return;
  for (const auto& t : b.manifest().tensors) {
    if (!takes_part(options, t.kind) || a.manifest().find(t.name, t.kind)) continue;
    TensorDifference d;
    d.name = t.name;
    d.kind = t.kind;
    d.kind_of = TensorDifference::Kind::only_in_b;
    d.num_elements = num_elements(t.shape);
    d.text = tensor_text(t.name, t.kind) + ": only in the second";
    if (!visit(d)) return;
  }
}

}  // namespace mt
