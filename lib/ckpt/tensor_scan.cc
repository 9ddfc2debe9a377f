#include "ckpt/tensor_scan.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

namespace mt {

namespace {

constexpr std::int64_t kBlockBytes = 32 << 20;

// Means and squared distances of blocks are merged as Chan, Golub and LeVeque do, so that nothing cancels.
struct Moments {
  double n = 0, mean = 0, squares = 0;

  void add(const Moments& b) {
    if (b.n == 0) return;
    const double d = b.mean - mean, all = n + b.n;
    mean += d * b.n / all;
    squares += b.squares + d * d * n * b.n / all;
    n = all;
  }
};

Moments moments_of(const std::vector<double>& values) {
  Moments m;
  m.n = static_cast<double>(values.size());
  if (values.empty()) return m;
  double sum = 0;
  for (const double v : values) sum += v;
  m.mean = sum / m.n;
  for (const double v : values) m.squares += (v - m.mean) * (v - m.mean);
  return m;
}

}  // namespace

double element_value(DType t, const std::byte* p) {
  const auto load = [&](auto v) {
    std::memcpy(&v, p, sizeof v);
    return v;
  };
  switch (t) {
    case DType::f64: return load(double{});
    case DType::f32: return static_cast<double>(load(float{}));
    case DType::bf16: return static_cast<double>(to_f32(load(bf16{})));
    case DType::f16: return static_cast<double>(to_f32(load(f16{})));
    case DType::e4m3: return static_cast<double>(to_f32(load(e4m3{})));
    case DType::e5m2: return static_cast<double>(to_f32(load(e5m2{})));
    case DType::i64: return static_cast<double>(load(std::int64_t{}));
    case DType::i32: return static_cast<double>(load(std::int32_t{}));
    case DType::i16: return static_cast<double>(load(std::int16_t{}));
    case DType::u16: return static_cast<double>(load(std::uint16_t{}));
    case DType::i8: return static_cast<double>(load(std::int8_t{}));
    case DType::u8: return static_cast<double>(load(std::uint8_t{}));
  }
  return 0;
}

void scan_tensor(const TensorSource& source, const TensorBox& t, const Box& part,
                 const std::function<void(const Box&, const std::byte*)>& visit) {
  const auto step = std::max<std::int64_t>(1, kBlockBytes / bytes_of(t.dtype, 1)), total = part.size();
  std::vector<std::byte> bytes;
  for (std::int64_t at = 0; at < total; at += step)
    for (Box box : boxes_of_range(part.extent, at, std::min(at + step, total))) {
      for (std::size_t d = 0; d < box.offset.size(); ++d) box.offset[d] += part.offset[d];
      bytes.resize(std::max(bytes.size(), static_cast<std::size_t>(bytes_of(t.dtype, box.size()))));
      source.read(t, box, bytes.data());
      visit(box, bytes.data());
    }
}

TensorStats stats_of(const TensorSource& source, const TensorBox& t) {
  TensorStats s;
  Moments all;
  std::vector<double> finite;
  const auto width = static_cast<std::size_t>(bytes_of(t.dtype, 1));
  scan_tensor(source, t, whole(t.shape), [&](const Box& box, const std::byte* at) {
    finite.clear();
    for (std::int64_t i = 0; i < box.size(); ++i, at += width) {
      const double v = element_value(t.dtype, at);
      ++s.elements;
      s.zeros += v == 0;
      s.nan += std::isnan(v);
      s.infinite += std::isinf(v);
      if (std::isfinite(v)) finite.push_back(v);
    }
    if (finite.empty()) return;
    const auto [least, most] = std::minmax_element(finite.begin(), finite.end());
    s.least = all.n == 0 ? *least : std::min(s.least, *least);
    s.most = all.n == 0 ? *most : std::max(s.most, *most);
    all.add(moments_of(finite));
  });
  if (all.n > 0) {
    s.mean = all.mean;
    s.deviation = std::sqrt(all.squares / all.n);
    s.rms = std::sqrt(all.squares / all.n + all.mean * all.mean);
  }
  return s;
}

}  // namespace mt
