#include "ops/cpu/column_sums.h"
#include "ops/cpu/kernels.h"
#include "ops/cpu/rows.h"

namespace mt::ops::cpu {

namespace {

constexpr Count kBlock = 4096;         // elements converted at a time
constexpr Count kThreadBlock = 65536;  // elements a thread takes

template <class F>
void each_block(const Stream& stream, Count n, const F& f) {
  parallel_ranges(stream, n, kThreadBlock, [&](Count lo, Count hi) {
    const Scratch s(3 * kBlock);
    for (Count i = lo; i < hi; i += kBlock) f(i, hi - i < kBlock ? hi - i : kBlock, s);
  });
}

template <class T>
void fill_with(const Stream& stream, const View& out, T value) {
  parallel_ranges(stream, out.size(), kThreadBlock, [&](Count lo, Count hi) {
    std::fill(static_cast<T*>(out.data) + lo, static_cast<T*>(out.data) + hi, value);
  });
}

// Copy or convert one run of n elements with strides (in elements).
void cast_run(const View& x, Count x_at, Count x_step, const View& out, Count out_at, Count out_step, Count n) {
  if (x_step == 1 && out_step == 1) {
    if (x.dtype == out.dtype) {
      std::memcpy(element(out, out_at), element(x, x_at), static_cast<std::size_t>(bytes_of(x.dtype, n)));
      return;
    }
    float line[256];
    for (Count i = 0; i < n; i += 256) {
      const Count count = n - i < 256 ? n - i : 256;
      const float* from = read(x.dtype, element(x, x_at + i), count, line);
      from_f32(out.dtype, from, element(out, out_at + i), count);
    }
    return;
  }
  for (Count i = 0; i < n; ++i) {
    void *from = element(x, x_at + i * x_step), *to = element(out, out_at + i * out_step);
    if (x.dtype == out.dtype) {
      std::memcpy(to, from, static_cast<std::size_t>(bytes_of(x.dtype, 1)));
    } else {
      float one;
      to_f32(x.dtype, from, &one, 1);
      from_f32(out.dtype, &one, to, 1);
    }
  }
}

}  // namespace

void add(const Stream& stream, const AddArgs& g) {
  each_block(stream, g.out.size(), [&](Count i, Count n, const Scratch& s) {
    const float* a = read(g.a.dtype, element(g.a, i), n, s.at(0));
    const float* b = read(g.b.dtype, element(g.b, i), n, s.at(kBlock));
    write(g.out.dtype, element(g.out, i), n, s.at(2 * kBlock), [&](float* out) { vector().add(a, b, out, n); });
  });
}

void scale(const Stream& stream, const ScaleArgs& g) {
  const float factor = g.on_device != nullptr ? g.factor * *g.on_device : g.factor;
  each_block(stream, g.out.size(), [&](Count i, Count n, const Scratch& s) {
    const float* x = read(g.x.dtype, element(g.x, i), n, s.at(0));
    write(g.out.dtype, element(g.out, i), n, s.at(kBlock), [&](float* out) { vector().scale(x, factor, out, n); });
  });
}

void fill(const Stream& stream, const FillArgs& g) {
  const auto f = static_cast<float>(g.value);
  switch (g.out.dtype) {
    case DType::f64: return fill_with<double>(stream, g.out, g.value);
    case DType::f32: return fill_with<float>(stream, g.out, f);
    case DType::bf16: return fill_with<std::uint16_t>(stream, g.out, to_bf16(f).bits);
    case DType::f16: return fill_with<std::uint16_t>(stream, g.out, to_f16(f).bits);
    case DType::i64: return fill_with<std::int64_t>(stream, g.out, static_cast<std::int64_t>(g.value));
    case DType::i32: return fill_with<std::int32_t>(stream, g.out, static_cast<std::int32_t>(g.value));
    default: MT_CHECK(false, "fill of {}", dtype_name(g.out.dtype));
  }
}

void cast(const Stream& stream, const CastArgs& g) {
  // Runs along the last dim; a contiguous pair is one dim, cut for the threads.
  View x = g.x, out = g.out;
  if (x.contiguous() && out.contiguous()) {
    if (x.data == out.data && x.dtype == out.dtype) return;
    parallel_ranges(stream, x.size(), kThreadBlock,
                    [&](Count lo, Count hi) { cast_run(x, lo, 1, out, lo, 1, hi - lo); });
    return;
  }
  const int dims = x.num_dims();
  const Count last = x.dim(-1), runs = x.size() / last;
  parallel_ranges(stream, runs, rows_per_block(last), [&](Count lo, Count hi) {
    for (Count r = lo; r < hi; ++r) {
      Count rest = r, x_at = 0, out_at = 0;
      for (int d = dims - 2; d >= 0; --d) {
        const Count i = rest % x.shape[d];
        rest /= x.shape[d];
        x_at += i * x.strides[d];
        out_at += i * out.strides[d];
      }
      cast_run(x, x_at, x.stride(-1), out, out_at, out.stride(-1), last);
    }
  });
}

void column_sum(const Stream& stream, const ColumnSumArgs& g) {
  column_sums(
      stream, g.x.dim(0), g.x.dim(1),
      [&](Count t, Count lo, Count hi, float* line, float* sum) {
        vector().add(sum, read(g.x.dtype, element(g.x, t * g.x.strides[0] + lo), hi - lo, line), sum, hi - lo);
      },
      g.out);
}

}  // namespace mt::ops::cpu
