// The ops of a training step on a GPU, each beside what the same GPU copies and multiplies in the same run.
//
//   bench_gpu [--small] [--json FILE]
// A row an op: name, milliseconds, what it reached (GB/s or TFLOP/s, by the formula of its cost), the limit measured
// here (a copy of device memory; an 8192³ product in bf16), the share of it, and the share wanted where one is.
// --small: sizes for the emulation, to see that it runs. FILE gets one JSON object a row. Status 0 whatever the figures
// are.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <deque>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "device/buffer.h"
#include "ops/kernels.h"
#include "tensor/tensor.h"

namespace {

using namespace mt;
using I = std::int64_t;

const Device kGpu{DeviceKind::cuda, 0};

// Device memory with numbers in it: a block of normal numbers of the host's, again and again.
class DeviceData {
 public:
  explicit DeviceData(Stream& stream) : stream_(stream) {}
  View zeros(DType t, Shape shape) {
    tensors_.emplace_back(kGpu, t, shape);
    return tensors_.back().view();
  }
  View normal(DType t, Shape shape) {
    const View v = zeros(t, shape);
    const I block = std::min<I>(v.size(), 1 << 20);
    Tensor host(kGpu, t, {block}, Memory::pinned);
    std::mt19937_64 random(1);
    std::normal_distribution<float> dist;
    for (I i = 0; i < block; ++i) {
      const float x = dist(random);
      if (t == DType::f32) static_cast<float*>(host.view().data)[i] = x;
      else if (t == DType::bf16) static_cast<bf16*>(host.view().data)[i] = to_bf16(x);
      else static_cast<f16*>(host.view().data)[i] = to_f16(x);
    }
    for (I at = 0; at < v.size(); at += block)
      copy_bytes(stream_, static_cast<std::byte*>(v.data) + mt::bytes_of(t, at), host.view().data,
                 static_cast<std::size_t>(mt::bytes_of(t, std::min(block, v.size() - at))));
    stream_.synchronize();
    return v;
  }
  View integers(Shape shape, const std::function<I(I)>& value) {
    const View v = zeros(DType::i32, shape);
    Tensor host(kGpu, DType::i32, shape, Memory::pinned);
    for (I i = 0; i < v.size(); ++i)
      static_cast<std::int32_t*>(host.view().data)[i] = static_cast<std::int32_t>(value(i));
    copy_bytes(stream_, v.data, host.view().data, v.bytes());
    stream_.synchronize();
    return v;
  }
  void clear() { tensors_.clear(); }

 private:
  Stream& stream_;
  std::deque<Tensor> tensors_;
};

struct Bench {
  Stream stream{kGpu};
  DeviceData memory{stream};
  bool small = false;
  std::FILE* json = nullptr;
  double copy = 0, peak = 0;  // bytes/s, flop/s

  double seconds(const std::function<void()>& work) {
    const auto timed = [&](int times) {
      const auto start = std::chrono::steady_clock::now();
      for (int i = 0; i < times; ++i) work();
      stream.synchronize();
      return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / times;
    };
    const double once = std::max(timed(1), timed(1));
    if (small) return once;
    const int times = std::clamp(static_cast<int>(0.03 / once), 1, 1000);
    std::vector<double> t;
    for (int i = 0; i < 5; ++i) t.push_back(timed(times));
    std::sort(t.begin(), t.end());
    return t[2];
  }

  void row(const std::string& name, ops::Cost cost, const std::function<void()>& work, double wanted = 0) {
    line(name, cost, work, wanted);
    memory.clear();
  }
  void line(const std::string& name, ops::Cost cost, const std::function<void()>& work, double wanted) {
    timed_row(name, cost, seconds(work), wanted);
  }
  void timed_row(const std::string& name, ops::Cost cost, double s, double wanted) {
    const bool flops = cost.flop / std::max(peak, 1.0) > cost.bytes / std::max(copy, 1.0);
    const double reached = (flops ? cost.flop : cost.bytes) / s, limit = flops ? peak : copy;
    const char* unit = flops ? "TFLOP/s" : "GB/s";
    const double scale = flops ? 1e12 : 1e9;
    std::printf("%-34s %10.4f ms %10.1f %-7s of %8.1f %6.2f", name.c_str(), s * 1e3, reached / scale, unit,
                limit / scale, reached / limit);
    if (wanted > 0) std::printf("  wanted %.2f", wanted);
    std::printf("\n");
    std::fflush(stdout);
    if (json)
      fmt::print(json,
                 "{{\"op\":\"{}\",\"ms\":{:.5f},\"reached\":{:.2f},\"unit\":\"{}\",\"limit\":{:.2f},\"share\":{:.4f},"
                 "\"wanted\":{:.3f}}}\n",
                 name, s * 1e3, reached / scale, unit, limit / scale, reached / limit, wanted);
  }
  I size(I large, I little) const { return small ? little : large; }
};

ops::Cost moved(double bytes) { return {0, bytes}; }

void limits(Bench& b) {
  const auto bytes = static_cast<std::size_t>(b.size(I{1} << 30, 1 << 16));
  {
    const Buffer from(kGpu, bytes), to(kGpu, bytes);
    b.copy = 2.0 * static_cast<double>(bytes) / b.seconds([&] { copy_bytes(b.stream, to.data(), from.data(), bytes); });
  }
  const I n = b.size(8192, 64);
  const View x = b.memory.normal(DType::bf16, {n, n}), y = b.memory.normal(DType::bf16, {n, n}),
             z = b.memory.zeros(DType::bf16, {n, n});
  b.peak = 2.0 * static_cast<double>(n * n * n) /
           b.seconds([&] { ops::gemm(b.stream, {.a = x, .b = y, .c = z, .trans_b = true, .bias = {}}); });
  b.memory.clear();
  std::printf("%-34s %10s    %10.1f GB/s\n%-34s %10s    %10.1f TFLOP/s\n", "copy of device memory", "", b.copy / 1e9,
              "product 8192^3 bf16", "", b.peak / 1e12);
  if (b.json) fmt::print(b.json, "{{\"copy_GBps\":{:.1f},\"product_TFLOPps\":{:.1f}}}\n", b.copy / 1e9, b.peak / 1e12);
}

// The three products of a linear layer, 0 forward, 1 dx, 2 dw into f32, of a LLaMA's feed-forward.
ops::GemmArgs layer_product(Bench& b, int pass, DType t) {
  const I tokens = b.size(8192, 32), h = b.size(4096, 64), f = b.size(11008, 96);
  ops::GemmArgs g;
  g.a = b.memory.normal(t, {tokens, pass == 0 ? h : f});
  g.b = pass == 2 ? b.memory.normal(t, {tokens, h}) : b.memory.normal(t, {f, h});
  g.c = b.memory.zeros(pass == 2 ? DType::f32 : t, pass == 0 ? Shape{tokens, f} : pass == 1 ? Shape{tokens, h} : Shape{f, h});
  g.trans_a = pass == 2;
  g.trans_b = pass == 0;
  g.accumulate = pass == 2;
  return g;
}

constexpr const char* kPasses[] = {"product forward", "product dx", "product dw into f32"};

void products(Bench& b) {
  for (int pass = 0; pass < 3; ++pass)
    for (int candidates : {1, 8}) {
      ops::GemmArgs g = layer_product(b, pass, DType::bf16);
      g.mode.candidates = candidates;
      b.row(std::string(kPasses[pass]) + (candidates > 1 ? " fastest of 8" : ""), ops::gemm_cost(g),
            [&b, g] { ops::gemm(b.stream, g); });
    }
  for (bool tf32 : {false, true}) {
    ops::GemmArgs g = layer_product(b, 0, DType::f32);
    g.mode.tf32 = tf32;
    b.row(tf32 ? "product forward tf32" : "product forward f32", ops::gemm_cost(g), [&b, g] { ops::gemm(b.stream, g); });
  }
}

// GPT's feed-forward around its GELU: the function at the end of both products, and after them.
void gelu_products(Bench& b) {
  const I tokens = b.size(8192, 32), h = b.size(4096, 64), f = 4 * h;
  const View x = b.memory.normal(DType::bf16, {tokens, h}), w1 = b.memory.normal(DType::bf16, {f, h}),
             w2 = b.memory.normal(DType::bf16, {h, f}), bias = b.memory.normal(DType::bf16, {f}),
             p = b.memory.zeros(DType::bf16, {tokens, f}), y = b.memory.zeros(DType::bf16, {tokens, f});
  const ops::GemmGeluArgs forward{{.a = x, .b = w1, .c = y, .trans_b = true, .bias = bias}, p},
      backward{{.a = x, .b = w2, .c = y, .bias = {}}, p, true};
  const ops::GemmArgs fc1{.a = x, .b = w1, .c = p, .trans_b = true, .bias = {}}, dfc2{.a = x, .b = w2, .c = y, .bias = {}};
  b.timed_row("fc1 with GELU in it", ops::gemm_gelu_cost(forward), b.seconds([&] { ops::gemm_gelu(b.stream, forward); }), 0);
  b.timed_row("fc1, then GELU", ops::gemm_gelu_cost(forward), b.seconds([&] {
    ops::gemm(b.stream, fc1);
    ops::activation_forward(b.stream, {p, bias, y});
  }), 0);
  b.timed_row("fc2 dx with GELU in it", ops::gemm_gelu_cost(backward), b.seconds([&] { ops::gemm_gelu(b.stream, backward); }), 0);
  b.timed_row("fc2 dx, then GELU", ops::gemm_gelu_cost(backward), b.seconds([&] {
    ops::gemm(b.stream, dfc2);
    ops::activation_backward(b.stream, {p, bias, y, y, View()});
  }), 0);
  b.memory.clear();
}

// The operands of a linear layer's three products: x and dy rounded as nn/fp8_product.h does, each read once a direction or
// once for both; the weight as it is in every micro-batch but a step's first.
struct Fp8Layer {
  ops::Fp8QuantizeArgs x_along, x_down, dy, w;
  ops::Fp8GemmArgs pass[3];
};

Fp8Layer fp8_layer(Bench& b, const ops::GemmArgs (&g)[3], bool blocks) {
  const auto operand = [&](const View& x, DType format, bool square, bool along, bool down) {
    ops::Fp8QuantizeArgs q;
    q.x = x;
    q.to.rows = x.dim(0), q.to.columns = x.dim(1), q.to.dtype = x.dtype, q.to.format = format;
    q.to.scaling = !blocks ? ops::Fp8Scaling::tensor : square ? ops::Fp8Scaling::squares : ops::Fp8Scaling::lines;
    q.amax = b.memory.normal(DType::f32, {1});
    q.seen = b.memory.zeros(DType::f32, {1});
    if (along) q.to.along.memory = b.memory.zeros(x.dtype, x.shape);
    if (down) q.to.down.memory = b.memory.zeros(x.dtype, x.shape);
    return q;
  };
  Fp8Layer l{operand(g[0].a, DType::e4m3, false, true, false), operand(g[0].a, DType::e4m3, false, false, true),
             operand(g[1].a, DType::e5m2, false, true, true), operand(g[0].b, DType::e4m3, true, true, true), {}};
  l.x_down.seen = {};  // noted in the forward
  const auto set = [&](int i, ops::Fp8QuantizeArgs& a, bool a_along, ops::Fp8QuantizeArgs& w, bool w_along) {
    ops::Fp8GemmArgs& p = l.pass[i];
    p = {.a = a.to, .b = w.to, .c = g[i].c, .bias = {}, .trans_a = g[i].trans_a, .trans_b = g[i].trans_b,
         .accumulate = g[i].accumulate, .mode = g[i].mode};
    const ops::Fp8Form form = ops::fp8_form(b.stream, p);
    (a_along ? a.to.along : a.to.down).form = (w_along ? w.to.along : w.to.down).form = form;
    p.a = a.to, p.b = w.to;
  };
  set(0, l.x_along, true, l.w, true);
  set(1, l.dy, true, l.w, false);
  set(2, l.dy, false, l.x_down, false);
  ops::fp8_quantize(b.stream, l.w);
  return l;
}

// A linear layer of fp8 products, with what rounding takes but for the weight's, beside the same in bf16. Wanted: 1.25 times
// that.
void fp8_products(Bench& b) {
  for (bool blocks : {false, true}) {
    const char* name = blocks ? "blocks" : "tensor";
    std::printf("fp8, %s: products are %s\n", blocks ? "blocks" : "a scale a tensor",
                ops::fp8_products(kGpu, blocks).c_str());
    const ops::GemmArgs g[] = {layer_product(b, 0, DType::bf16), layer_product(b, 1, DType::bf16),
                               layer_product(b, 2, DType::bf16)};
    const Fp8Layer l = fp8_layer(b, g, blocks);
    const auto bf16 = [&](int pass) { ops::gemm(b.stream, g[pass]); };
    const auto fp8 = [&](int pass) {
      if (pass != 2) ops::fp8_quantize(b.stream, pass == 0 ? l.x_along : l.dy);
      else ops::fp8_quantize(b.stream, l.x_down);
      ops::fp8_gemm(b.stream, l.pass[pass]);
    };
    const auto all = [](const auto& each) { return [each] { each(0), each(1), each(2); }; };
    const double all_bf16 = b.seconds(all(bf16)), all_fp8 = b.seconds(all(fp8));
    double one_bf16[3];
    for (int pass = 0; pass < 3; ++pass) one_bf16[pass] = b.seconds([&] { bf16(pass); });
    const ops::Cost cost = ops::gemm_cost(g[0]);
    std::printf("%-34s %10.4f ms, in bf16 %.4f ms: %.2f times as fast, wanted 1.25\n",
                fmt::format("linear forward and backward fp8 {}", name).c_str(), all_fp8 * 1e3, all_bf16 * 1e3,
                all_bf16 / all_fp8);
    if (b.json)
      fmt::print(b.json, "{{\"op\":\"linear forward and backward fp8 {}\",\"ms\":{:.5f},\"bf16_ms\":{:.5f}}}\n", name,
                 all_fp8 * 1e3, all_bf16 * 1e3);
    b.timed_row(fmt::format("rounding of dy, both ways, {}", name), moved(4 * static_cast<double>(l.dy.x.size())),
                b.seconds([&] { ops::fp8_quantize(b.stream, l.dy); }), 0);
    for (int pass = 0; pass < 3; ++pass) {
      const double wanted = 1.25 * cost.flop / one_bf16[pass] / b.peak;
      b.timed_row(fmt::format("{} fp8 {}", kPasses[pass], name), cost, b.seconds([&] { fp8(pass); }), wanted);
    }
    b.memory.clear();
  }
}

// By kernels of ours, or by cuDNN's.
void attention(Bench& b, I dim, ops::AttentionKernels kernels) {
  const bool is_ours = kernels == ops::AttentionKernels::ours;
  if (const std::string words = ops::attention_kernels(kGpu, kernels); !is_ours && words.starts_with("our own")) {
    std::printf("%-34s not run: attention is %s\n", fmt::format("cuDNN attention d {}", dim).c_str(), words.c_str());
    return;
  }
  const I length = b.size(8192, 96), sequences = 2, heads = b.size(2048, 128) / dim, t = length * sequences;
  const View q = b.memory.normal(DType::bf16, {t, heads, dim}), k = b.memory.normal(DType::bf16, {t, heads, dim}),
             v = b.memory.normal(DType::bf16, {t, heads, dim}), dout = b.memory.normal(DType::bf16, {t, heads, dim}),
             out = b.memory.zeros(DType::bf16, {t, heads, dim}), lse = b.memory.zeros(DType::f32, {t, heads}),
             dq = b.memory.zeros(DType::bf16, {t, heads, dim}), dk = b.memory.zeros(DType::bf16, {t, heads, dim}),
             dv = b.memory.zeros(DType::bf16, {t, heads, dim});
  ops::AttentionShape s;
  s.cu_q = s.cu_k = b.memory.integers({sequences + 1}, [&](I i) { return i * length; });
  s.scale = 0.1f;
  s.mode.kernels = kernels;
  s.lengths = {length, length, true};
  ops::Cost cost = ops::attention_cost(length, length, heads, dim, true, 2);
  cost = cost + cost;
  const auto forward = [=, &b] { ops::attention_forward(b.stream, {q, k, v, out, lse, s}); };
  const auto backward = [=, &b] { ops::attention_backward(b.stream, {q, k, v, out, lse, dout, dq, dk, dv, s}); };
  if (!is_ours) {
    b.line(fmt::format("cuDNN attention forward d {}", dim), cost, forward, dim == 128 ? 550e12 / b.peak : 0);
    cost.flop *= 2.5;
    b.row(fmt::format("cuDNN attention backward d {}", dim), cost, backward, dim == 128 ? 450e12 / b.peak : 0);
    return;
  }
  const double f = b.seconds(forward);
  std::printf("%-34s %10.4f ms %10.1f TFLOP/s\n", fmt::format("  of it forward, d {}", dim).c_str(), f * 1e3,
              cost.flop / f / 1e12);
  cost.flop *= 3.5;
  b.row(
      fmt::format("attention causal 8k d {}", dim), cost,
      [&] {
        forward();
        backward();
      },
      dim == 128 ? 280e12 / b.peak : 0);
}

void rows(Bench& b) {
  const I t = b.size(16384, 40), h = b.size(4096, 64), f = b.size(8192, 72), v = b.size(50304, 500);
  const double th = static_cast<double>(t * h), tf = static_cast<double>(t * f);
  {
    const View x = b.memory.normal(DType::bf16, {t, h}), w = b.memory.normal(DType::bf16, {h}),
               y = b.memory.zeros(DType::bf16, {t, h}), r = b.memory.zeros(DType::f32, {t});
    b.row(
        "rms_norm forward", moved(4 * th),
        [&] {
          ops::rms_norm_forward(b.stream, {x, w, y, r});
        },
        0.85);
  }
  {
    const View x = b.memory.normal(DType::bf16, {t, h}), w = b.memory.normal(DType::bf16, {h}),
               d = b.memory.normal(DType::bf16, {t, h}), dx = b.memory.zeros(DType::bf16, {t, h}),
               r = b.memory.normal(DType::f32, {t}), dw = b.memory.zeros(DType::f32, {h});
    b.row(
        "rms_norm backward", moved(10 * th),
        [&] {
          ops::rms_norm_backward(b.stream, {d, x, w, r, View(), dx, dw});
        },
        0.85);
  }
  {
    const View x = b.memory.normal(DType::bf16, {t, 2 * f}), y = b.memory.zeros(DType::bf16, {t, f});
    b.row(
        "swiglu forward", moved(6 * tf),
        [&] {
          ops::activation_forward(b.stream, {x, View(), y, ops::Activation::silu, true});
        },
        0.85);
  }
  {
    const View x = b.memory.normal(DType::bf16, {t, 2 * f}), d = b.memory.normal(DType::bf16, {t, f}),
               dx = b.memory.zeros(DType::bf16, {t, 2 * f});
    b.row(
        "swiglu backward", moved(10 * tf),
        [&] {
          ops::activation_backward(b.stream, {x, View(), d, dx, View(), ops::Activation::silu, true});
        },
        0.85);
  }
  {
    const View x = b.memory.normal(DType::bf16, {t, v}), ids = b.memory.integers({t}, [&](I i) { return i * 7 % v; });
    const View max = b.memory.zeros(DType::f32, {t}), sum = b.memory.zeros(DType::f32, {t}),
               hit = b.memory.zeros(DType::f32, {t}), loss = b.memory.zeros(DType::f32, {t}),
               scale = b.memory.normal(DType::f32, {t});
    b.row("cross_entropy, three steps", moved(8 * static_cast<double>(t * v)), [&] {
      ops::cross_entropy_max(b.stream, {x, v, max});
      ops::cross_entropy_sum(b.stream, {x, v, max, ids, 0, sum, hit, View()});
      ops::cross_entropy_loss(b.stream, {.logits = x,
                                         .columns = v,
                                         .row_max = max,
                                         .sum_exp = sum,
                                         .target_logit = hit,
                                         .targets = ids,
                                         .loss = loss,
                                         .token_scale = scale});
    });
  }
  {
    const View ids = b.memory.integers({t}, [&](I i) { return i % 20 == 0 ? 5 : i * 7919 % v; }),
               d = b.memory.normal(DType::bf16, {t, h}), w = b.memory.zeros(DType::f32, {v, h});
    b.row("embedding backward", moved(10 * th), [&] { ops::embedding_backward(b.stream, {ids, d, w, 0}); });
  }
  {
    const View x = b.memory.normal(DType::bf16, {t, h}), sum = b.memory.zeros(DType::f32, {h});
    b.row("column_sum", moved(2 * th), [&] { ops::column_sum(b.stream, {x, sum}); });
  }
}

void flat(Bench& b) {
  const I n = b.size(I{256} << 20, 5000);
  const auto bytes = static_cast<double>(n);
  {
    const View w = b.memory.normal(DType::f32, {n}), m = b.memory.zeros(DType::f32, {n}),
               v = b.memory.zeros(DType::f32, {n}), g = b.memory.normal(DType::f32, {n}),
               copy = b.memory.zeros(DType::bf16, {n}), now = b.memory.zeros(DType::f32, {5});
    ops::fill(b.stream, now.rows(0, 4), 0.5);
    b.row(
        "adamw", moved(30 * bytes),
        [&] {
          ops::adamw(b.stream, {.master = w,
                                .exp_avg = m,
                                .exp_avg_sq = v,
                                .grad = g,
                                .model = copy,
                                .scalars = static_cast<const ops::AdamwScalars*>(now.data)});
        },
        0.85);
  }
  {
    const View x = b.memory.normal(DType::f32, {n}), bins = b.memory.zeros(DType::i64, {ops::kSumSquaresSize});
    b.row("sum_squares", moved(4 * bytes), [&] { ops::sum_squares(b.stream, {x, bins}); });
  }
  {
    const View x = b.memory.normal(DType::f32, {n}), y = b.memory.zeros(DType::bf16, {n});
    b.row("cast f32 to bf16", moved(6 * bytes), [&] { ops::cast(b.stream, {x, y}); });
  }
  {
    const I columns = b.size(4096, 100), r = n / columns;
    const View x = b.memory.normal(DType::bf16, {r, columns}), y = b.memory.zeros(DType::bf16, {r, columns});
    b.row("fp8_round, blocks of 128", moved(4 * static_cast<double>(r * columns)),
          [&] { ops::fp8_round(b.stream, {.x = x, .out = y, .amax = View()}); });
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    Bench b;
    for (int i = 1; i < argc; ++i) {
      if (std::strcmp(argv[i], "--small") == 0) b.small = true;
      else if (std::strcmp(argv[i], "--json") == 0 && i + 1 < argc) {
        b.json = std::fopen(argv[++i], "w");
        if (b.json == nullptr) return std::fprintf(stderr, "bench_gpu: %s cannot be written\n", argv[i]), 5;
      } else return std::fprintf(stderr, "bench_gpu [--small] [--json FILE]\n"), 2;
    }
    limits(b);
    products(b);
    gelu_products(b);
    fp8_products(b);
    for (I dim : {128, 64})
      for (auto kernels : {ops::AttentionKernels::ours, ops::AttentionKernels::cudnn}) attention(b, dim, kernels);
    rows(b);
    flat(b);
    if (b.json) std::fclose(b.json);
  } catch (const Error& e) {
    std::fprintf(stderr, "bench_gpu: %s\n", e.what());
    return 1;
  }
  return 0;
}
