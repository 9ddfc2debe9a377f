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
  Comparison(const TensorSource& a, const TensorSource& b) : a_(a), b_(b) {}

  void values(const TensorBox& t, const TensorBox& other, TensorDifference& d) {
    scan_tensor(a_, t, whole(t.shape), [&](const Box& box, const std::byte* x) {
      y_.resize(std::max(y_.size(), static_cast<std::size_t>(bytes_of(other.dtype, box.size()))));
      b_.read(other, box, y_.data());
      if (t.dtype == other.dtype) compare_bits(t.dtype, box, x, d);
      else compare_values(t.dtype, other.dtype, box, x, d);
    });
  }

 private:
  void compare_bits(DType dtype, const Box& box, const std::byte* x, TensorDifference& d) {
    const auto elem = static_cast<std::size_t>(bytes_of(dtype, 1));
    if (std::memcmp(x, y_.data(), static_cast<std::size_t>(box.size()) * elem) == 0) return;
    for (std::int64_t i = 0; i < box.size(); ++i) {
      const auto off = static_cast<std::size_t>(i) * elem;
      if (std::memcmp(x + off, y_.data() + off, elem) == 0) continue;
      if (d.num_differ++ == 0) d.at = coordinate_of(box, i);
      d.largest = std::max(d.largest, distance(element_value(dtype, x + off), element_value(dtype, y_.data() + off)));
    }
  }

  void compare_values(DType mine, DType other, const Box& box, const std::byte* x, TensorDifference& d) {
    const auto m = static_cast<std::size_t>(bytes_of(mine, 1)), o = static_cast<std::size_t>(bytes_of(other, 1));
    for (std::int64_t i = 0; i < box.size(); ++i) {
      const double far = distance(element_value(mine, x + static_cast<std::size_t>(i) * m), element_value(other, y_.data() + static_cast<std::size_t>(i) * o));
      if (far == 0) continue;
      if (d.num_differ++ == 0) d.at = coordinate_of(box, i);
      d.largest = std::max(d.largest, far);
    }
  }

  const TensorSource &a_, &b_;
  std::vector<std::byte> y_;
};

bool takes_part(const DiffOptions& options, const std::string& kind) {
  return options.kinds.empty() || std::find(options.kinds.begin(), options.kinds.end(), kind) != options.kinds.end();
}

TensorDifference compare(const TensorBox& t, const TensorBox* other, Comparison& comparison) {
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
  } else {
    comparison.values(t, *other, d);
    const bool same_dtype = t.dtype == other->dtype;
    if (d.num_differ == 0 && same_dtype) return d;
    d.kind_of = same_dtype ? Kind::values : Kind::dtype;
    d.text = of + ": ";
    if (!same_dtype) d.text += fmt::format("{} and {}, ", dtype_name(t.dtype), dtype_name(other->dtype));
    if (d.num_differ == 0) d.text += "all values are equal";
    else
      d.text += fmt::format("{} of {} {} differ, the first at {}, largest absolute difference {:.9g}", d.num_differ, d.num_elements,
                            same_dtype ? "elements" : "values", dims_text(d.at), d.largest);
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

void diff_tensors(const TensorSource& a, const TensorSource& b, const DiffOptions& options,
                  const std::function<bool(const TensorDifference&)>& visit) {
  Comparison comparison(a, b);
  for (const auto& t : a.tensors())
    if (takes_part(options, t.kind) && !visit(compare(t, b.find(t.name, t.kind), comparison))) return;
  for (const auto& t : b.tensors()) {
    if (!takes_part(options, t.kind) || a.find(t.name, t.kind)) continue;
    TensorDifference d;
    d.name = t.name;
    d.kind = t.kind;
    d.kind_of = TensorDifference::Kind::only_in_b;
    d.num_elements = num_elements(t.shape);
    d.text = tensor_text(t.name, t.kind) + ": only in the second";
    if (!visit(d)) return;
  }
}

void diff_checkpoints(const Reader& a, const Reader& b, const DiffOptions& options,
                      const std::function<bool(const TensorDifference&)>& visit) {
  diff_tensors(CheckpointTensors(a), CheckpointTensors(b), options, visit);
}

}  // namespace mt
