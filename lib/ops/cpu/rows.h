#pragma once
// Rows of any float dtype as f32: what the CPU kernels read and write through.
//
// A kernel takes a Scratch for its block of work, reads rows with read_row (the row itself when it is f32, else
// converted into scratch) and writes them with write_row (computed in place when f32, else converted afterwards).

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>

#include "device/cpu/parallel.h"
#include "ops/cpu/vector/vector.h"
#include "tensor/view.h"

namespace mt::ops::cpu {

using mt::cpu::parallel_blocks;
using mt::cpu::parallel_ranges;

// Uninitialised f32 scratch, 64-byte aligned.
class Scratch {
 public:
  explicit Scratch(Count floats)
      : data_(static_cast<float*>(::operator new (static_cast<std::size_t>(floats) * 4 + 64, std::align_val_t{64}))) {}
  float* at(Count offset) const { return data_.get() + offset; }

 private:
  struct Free {
    void operator()(float* p) const { ::operator delete (p, std::align_val_t{64}); }
  };
  std::unique_ptr<float, Free> data_;
};

inline void* element(const View& v, Count offset) {
  return static_cast<std::byte*>(v.data) + bytes_of(v.dtype, offset);
}
inline void* row_of(const View& v, Count row) { return element(v, row * v.strides[0]); }

inline void to_f32(DType dtype, const void* x, float* out, Count n) {
  switch (dtype) {
    case DType::f32: __builtin_memcpy(out, x, static_cast<std::size_t>(n) * 4); return;
    case DType::bf16: vector().bf16_to_f32(x, out, n); return;
    case DType::f16: vector().f16_to_f32(x, out, n); return;
    default: MT_CHECK(false, "{} is no float the CPU computes in", dtype_name(dtype));
  }
}

inline void from_f32(DType dtype, const float* x, void* out, Count n) {
  switch (dtype) {
    case DType::f32: __builtin_memcpy(out, x, static_cast<std::size_t>(n) * 4); return;
    case DType::bf16: vector().f32_to_bf16(x, out, n); return;
    case DType::f16: vector().f32_to_f16(x, out, n); return;
    default: MT_CHECK(false, "{} is no float the CPU computes in", dtype_name(dtype));
  }
}

inline const float* read(DType dtype, const void* x, Count n, float* scratch) {
  if (dtype == DType::f32) return static_cast<const float*>(x);
  to_f32(dtype, x, scratch, n);
  return scratch;
}
inline const float* read_row(const View& v, Count row, float* scratch) {
  return read(v.dtype, row_of(v, row), v.dim(-1), scratch);
}
// Null when the view is absent.
inline const float* read_vector(const View& v, float* scratch) {
  return v ? read(v.dtype, v.data, v.size(), scratch) : nullptr;
}

// f(float* row) computes a row of `v`; it is then rounded into place.
template <class F>
void write(DType dtype, void* out, Count n, float* scratch, const F& f) {
  if (dtype == DType::f32) {
    f(static_cast<float*>(out));
  } else {
    f(scratch);
    from_f32(dtype, scratch, out, n);
  }
}
template <class F>
void write_row(const View& v, Count row, float* scratch, const F& f) {
  write(v.dtype, row_of(v, row), v.dim(-1), scratch, f);
}

// Rows a block takes so that it moves about 32 thousand elements: a function of the shape alone.
inline Count rows_per_block(Count columns) {
  const Count rows = 32768 / (columns < 1 ? 1 : columns);
  return rows < 1 ? 1 : rows;
}

}  // namespace mt::ops::cpu
