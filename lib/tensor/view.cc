#include "tensor/view.h"

namespace mt {

std::string shape_text(const Shape& shape) {
  std::string s = "[";
  for (int i = 0; i < shape.count; ++i) s += (i ? ", " : "") + std::to_string(shape[i]);
  return s + "]";
}

View::View(void* d, DType t, Shape s) : data(d), dtype(t), shape(s) {
  strides.count = s.count;
  std::int64_t step = 1;
  for (int i = s.count - 1; i >= 0; --i) {
    strides[i] = step;
    step *= s[i];
  }
}

bool View::contiguous() const {
  std::int64_t step = 1;
  for (int i = shape.count - 1; i >= 0; --i) {
    if (shape[i] != 1 && strides[i] != step) return false;
    step *= shape[i];
  }
  return true;
}

View View::slice(int which_dim, std::int64_t lo, std::int64_t hi) const {
  const int d = which_dim < 0 ? which_dim + shape.count : which_dim;
  MT_CHECK(d >= 0 && d < shape.count && 0 <= lo && lo <= hi && hi <= shape[d], "slice [{}, {}) of dim {} of {}", lo, hi,
           which_dim, shape_text(shape));
  View v = *this;
  v.data = static_cast<std::byte*>(data) + bytes_of(dtype, lo * strides[d]);
  v.shape[d] = hi - lo;
  return v;
}

View View::reshape(Shape s) const {
  MT_CHECK(contiguous() && s.size() == size(), "{} read as {}", shape_text(shape), shape_text(s));
  return View(data, dtype, s);
}

View View::matrix() const {
  MT_CHECK(shape.count >= 1, "a scalar is no matrix");
  const std::int64_t cols = dim(-1);
  return reshape({cols == 0 ? 0 : size() / cols, cols});
}

}  // namespace mt
