#include "ops/fp8.h"

#include <algorithm>
#include <cmath>

#include "device/backend.h"
#include "ops/checks.h"
#include "ops/kernels.h"

namespace mt::ops {

float fp8_scale(float amax, DType format, int margin) {
  if (!(amax > 0) || !std::isfinite(amax)) return 1;
  const double largest = format == DType::e5m2 ? 57344 : 448;
  int e = std::ilogb(largest / static_cast<double>(amax));
  while (std::ldexp(static_cast<double>(amax), e) > largest) --e;
  return std::ldexp(1.0f, std::clamp(e - margin, -100, 100));
}

void abs_max(Stream& stream, const AbsMaxArgs& g) {
  MT_CHECK(g.x.num_dims() == 2, "x {}", shape_text(g.x.shape));
  MT_CHECK_FLOAT(g.x, {g.x.dim(0), g.x.dim(1)});
  MT_CHECK_VIEW(g.out, DType::f32, {1});
  dispatch(stream, &Kernels::abs_max, g);
}

namespace {

void check(const Fp8RoundArgs& g) {
  MT_CHECK(g.x.num_dims() == 2, "x {}", shape_text(g.x.shape));
  MT_CHECK_FLOAT(g.x, {g.x.dim(0), g.x.dim(1)});
  MT_CHECK(g.x.dtype != DType::f16, "f16 cannot hold every scaled fp8 value");
  MT_CHECK_VIEW(g.out, g.x.dtype, {g.x.dim(0), g.x.dim(1)});
  MT_CHECK(g.format == DType::e4m3 || g.format == DType::e5m2, "{} is no fp8 format", dtype_name(g.format));
  if (g.amax) MT_CHECK_VIEW(g.amax, DType::f32, {1});
  MT_CHECK(g.block_rows > 0 && g.block_columns > 0, "blocks of {}x{}", g.block_rows, g.block_columns);
}

}  // namespace

void fp8_round(Stream& stream, const Fp8RoundArgs& g) {
  check(g);
  dispatch(stream, &Kernels::fp8_round, g);
}

void fp8_gemm(Stream& stream, const Fp8GemmArgs& g) {
  check(g.a);
  check(g.b);
  check_gemm(gemm_of_copies(g));
  if (g.c.size() != 0) dispatch(stream, &Kernels::fp8_gemm, g);
}

Cost fp8_gemm_cost(const Fp8GemmArgs& g) { return gemm_cost(gemm_of_copies(g)); }

std::string fp8_products(Device device, bool blocks) {
  const int capability = device.kind == DeviceKind::cpu ? 0 : cuda_backend().capability(device.index);
  const bool there = blocks ? capability / 10 == 9 : capability >= 89;
  return there ? "fp8" : "bf16, of operands rounded to fp8";
}

void amax_history(Stream& stream, const AmaxHistoryArgs& g) {
  MT_CHECK(g.history.num_dims() == 2 && g.history.dim(0) > 0, "history {}", shape_text(g.history.shape));
  MT_CHECK_VIEW(g.history, DType::f32, {g.history.dim(0), g.history.dim(1)});
  MT_CHECK_VIEW(g.seen, DType::f32, {g.history.dim(1)});
  MT_CHECK_VIEW(g.used, DType::f32, {g.history.dim(1)});
  dispatch(stream, &Kernels::amax_history, g);
}

Cost fp8_round_cost(std::int64_t rows, std::int64_t columns, int bytes_per_element) {
  const double n = static_cast<double>(rows) * static_cast<double>(columns);
  return {n * 2, n * 2 * bytes_per_element};
}

}  // namespace mt::ops
