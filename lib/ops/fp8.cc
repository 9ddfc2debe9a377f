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

namespace {

constexpr std::int64_t kBlock = 128;

void check(const Fp8Matrix& m, bool along_rows, bool sized) {
  MT_CHECK(m.format == DType::e4m3 || m.format == DType::e5m2, "{} is no fp8 format", dtype_name(m.format));
  MT_CHECK(m.dtype == DType::bf16 || m.dtype == DType::f32, "fp8 copies of {}", dtype_name(m.dtype));
  const Fp8Matrix::Copy& c = m.copy(along_rows);
  if (sized && c.form == Fp8Form::bytes)
    MT_CHECK(m.inner(along_rows) % 16 == 0, "fp8 copies for a sum of {}", m.inner(along_rows));
  const std::int64_t wanted = sized ? fp8_copy_bytes(m, c.form, along_rows) : 0;
  MT_CHECK(c.memory.contiguous() && (c.memory || wanted == 0) && c.memory.bytes() >= static_cast<std::size_t>(wanted),
           "{} bytes for a copy of {}", c.memory.bytes(), wanted);
}

void check(const Fp8GemmArgs& g, bool sized) {
  check(g.a, !g.trans_a, sized);
  check(g.b, g.trans_b, sized);
  check_gemm(gemm_of_copies(g));
}

}  // namespace

std::int64_t fp8_copy_bytes(const Fp8Matrix& m, Fp8Form form, bool along_rows) {
  if (form == Fp8Form::rounded) return bytes_of(m.dtype, m.rows * m.columns);
  const std::int64_t blocks = (m.inner(along_rows) + kBlock - 1) / kBlock, outer = m.outer(along_rows);
  const std::int64_t scales = m.scaling == Fp8Scaling::tensor  ? 1
                              : m.scaling == Fp8Scaling::lines ? outer * blocks
                                                               : (outer + kBlock - 1) / kBlock * ((blocks + 3) / 4 * 4);
  return m.rows * m.columns + 4 * scales;
}

void fp8_quantize(Stream& stream, const Fp8QuantizeArgs& g) {
  MT_CHECK_FLOAT(g.x, {g.to.rows, g.to.columns});
  MT_CHECK(g.x.dtype == g.to.dtype, "copies of {}, not {}", dtype_name(g.to.dtype), dtype_name(g.x.dtype));
  for (const bool along : {true, false})
    if (g.to.copy(along).memory) check(g.to, along, true);
  if (g.to.scaling == Fp8Scaling::tensor) MT_CHECK_VIEW(g.amax, DType::f32, {1});
  if (g.seen) MT_CHECK_VIEW(g.seen, DType::f32, {1});
  if (g.x.size() != 0) dispatch(stream, &Kernels::fp8_quantize, g);
}

std::array<Fp8RoundArgs, 2> rounded_copies(const Fp8QuantizeArgs& q) {
  std::array<Fp8RoundArgs, 2> out;
  for (const bool along : {true, false}) {
    const Fp8Matrix::Copy& c = q.to.copy(along);
    Fp8RoundArgs& r = out[along ? 0 : 1];
    const bool lines = q.to.scaling == Fp8Scaling::lines;
    r.x = q.x;
    if (c.memory && c.form == Fp8Form::rounded) r.out = View(c.memory.data, q.to.dtype, q.x.shape);
    r.format = q.to.format;
    if (q.to.scaling == Fp8Scaling::tensor) r.amax = q.amax;
    r.margin = q.margin;
    r.block_rows = lines && along ? 1 : kBlock;
    r.block_columns = lines && !along ? 1 : kBlock;
  }
  if (out[0].out && out[0].out.data == out[1].out.data) {
    MT_CHECK(q.to.scaling != Fp8Scaling::lines, "lines of both directions in the same memory");
    out[1].out = {};
  }
  return out;
}

Fp8Form fp8_form(Stream& stream, const Fp8GemmArgs& g) {
  check(g, false);
  Fp8Form form = Fp8Form::rounded;
  if (g.c.size() != 0) kernels(stream.device().kind).fp8_form(stream, {g, form});
  return form;
}

void fp8_gemm(Stream& stream, const Fp8GemmArgs& g) {
  check(g, true);
  MT_CHECK(g.a.copy(!g.trans_a).form == g.b.copy(g.trans_b).form, "copies of two forms");
  if (g.c.size() != 0) dispatch(stream, &Kernels::fp8_gemm, g);
}

GemmArgs gemm_of_copies(const Fp8GemmArgs& g) {
  const auto of = [](const Fp8Matrix& m, bool along_rows) {
    return View(m.copy(along_rows).memory.data, m.dtype, {m.rows, m.columns});
  };
  return {.a = of(g.a, !g.trans_a),
          .b = of(g.b, g.trans_b),
          .c = g.c,
          .trans_a = g.trans_a,
          .trans_b = g.trans_b,
          .accumulate = g.accumulate,
          .bias = g.bias,
          .mode = g.mode};
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
