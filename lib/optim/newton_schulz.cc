#include "optim/newton_schulz.h"

#include <algorithm>

#include "base/error.h"
#include "ops/arithmetic.h"
#include "ops/gemm.h"
#include "ops/sum_squares.h"

namespace mt {

namespace {

struct Step {
  double a, b, c;
};
constexpr Step kQuintic[] = {{4.0848, -6.8946, 2.9270},
                             {3.9505, -6.3029, 2.6377},
                             {3.7418, -5.5913, 2.3037},
                             {2.8769, -3.1427, 1.2046},
                             {2.8366, -3.0525, 1.2012}};
constexpr Step kSimple = {3.4445, -4.7750, 2.0315};

Step step_of(const NewtonSchulz& n, int i) {
  return n.coefficients == NewtonSchulz::Coefficients::simple ? kSimple : kQuintic[i % 5];
}

// Parts of the scratch, in f32 elements.
struct Parts {
  View y, gram, polynomial, bins, inverse;
  Parts(const View& x, const View& scratch) {
    const std::int64_t rows = x.dim(0), cols = x.dim(1), small = std::min(rows, cols);
    MT_CHECK(scratch.size() >= newton_schulz_scratch(rows, cols), "{} elements for [{}, {}]", scratch.size(), rows, cols);
    std::int64_t at = 0;
    const auto take = [&](std::int64_t n, DType dtype) {
      auto* data = static_cast<std::byte*>(scratch.data) + bytes_of(DType::f32, at);
      at += (bytes_of(dtype, n) + 63) / 64 * 16;
      return View(data, dtype, {n});
    };
    y = take(rows * cols, DType::f32).reshape({rows, cols});
    gram = take(small * small, DType::f32).reshape({small, small});
    polynomial = take(small * small, DType::f32).reshape({small, small});
    bins = take(ops::kSumSquaresSize, DType::i64);
    inverse = take(1, DType::f32);
  }
};

void normalize(Stream& stream, const View& x, const Parts& p) {
  zero_bytes(stream, p.bins.data, p.bins.bytes());
  const View flat = x.reshape({x.size()});
  ops::sum_squares(stream, {.x = flat, .bins = p.bins});
  ops::inverse_norm(stream, {.bins = p.bins, .out = p.inverse, .least = 1e-7});
  ops::scale(stream, {.x = flat, .out = flat, .on_device = p.inverse.as<float>()});
}

}  // namespace

bool fits(const NewtonSchulz& n) {
  return n.steps >= 1 && (n.coefficients == NewtonSchulz::Coefficients::simple || n.steps % 5 == 0);
}

void newton_schulz(Stream& stream, const View& x, const View& scratch, const NewtonSchulz& iteration, float factor) {
  const Parts p(x, scratch);
  const bool wide = x.dim(0) <= x.dim(1);
  normalize(stream, x, p);
  for (int i = 0; i < iteration.steps; ++i) {
    // With the last coefficient taken out, both sums start as a scaled copy and a product adds to it.
    const Step s = step_of(iteration, i);
    const double last = i + 1 == iteration.steps ? static_cast<double>(factor) : 1.0;
    ops::gemm(stream, {.a = x, .b = x, .c = p.gram, .trans_a = !wide, .trans_b = wide});
    ops::scale(stream, {.x = p.gram, .out = p.polynomial, .factor = static_cast<float>(s.b / s.c)});
    ops::gemm(stream, {.a = p.gram, .b = p.gram, .c = p.polynomial, .accumulate = true});
    ops::scale(stream, {.x = x, .out = p.y, .factor = static_cast<float>(s.a / s.c)});
    ops::gemm(stream, {.a = wide ? p.polynomial : x, .b = wide ? x : p.polynomial, .c = p.y, .accumulate = true});
    ops::scale(stream, {.x = p.y, .out = x, .factor = static_cast<float>(s.c * last)});
  }
}

}  // namespace mt
