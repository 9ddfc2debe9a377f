#pragma once
// What every op's x_cases.h is made of: a case builds its inputs from a seed, runs the op, and knows the right answer.
//
// One list of cases serves four readers: ops_test.h compares with the answer (doubles, or central differences of a
// double forward for gradients), runs the case again with 1, 2 and 3 threads under memcmp, and runs it on a deferred
// stream; bench/op_bench.cc times it. An input that is stored in bf16 enters the reference as rounded.

#include <cmath>
#include <cstring>
#include <deque>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "device/stream.h"
#include "device/test_device.h"
#include "ops/cost.h"
#include "tensor/tensor.h"

namespace mt::test {

using Doubles = std::vector<double>;
using I = std::int64_t;

inline std::size_t z(I i) { return static_cast<std::size_t>(i); }

// A stream on the device under test. Reading or writing data with the functions below waits for it first.
class TestStream : public Stream {
 public:
  explicit TestStream(int threads = 1, Mode mode = Mode::immediate) : Stream(test_device(), threads, mode) {
    live().push_back(this);
  }
  ~TestStream() { std::erase(live(), this); }
  static void settle() {
    for (Stream* s : live()) s->synchronize();
  }

 private:
  static std::vector<Stream*>& live() {
    static std::vector<Stream*> streams;
    return streams;
  }
};

inline double load(const View& v, I flat) {
  TestStream::settle();
  switch (v.dtype) {
    case DType::f64: return static_cast<const double*>(v.data)[flat];
    case DType::f32: return static_cast<double>(static_cast<const float*>(v.data)[flat]);
    case DType::bf16: return static_cast<double>(to_f32(static_cast<const bf16*>(v.data)[flat]));
    case DType::f16: return static_cast<double>(to_f32(static_cast<const f16*>(v.data)[flat]));
    case DType::i32: return static_cast<double>(static_cast<const std::int32_t*>(v.data)[flat]);
    case DType::i64: return static_cast<double>(static_cast<const std::int64_t*>(v.data)[flat]);
    default: MT_CHECK(false, "load of {}", dtype_name(v.dtype));
  }
}

inline void store(const View& v, I flat, double value) {
  TestStream::settle();
  const auto f = static_cast<float>(value);
  switch (v.dtype) {
    case DType::f32: static_cast<float*>(v.data)[flat] = f; return;
    case DType::bf16: static_cast<bf16*>(v.data)[flat] = to_bf16(f); return;
    case DType::f16: static_cast<f16*>(v.data)[flat] = to_f16(f); return;
    case DType::i32: static_cast<std::int32_t*>(v.data)[flat] = static_cast<std::int32_t>(value); return;
    case DType::i64: static_cast<std::int64_t*>(v.data)[flat] = static_cast<std::int64_t>(value); return;
    default: MT_CHECK(false, "store of {}", dtype_name(v.dtype));
  }
}

// Elements of a view of any strides, in row-major order.
inline Doubles values(const View& v) {
  Doubles out;
  for (I i = 0; i < v.size(); ++i) {
    I rest = i, at = 0;
    for (int d = v.num_dims() - 1; d >= 0; --d) {
      at += rest % v.shape[d] * v.strides[d];
      rest /= v.shape[d];
    }
    out.push_back(load(v, at));
  }
  return out;
}

// Owns what a case's views point to.
class Data {
 public:
  explicit Data(unsigned seed = 1) : random_(seed) {}
  // Normal numbers of the given spread, rounded to the dtype.
  View normal(DType dtype, Shape shape, double spread = 1) {
    const View v = zeros(dtype, shape);
    std::normal_distribution<double> dist(0, spread);
    for (I i = 0; i < v.size(); ++i) store(v, i, dist(random_));
    return v;
  }
  // Integers in [lo, hi).
  View integers(DType dtype, Shape shape, I lo, I hi) {
    const View v = zeros(dtype, shape);
    std::uniform_int_distribution<I> dist(lo, hi - 1);
    for (I i = 0; i < v.size(); ++i) store(v, i, static_cast<double>(dist(random_)));
    return v;
  }
  View list(DType dtype, const Doubles& values) {
    const View v = zeros(dtype, {static_cast<I>(values.size())});
    for (I i = 0; i < v.size(); ++i) store(v, i, values[z(i)]);
    return v;
  }
  // A value where kernels may read it.
  template <class T>
  T* keep(const T& value) {
    const View v = zeros(DType::u8, {sizeof(T)});
    std::memcpy(v.data, &value, sizeof(T));
    return static_cast<T*>(v.data);
  }
  View zeros(DType dtype, Shape shape) {
    tensors_.emplace_back(test_device(), dtype, shape, Memory::pinned);
    return tensors_.back().view();
  }
  View copy(const View& x) {
    TestStream::settle();
    const View v = zeros(x.dtype, x.shape);
    std::memcpy(v.data, x.data, x.bytes());
    return v;
  }

 private:
  std::deque<Tensor> tensors_;
  std::mt19937_64 random_;
};

struct Output {
  std::string name;
  View view;
  Doubles want;      // empty: only looked at bit by bit
  double tolerance;  // |got − want| ≤ tolerance·(1 + |want|)
};

// A case ready to run. `run` may be called again (for timing); outputs are checked after the first call.
struct Prepared {
  std::shared_ptr<Data> data = std::make_shared<Data>();
  std::function<void(Stream&)> run;
  std::vector<Output> outputs;
  ops::Cost cost;
};

struct OpCase {
  std::string name;
  std::function<Prepared()> prepare;
};

// Rounding of a result stored in this dtype, on top of f32 arithmetic's.
inline double tolerance(DType d, double f32_part = 2e-6) {
  return d == DType::f32 ? f32_part : f32_part + (d == DType::bf16 ? 0x1p-8 : 0x1p-11);
}

// d(Σ weight·f(x))/dx by central differences; f maps x to its output.
inline Doubles differences(const std::function<Doubles(const Doubles&)>& f, const Doubles& x, const Doubles& weight) {
  Doubles out(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double h = 1e-5 * (1 + std::abs(x[i]));
    Doubles up = x, down = x;
    up[i] += h;
    down[i] -= h;
    const Doubles a = f(up), b = f(down);
    double sum = 0;
    for (std::size_t j = 0; j < a.size(); ++j) sum += weight[j] * (a[j] - b[j]);
    out[i] = sum / (2 * h);
  }
  return out;
}

inline Doubles plus(const Doubles& a, const Doubles& b) {
  Doubles out = a;
  for (std::size_t i = 0; i < a.size(); ++i) out[i] += b[i];
  return out;
}

}  // namespace mt::test
