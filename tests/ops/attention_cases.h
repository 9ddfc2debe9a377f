#pragma once
// Cases of ops/attention.h.

#include <algorithm>
#include <limits>

#include "base/philox.h"
#include "ops/attention.h"
#include "ops/op_case.h"

namespace mt::test {

struct AttentionCase {
  std::vector<I> nq, nk;  // tokens of each sequence
  I heads, groups, dim;
  DType dtype;
  bool causal = true;
  double dropout = 0;
  I spare = 0;  // keys at the end of each sequence that are not in use
  I gap = 0;    // positions skipped before the second half of a sequence's keys
  bool told = false;  // lengths are told, and queries and keys of the same lengths have one list of them
  ops::AttentionMode mode = {};
  double slack = 1;  // of tolerances: more where delta is made of long rows of rounded output
};

inline I key_position(const AttentionCase& c, I keys, I i) { return i + 3 + (i >= keys / 2 ? c.gap : 0); }

inline double keep_factor(const AttentionCase& c, I ordinal, I head, I query, I key) {
  if (c.dropout == 0) return 1;
  const auto words = philox({11, 22}, static_cast<std::uint32_t>(key / 4), static_cast<std::uint32_t>(query),
                            static_cast<std::uint32_t>(ordinal),
                            static_cast<std::uint32_t>(head) << 16 | static_cast<std::uint32_t>(ordinal >> 32));
  return static_cast<double>(uniform_f32(words[z(key % 4)])) >= c.dropout ? 1 / (1 - c.dropout) : 0;
}

struct AttentionInputs {
  View q, k, v, dout;
  ops::AttentionShape shape;
  std::vector<I> cu_q{0}, cu_k{0};
  I tq = 0, tk = 0;

  AttentionInputs(Data& d, const AttentionCase& c) {
    Doubles used, cq{0}, ck{0}, ordinals, query_positions, key_positions;
    for (std::size_t s = 0; s < c.nq.size(); ++s) {
      for (I i = 0; i < c.nq[s]; ++i) {
        ordinals.push_back(static_cast<double>(5000000000 + static_cast<I>(s) * 7));
        query_positions.push_back(static_cast<double>(i + c.nk[s] - c.nq[s] + 3));
      }
      for (I i = 0; i < c.nk[s]; ++i) key_positions.push_back(static_cast<double>(key_position(c, c.nk[s], i)));
      tq += c.nq[s];
      tk += c.nk[s];
      cu_q.push_back(tq);
      cu_k.push_back(tk);
      cq.push_back(static_cast<double>(tq));
      ck.push_back(static_cast<double>(tk));
      used.push_back(static_cast<double>(c.nk[s] - c.spare));
    }
    // Slices of one fused row, as a layer makes them.
    const I width = (c.heads + 2 * c.groups) * c.dim;
    const View fused_k = d.normal(c.dtype, {tk, width / c.dim, c.dim}),
               fused_q = d.normal(c.dtype, {tq, width / c.dim, c.dim});
    q = fused_q.slice(1, 0, c.heads);
    k = fused_k.slice(1, c.heads, c.heads + c.groups);
    v = fused_k.slice(1, c.heads + c.groups, c.heads + 2 * c.groups);
    dout = d.normal(c.dtype, {tq, c.heads, c.dim});
    shape.cu_q = d.list(DType::i32, cq);
    shape.cu_k = d.list(DType::i32, ck);
    shape.mode = c.mode;
    if (c.told) {
      if (c.nq == c.nk) shape.cu_k = shape.cu_q;
      const auto same = [](const std::vector<I>& n) { return std::count(n.begin(), n.end(), n[0]) == std::ssize(n); };
      shape.lengths = {*std::max_element(c.nq.begin(), c.nq.end()), *std::max_element(c.nk.begin(), c.nk.end()),
                       same(c.nq) && same(c.nk)};
    }
    if (c.spare) shape.used_k = d.list(DType::i32, used);
    shape.causal = c.causal;
    shape.scale = 1 / std::sqrt(static_cast<float>(c.dim));
    if (c.dropout > 0)
      shape.dropout = {static_cast<float>(c.dropout),     {11, 22},
                       d.list(DType::i64, ordinals),      d.list(DType::i32, query_positions),
                       d.list(DType::i32, key_positions), 5};
  }
};

struct AttentionAnswer {
  Doubles out, lse, dq, dk, dv;
};

// Full score matrices in double, forward and the textbook backward.
inline AttentionAnswer attention_reference(const AttentionCase& c, const AttentionInputs& in) {
  const Doubles q = values(in.q), k = values(in.k), v = values(in.v), dout = values(in.dout);
  AttentionAnswer a{Doubles(q.size()), Doubles(z(in.tq * c.heads)), Doubles(q.size()), Doubles(k.size()),
                    Doubles(k.size())};
  const double scale = static_cast<double>(in.shape.scale);
  for (std::size_t s = 0; s < c.nq.size(); ++s)
    for (I h = 0; h < c.heads; ++h)
      for (I i = 0; i < c.nq[s]; ++i) {
        const I nk = c.nk[s] - c.spare, g = h * c.groups / c.heads, row = (in.cu_q[s] + i) * c.heads + h;
        const I seen = c.causal ? std::max<I>(0, std::min(nk, i + 1 + nk - c.nq[s])) : nk;
        const auto key = [&](I j, I x) { return z(((in.cu_k[s] + j) * c.groups + g) * c.dim + x); };
        Doubles p(z(seen)), dp(z(seen));
        double max = -std::numeric_limits<double>::infinity(), sum = 0, delta = 0;
        for (I j = 0; j < seen; ++j) {
          for (I x = 0; x < c.dim; ++x) p[z(j)] += q[z(row * c.dim + x)] * k[key(j, x)] * scale;
          max = std::max(max, p[z(j)]);
        }
        for (double& e : p) sum += e = std::exp(e - max);
        a.lse[z(row)] = seen ? max + std::log(sum) : max;
        for (I j = 0; j < seen; ++j) {
          p[z(j)] /= sum;
          const double keep = keep_factor(c, 5000000000 + static_cast<I>(s) * 7, h + 5, i + c.nk[s] - c.nq[s] + 3,
                                          key_position(c, c.nk[s], j));
          for (I x = 0; x < c.dim; ++x) {
            a.out[z(row * c.dim + x)] += p[z(j)] * keep * v[key(j, x)];
            dp[z(j)] += keep * dout[z(row * c.dim + x)] * v[key(j, x)];
            a.dv[key(j, x)] += p[z(j)] * keep * dout[z(row * c.dim + x)];
          }
          delta += p[z(j)] * dp[z(j)];
        }
        for (I j = 0; j < seen; ++j)
          for (I x = 0; x < c.dim; ++x) {
            const double ds = p[z(j)] * (dp[z(j)] - delta) * scale;
            a.dq[z(row * c.dim + x)] += ds * k[key(j, x)];
            a.dk[key(j, x)] += ds * q[z(row * c.dim + x)];
          }
      }
  return a;
}

inline std::string attention_name(const AttentionCase& c, const char* pass) {
  return fmt::format("attention {} {} sequences of {}/{} heads {}/{} dim {} {} causal {} dropout {} spare {} gap {}{}",
                     pass, c.nq.size(), c.nq[0], c.nk[0], c.heads, c.groups, c.dim, dtype_name(c.dtype), c.causal,
                     c.dropout, c.spare, c.gap, c.mode.repeats ? " repeats" : "");
}

inline OpCase attention_case(const AttentionCase& c, bool backward, bool with_answer = true) {
  return {attention_name(c, backward ? "backward" : "forward"), [=] {
            Prepared p;
            Data& d = *p.data;
            const AttentionInputs in(d, c);
            const View out = d.zeros(c.dtype, {in.tq, c.heads, c.dim}), lse = d.zeros(DType::f32, {in.tq, c.heads});
            const AttentionAnswer want = with_answer ? attention_reference(c, in) : AttentionAnswer{};
            for (std::size_t s = 0; s < c.nq.size(); ++s)
              p.cost =
                  p.cost + ops::attention_cost(c.nq[s], c.nk[s], c.heads, c.dim, c.causal, ::mt::bits_of(c.dtype) / 8);
            const double tol = tolerance(c.dtype, 1e-5);
            if (!backward) {
              p.run = [=](Stream& st) { ops::attention_forward(st, {in.q, in.k, in.v, out, lse, in.shape}); };
              p.outputs = {{"out", out, want.out, tol}, {"lse", lse, want.lse, 1e-5}};
              return p;
            }
            p.cost.flop *= 2.5;
            Stream first;
            ops::attention_forward(first, {in.q, in.k, in.v, out, lse, in.shape});
            const View fused = d.normal(c.dtype, {in.tk, 2 * c.groups, c.dim}),
                       dq = d.normal(c.dtype, {in.tq, c.heads, c.dim}), dk = fused.slice(1, 0, c.groups),
                       dv = fused.slice(1, c.groups, 2 * c.groups);
            p.run = [=](Stream& st) {
              ops::attention_backward(st, {in.q, in.k, in.v, out, lse, in.dout, dq, dk, dv, in.shape});
            };
            // Delta is made from the stored, rounded output.
            const double grad_tol = c.slack * (c.dtype == DType::f32 ? 2e-5 : 2 * tol);
            p.outputs = {{"dq", dq, want.dq, grad_tol}, {"dk", dk, want.dk, grad_tol}, {"dv", dv, want.dv, grad_tol}};
            return p;
          }};
}

inline std::vector<OpCase> attention_cases() {
  std::vector<OpCase> out;
  const auto f32 = DType::f32, b16 = DType::bf16;
  for (bool backward : {false, true}) {
    out.push_back(attention_case({{7, 5}, {7, 5}, 2, 2, 8, f32}, backward));
    out.push_back(attention_case({{70, 3, 131}, {70, 3, 131}, 4, 2, 24, f32}, backward));
    out.push_back(attention_case({{150}, {150}, 2, 1, 64, b16}, backward));
    out.push_back(attention_case({{65, 1}, {200, 40}, 2, 2, 16, f32}, backward));
    out.push_back(attention_case({{50, 9}, {20, 4}, 2, 2, 16, f32}, backward));
    out.push_back(attention_case({{33}, {140}, 3, 1, 20, f32, false}, backward));
    out.push_back(attention_case({{40, 10}, {60, 30}, 2, 2, 16, f32, true, 0, 13}, backward));
    out.push_back(attention_case({{90, 20}, {90, 20}, 2, 2, 32, f32, true, 0.25}, backward));
    out.push_back(attention_case({{90, 20}, {190, 20}, 2, 2, 16, f32, false, 0.25, 0, 100}, backward));
    out.push_back(attention_case({{30}, {150}, 2, 1, 16, b16, false, 0.1}, backward));
    out.push_back(attention_case({{20}, {20}, 1, 1, 16, DType::f16}, backward));
    out.push_back(attention_case({{300}, {300}, 2, 2, 16, f32}, backward));
    // Head dims around those that a kernel may be written for, several sequences, spare keys, groups.
    out.push_back(attention_case({{70, 33}, {70, 33}, 4, 2, 64, b16}, backward));
    out.push_back(attention_case({{65}, {130}, 2, 1, 96, b16}, backward));
    out.push_back(attention_case({{130, 5}, {130, 77}, 2, 2, 128, b16}, backward));
    out.push_back(attention_case({{35, 40}, {50, 60}, 2, 2, 80, b16, true, 0, 13}, backward));
    out.push_back(attention_case({{40}, {70}, 1, 1, 256, b16}, backward));
    out.push_back(attention_case({{40, 20}, {70, 20}, 2, 1, 128, DType::f16, false, 0.2, 0, 9}, backward));
    out.push_back(attention_case({{50, 9}, {20, 4}, 2, 2, 40, DType::f16}, backward));
    out.push_back(attention_case({{30}, {30}, 2, 2, 20, b16, true, 0.2}, backward));
  }
  return out;
}

}  // namespace mt::test
