#include "ops/cpu/onednn.h"

#include <array>
#include <memory>
#include <unordered_map>

#include <dnnl.hpp>

#if defined(_OPENMP)
#include <omp.h>
#endif

namespace mt::ops::cpu {

namespace {

using Desc = dnnl::memory::desc;
using Dims = dnnl::memory::dims;

struct OneThread {
#if defined(_OPENMP)
  int before = omp_get_max_threads();
  OneThread() { omp_set_num_threads(1); }
  ~OneThread() { omp_set_num_threads(before); }
#endif
};

dnnl::memory::data_type type_of(DType d) {
  return d == DType::bf16 ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32;
}

Desc desc(const Operand& x, Count rows, Count columns, Count stride) {
  return Desc({rows, columns}, type_of(x.dtype), x.transposed ? Dims{1, stride} : Dims{stride, 1});
}

struct Engine {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  std::unordered_map<int, dnnl::matmul> made;
};

dnnl::matmul make(const dnnl::engine& engine, const Product& p) {
  const Count any = DNNL_RUNTIME_DIM_VAL;
  const Desc a = desc(p.a, any, any, any), b = desc(p.b, any, any, any), c = desc(p.c, any, any, any);
  const Desc bias = p.bias.data ? desc(p.bias, 1, any, any) : Desc();
  dnnl::primitive_attr attr;
  if (p.accumulate) {
    dnnl::post_ops ops;
    ops.append_sum(1.0f);
    attr.set_post_ops(ops);
  }
#if DNNL_VERSION_MAJOR >= 3
  return dnnl::matmul(p.bias.data ? dnnl::matmul::primitive_desc(engine, a, b, bias, c, attr)
                                  : dnnl::matmul::primitive_desc(engine, a, b, c, attr));
#else
  const auto d = p.bias.data ? dnnl::matmul::desc(a, b, bias, c) : dnnl::matmul::desc(a, b, c);
  return dnnl::matmul(dnnl::matmul::primitive_desc(d, attr, engine));
#endif
}

}  // namespace

void onednn_product(const Product& p) {
  [[maybe_unused]] const OneThread one;
  static thread_local Engine own;
  const int key = (p.a.dtype == DType::bf16) | (p.c.dtype == DType::bf16) << 1 | p.a.transposed << 2 |
                  p.b.transposed << 3 | p.accumulate << 4 | (p.bias.data != nullptr) << 5 |
                  (p.bias.dtype == DType::bf16) << 6;
  auto found = own.made.find(key);
  if (found == own.made.end()) found = own.made.emplace(key, make(own.engine, p)).first;

  using M = dnnl::memory;
  std::unordered_map<int, M> args{{DNNL_ARG_SRC, M(desc(p.a, p.m, p.k, p.a.row), own.engine, p.a.data)},
                                  {DNNL_ARG_WEIGHTS, M(desc(p.b, p.k, p.n, p.b.row), own.engine, p.b.data)},
                                  {DNNL_ARG_DST, M(desc(p.c, p.m, p.n, p.c.row), own.engine, p.c.data)}};
  if (p.bias.data) args.emplace(DNNL_ARG_BIAS, M(desc(p.bias, 1, p.n, p.bias.row), own.engine, p.bias.data));
  found->second.execute(own.stream, args);
  own.stream.wait();
}

bool onednn_has_bf16() {
  static const bool has = [] {
    const auto isa = dnnl::get_effective_cpu_isa();
    return isa == dnnl::cpu_isa::avx512_core_bf16 ||
           static_cast<int>(isa) > static_cast<int>(dnnl::cpu_isa::avx512_core_bf16);
  }();
  return has;
}

}  // namespace mt::ops::cpu
