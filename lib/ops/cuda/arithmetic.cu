#include "ops/cuda/elements.h"
#include "ops/cuda/kernels.h"

namespace mt::ops::cuda {

namespace {

struct Add {
  Elements a, b, out;
  __device__ void operator()(Count row, Count at, int count) const {
    float x[kGroup], y[kGroup];
    load(a, row, at, count, x);
    load(b, row, at, count, y);
#pragma unroll
    for (int i = 0; i < kGroup; ++i) x[i] += y[i];
    store(out, row, at, count, x);
  }
};

struct Scale {
  Elements x, out;
  float factor;
  const float* on_device;
  __device__ void operator()(Count row, Count at, int count) const {
    const float by = on_device != nullptr ? factor * *on_device : factor;
    float v[kGroup];
    load(x, row, at, count, v);
#pragma unroll
    for (int i = 0; i < kGroup; ++i) v[i] *= by;
    store(out, row, at, count, v);
  }
};

// Rows are the places of all dims but the last.
struct Places {
  Count size[kMaxDims] = {}, x_stride[kMaxDims] = {}, out_stride[kMaxDims] = {};
  int dims = 0;
  __device__ void of(Count row, Count& x, Count& out) const {
    x = out = 0;
    for (int d = dims - 1; d >= 0; --d) {
      const Count i = row % size[d];
      row /= size[d];
      x += i * x_stride[d];
      out += i * out_stride[d];
    }
  }
};

struct Convert {
  Elements x, out;
  Places places;
  __device__ void operator()(Count row, Count at, int count) const {
    Count from, to;
    places.of(row, from, to);
    float v[kGroup];
    load(x, 0, from + at, count, v);
    store(out, 0, to + at, count, v);
  }
};

// Rows with any stride in their last dim.
struct ConvertScattered {
  Elements x, out;
  Places places;
  Count x_step, out_step;
  __device__ void operator()(Count row, Count at, int count) const {
    Count from, to;
    places.of(row, from, to);
    for (int i = 0; i < count; ++i)
      store_one(out, 0, to + (at + i) * out_step, load_one(x, 0, from + (at + i) * x_step));
  }
};

// Equal dtypes: bits move as they are. T is an unsigned of the element's size.
template <class T>
struct Copy {
  const T* x;
  T* out;
  Places places;
  Count x_step, out_step;
  int whole;  // rows without gaps, on borders of 16 bytes
  __device__ void operator()(Count row, Count at, int count) const {
    Count from, to;
    places.of(row, from, to);
    if (whole && count == kGroup) {
      constexpr int kPerWord = 16 / static_cast<int>(sizeof(T));
      if constexpr (sizeof(T) == 1) {
        store8(out + to + at, load8(x + from + at));
      } else {
#pragma unroll
        for (int w = 0; w < kGroup / kPerWord; ++w) {
          T part[kPerWord];
          load16(x + from + at + w * kPerWord, part);
          store16(part, out + to + at + w * kPerWord);
        }
      }
      return;
    }
    for (int i = 0; i < count; ++i) out[to + (at + i) * out_step] = x[from + (at + i) * x_step];
  }
};

// T is an unsigned of the element's size.
template <class T>
struct Fill {
  T* out;
  std::uint64_t bits;
  int whole;
  __device__ void operator()(Count, Count at, int count) const {
    const T value = static_cast<T>(bits);
    if (whole && count == kGroup) {
      constexpr int kPerWord = 16 / static_cast<int>(sizeof(T));
      T part[kPerWord];
#pragma unroll
      for (int i = 0; i < kPerWord; ++i) part[i] = value;
#pragma unroll
      for (int w = 0; w < kGroup / kPerWord; ++w) store16(part, out + at + w * kPerWord);
      return;
    }
    for (int i = 0; i < count; ++i) out[at + i] = value;
  }
};

template <class T>
void fill_with(const Stream& stream, const View& out, T value) {
  each_group(stream, 1, out.size(), Fill<T>{static_cast<T*>(out.data), value, flat(out).whole_words});
}

template <class T>
void copy(const Stream& stream, const CastArgs& g, const Places& places, Count rows, Count columns) {
  each_group(stream, rows, columns,
             Copy<T>{static_cast<const T*>(g.x.data), static_cast<T*>(g.out.data), places, g.x.stride(-1),
                     g.out.stride(-1), on_borders(g.x) && on_borders(g.out)});
}

}  // namespace

void add(const Stream& stream, const AddArgs& g) {
  each_group(stream, 1, g.out.size(), Add{flat(g.a), flat(g.b), flat(g.out)});
}

void scale(const Stream& stream, const ScaleArgs& g) {
  each_group(stream, 1, g.out.size(), Scale{flat(g.x), flat(g.out), g.factor, g.on_device});
}

void fill(const Stream& stream, const FillArgs& g) {
  const auto f = static_cast<float>(g.value);
  switch (g.out.dtype) {
    case DType::f64: return fill_with(stream, g.out, std::bit_cast<std::uint64_t>(g.value));
    case DType::f32: return fill_with(stream, g.out, std::bit_cast<std::uint32_t>(f));
    case DType::bf16: return fill_with(stream, g.out, to_bf16(f).bits);
    case DType::f16: return fill_with(stream, g.out, to_f16(f).bits);
    case DType::i64: return fill_with(stream, g.out, static_cast<std::uint64_t>(static_cast<std::int64_t>(g.value)));
    case DType::i32: return fill_with(stream, g.out, static_cast<std::uint32_t>(static_cast<std::int32_t>(g.value)));
    default: MT_CHECK(false, "fill of {}", dtype_name(g.out.dtype));
  }
}

void cast(const Stream& stream, const CastArgs& args) {
  CastArgs g = args;
  if (g.x.contiguous() && g.out.contiguous()) {
    if (g.x.data == g.out.data && g.x.dtype == g.out.dtype) return;
    g.x = View(g.x.data, g.x.dtype, {g.x.size()});
    g.out = View(g.out.data, g.out.dtype, {g.out.size()});
  }
  Places places;
  places.dims = g.x.num_dims() - 1;
  Count rows = 1;
  for (int d = 0; d < places.dims; ++d) {
    places.size[d] = g.x.shape[d];
    places.x_stride[d] = g.x.strides[d];
    places.out_stride[d] = g.out.strides[d];
    rows *= g.x.shape[d];
  }
  const Count columns = g.x.dim(-1);
  if (g.x.dtype == g.out.dtype) {
    switch (bits_of(g.x.dtype)) {
      case 64: return copy<std::uint64_t>(stream, g, places, rows, columns);
      case 32: return copy<std::uint32_t>(stream, g, places, rows, columns);
      case 16: return copy<std::uint16_t>(stream, g, places, rows, columns);
      default: return copy<std::uint8_t>(stream, g, places, rows, columns);
    }
  }
  Elements x = flat(g.x), out = flat(g.out);
  x.whole_words = on_borders(g.x);
  out.whole_words = on_borders(g.out);
  const bool dense = columns < 2 || (g.x.stride(-1) == 1 && g.out.stride(-1) == 1);
  if (dense) each_group(stream, rows, columns, Convert{x, out, places});
  else each_group(stream, rows, columns, ConvertScattered{x, out, places, g.x.stride(-1), g.out.stride(-1)});
}

}  // namespace mt::ops::cuda
