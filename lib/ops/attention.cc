#include "ops/attention.h"

#include <algorithm>

#include "ops/checks.h"
#include "ops/kernels.h"

namespace mt::ops {

namespace {

void check_shape(const View& q, const View& k, const View& v, const View& lse, const AttentionShape& s) {
  MT_CHECK(q.num_dims() == 3 && k.num_dims() == 3, "q {}, k {}", shape_text(q.shape), shape_text(k.shape));
  const std::int64_t heads = q.dim(1), groups = k.dim(1), d = q.dim(2);
  MT_CHECK(groups > 0 && heads % groups == 0, "{} query heads over {} key heads", heads, groups);
  MT_CHECK_FLOAT(q, {q.dim(0), heads, d});
  MT_CHECK_FLOAT(k, {k.dim(0), groups, d});
  MT_CHECK_FLOAT(v, {k.dim(0), groups, d});
  MT_CHECK(k.dtype == q.dtype && v.dtype == q.dtype, "q {}, k {}, v {}", dtype_name(q.dtype), dtype_name(k.dtype),
           dtype_name(v.dtype));
  MT_CHECK_VIEW(lse, DType::f32, {q.dim(0), heads});
  MT_CHECK(s.cu_q.size() >= 1, "no cu_seqlens");
  MT_CHECK_VIEW(s.cu_q, DType::i32, {s.cu_q.size()});
  MT_CHECK_VIEW(s.cu_k, DType::i32, {s.cu_q.size()});
  if (s.used_k) MT_CHECK_VIEW(s.used_k, DType::i32, {s.cu_q.size() - 1});
  if (s.dropout.p > 0) {
    MT_CHECK(s.dropout.p < 1, "dropout {}", s.dropout.p);
    MT_CHECK_VIEW(s.dropout.ordinals, DType::i64, {q.dim(0)});
    MT_CHECK_VIEW(s.dropout.query_positions, DType::i32, {q.dim(0)});
    MT_CHECK_VIEW(s.dropout.key_positions, DType::i32, {k.dim(0)});
  }
}

// A result or gradient of the same shape as `like`.
void check_like(const View& x, const View& like) {
  MT_CHECK_FLOAT(x, {like.dim(0), like.dim(1), like.dim(2)});
  MT_CHECK(x.dtype == like.dtype || x.dtype == DType::f32, "{} beside {}", dtype_name(x.dtype), dtype_name(like.dtype));
}

}  // namespace

void attention_forward(Stream& stream, const AttentionForwardArgs& g) {
  check_shape(g.q, g.k, g.v, g.lse, g.shape);
  check_like(g.out, g.q);
  dispatch(stream, &Kernels::attention_forward, g);
}

void attention_backward(Stream& stream, const AttentionBackwardArgs& g) {
  check_shape(g.q, g.k, g.v, g.lse, g.shape);
  for (const View* x : {&g.out, &g.dout, &g.dq}) check_like(*x, g.q);
  for (const View* x : {&g.dk, &g.dv}) check_like(*x, g.k);
  dispatch(stream, &Kernels::attention_backward, g);
}

void attention_merge(Stream& stream, const AttentionMergeArgs& g) {
  MT_CHECK(g.out.num_dims() == 3, "out {}", shape_text(g.out.shape));
  MT_CHECK_FLOAT(g.out, {g.out.dim(0), g.out.dim(1), g.out.dim(2)});
  MT_CHECK_FLOAT(g.part_out, {g.out.dim(0), g.out.dim(1), g.out.dim(2)});
  MT_CHECK_VIEW(g.lse, DType::f32, {g.out.dim(0), g.out.dim(1)});
  MT_CHECK_VIEW(g.part_lse, DType::f32, {g.out.dim(0), g.out.dim(1)});
  dispatch(stream, &Kernels::attention_merge, g);
}

std::int64_t causal_pairs(std::int64_t nq, std::int64_t nk) {
  const std::int64_t blind = std::max<std::int64_t>(nq - nk, 0), seeing = nq - blind;
  return seeing * (nk - seeing) + seeing * (seeing + 1) / 2;
}

Cost attention_cost(std::int64_t nq, std::int64_t nk, std::int64_t heads, std::int64_t head_dim, bool causal,
                    int bytes_per_element) {
  const double pairs =
      causal ? static_cast<double>(causal_pairs(nq, nk)) : static_cast<double>(nq) * static_cast<double>(nk);
  const double width = static_cast<double>(heads) * static_cast<double>(head_dim);
  return {4 * pairs * width,
          (2.0 * static_cast<double>(nq) + 2.0 * static_cast<double>(nk)) * width * bytes_per_element};
}

}  // namespace mt::ops
