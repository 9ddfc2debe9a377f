#pragma once
// A borrowed look at numbers on a device: pointer, dtype, shape and strides, passed by value.
//
//   dim      tensor dimension, 0 is the slowest        stride  in elements
// Code: tensor/view.cc. Tests: tests/tensor/view_test.cc.

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>

#include "base/dtype.h"
#include "base/error.h"

namespace mt {

inline constexpr int kMaxDims = 6;

struct Shape {
  std::array<std::int64_t, kMaxDims> dims{};
  int count = 0;

  Shape() = default;
  Shape(std::initializer_list<std::int64_t> list) {
    MT_CHECK(list.size() <= kMaxDims, "{} dims", list.size());
    for (auto d : list) dims[static_cast<std::size_t>(count++)] = d;
  }
  std::int64_t operator[](int i) const { return dims[static_cast<std::size_t>(i)]; }
  std::int64_t& operator[](int i) { return dims[static_cast<std::size_t>(i)]; }
  std::int64_t size() const {
    std::int64_t n = 1;
    for (int i = 0; i < count; ++i) n *= (*this)[i];
    return n;
  }
  bool operator==(const Shape& o) const {
    if (count != o.count) return false;
    for (int i = 0; i < count; ++i)
      if ((*this)[i] != o[i]) return false;
    return true;
  }
};

// "[4, 256, 768]"
std::string shape_text(const Shape& shape);

struct View {
  void* data = nullptr;
  DType dtype = DType::f32;
  Shape shape;
  Shape strides;

  View() = default;
  // Contiguous, row-major.
  View(void* d, DType t, Shape s);

  std::int64_t dim(int i) const { return shape[i < 0 ? i + shape.count : i]; }
  std::int64_t stride(int i) const { return strides[i < 0 ? i + shape.count : i]; }
  int num_dims() const { return shape.count; }
  std::int64_t size() const { return shape.size(); }
  std::size_t bytes() const { return static_cast<std::size_t>(bytes_of(dtype, size())); }
  bool contiguous() const;
  explicit operator bool() const { return data != nullptr; }

  // Typed pointer.   needs  T is the view's dtype
  template <class T>
  T* as() const {
    MT_CHECK(dtype == dtype_of<T>, "view of {} read as {}", dtype_name(dtype), dtype_name(dtype_of<T>));
    return static_cast<T*>(data);
  }

  // Elements [lo, hi) of one dimension; strides stay, so the result may not be contiguous.
  View slice(int which_dim, std::int64_t lo, std::int64_t hi) const;
  View rows(std::int64_t lo, std::int64_t hi) const { return slice(0, lo, hi); }
  // Same elements, other shape.   needs  contiguous, equal size
  View reshape(Shape s) const;
  // [rows, last dim]   needs  contiguous
  View matrix() const;
};

}  // namespace mt
