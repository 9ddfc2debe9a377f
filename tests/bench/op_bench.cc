// The op classes of one GPT-2 124M training step (micro-batch 4 × 256 tokens), each beside its own limit.
//
//   bench_ops [f32|bf16] [THREADS]
// A row a class: milliseconds a call, its limit (flop over the oneDNN peak at 2048³, or bytes over the copy bandwidth,
// whichever is longer), their ratio, calls a step, milliseconds a step. The last rows add up a step and give model
// FLOP/s (causal) over the peak, were nothing else to cost time.

#include <cstdio>
#include <cstdlib>

#include "bench/limits.h"
#include "ops/activation_cases.h"
#include "ops/adamw_cases.h"
#include "ops/attention_cases.h"
#include "ops/bias_dropout_add_cases.h"
#include "ops/cross_entropy_cases.h"
#include "ops/embedding_cases.h"
#include "ops/fp8_cases.h"
#include "ops/gemm_cases.h"
#include "ops/norm_cases.h"

namespace {

using namespace mt;
using namespace mt::bench;
using test::I;

constexpr I kTokens = 1024, kHidden = 768, kFfn = 3072, kVocab = 50304, kLayers = 12;

struct Row {
  const char* name;
  I calls;
  std::function<test::OpCase()> make;
};

test::OpCase linear(I out, I in, int pass, DType t) {
  if (pass == 0) return test::gemm_case({0, kTokens, out, in, t, t, false, true, false, false}, false);
  if (pass == 1) return test::gemm_case({0, kTokens, in, out, t, t, false, false, false, false}, false);
  return test::gemm_case({0, out, in, kTokens, t, DType::f32, true, false, true, false}, false);
}

test::OpCase sum_squares_case(I n) {
  return {"", [n] {
            test::Prepared p;
            const View x = p.data->normal(DType::f32, {n}, 1e-4),
                       bins = p.data->zeros(DType::i64, {ops::kSumSquaresSize});
            p.cost = {0, static_cast<double>(x.bytes())};
            p.run = [=](Stream& st) { ops::sum_squares(st, {x, bins}); };
            return p;
          }};
}

std::vector<Row> rows(DType t) {
  using A = ops::Activation;
  const std::vector<I> lengths(4, 256);
  std::vector<Row> out;
  const char* passes[] = {"forward", "dx", "dw"};
  static std::deque<std::string> names;
  for (auto [what, o, i, calls] : {std::tuple<const char*, I, I, I>{"qkv", 3 * kHidden, kHidden, kLayers},
                                   {"proj", kHidden, kHidden, kLayers},
                                   {"fc1", kFfn, kHidden, kLayers},
                                   {"fc2", kHidden, kFfn, kLayers},
                                   {"head", kVocab, kHidden, 1}})
    for (int pass = 0; pass < 3; ++pass) {
      names.push_back(fmt::format("gemm {} {}", what, passes[pass]));
      out.push_back({names.back().c_str(), calls, [o = o, i = i, pass, t] { return linear(o, i, pass, t); }});
    }
  const auto layer_norm = test::NormShape{kTokens, kHidden, t, t, true, false, true};
  out.push_back({"attention forward", kLayers, [=] {
                   return test::attention_case({lengths, lengths, 12, 12, 64, t}, false, false);
                 }});
  out.push_back({"attention backward", kLayers, [=] {
                   return test::attention_case({lengths, lengths, 12, 12, 64, t}, true, false);
                 }});
  out.push_back({"layer_norm forward", 2 * kLayers + 1, [=] { return test::norm_forward_case(layer_norm); }});
  out.push_back({"layer_norm backward", 2 * kLayers + 1, [=] { return test::norm_backward_case(layer_norm, false); }});
  out.push_back({"gelu forward", kLayers, [=] {
                   return test::activation_case({A::gelu_tanh, kTokens, kFfn, t, false, true}, false, false);
                 }});
  out.push_back({"gelu backward", kLayers, [=] {
                   return test::activation_case({A::gelu_tanh, kTokens, kFfn, t, false, true}, true, false);
                 }});
  out.push_back({"bias_dropout_add forward", 2 * kLayers, [=] {
                   return test::bias_dropout_add_case({kTokens, kHidden, t, 0.1, 0, true, true}, false);
                 }});
  out.push_back({"bias_dropout_add backward", 2 * kLayers, [=] {
                   return test::bias_dropout_add_case({kTokens, kHidden, t, 0.1, 0, true, true}, true);
                 }});
  out.push_back(
      {"embedding forward", 1, [=] { return test::embedding_case(kTokens, kHidden, kVocab / 8, 0, t, true, false); }});
  out.push_back(
      {"embedding backward", 2, [=] { return test::embedding_case(kTokens, kHidden, kVocab / 8, 0, t, true, true); }});
  out.push_back({"round to fp8 (fp8 only)", 0, [=] { return test::fp8_case({kTokens, kFfn, 0, 0, DType::e4m3, t}, false); }});
  out.push_back({"rotary (LLaMA only)", 0, [=] { return test::rotary_case(kTokens, 12, 64, 64, t, false, false); }});
  out.push_back({"swiglu forward (LLaMA only)", 0, [=] {
                   return test::activation_case({A::silu, kTokens, 2048, t, true, false}, false, false);
                 }});
  out.push_back({"swiglu backward (LLaMA only)", 0, [=] {
                   return test::activation_case({A::silu, kTokens, 2048, t, true, false}, true, false);
                 }});
  out.push_back({"cross_entropy, both passes", 1, [=] {
                   return test::cross_entropy_case({kTokens, kVocab, 50257, t}, false);
                 }});
  out.push_back({"adamw, 16 M", 8, [=] { return test::adamw_case(124439808 / 8, DType::f32, t, 0.1f); }});
  out.push_back({"sum_squares, 16 M", 8, [=] { return sum_squares_case(124439808 / 8); }});
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  const DType t = argc > 1 && std::string(argv[1]) == "f32" ? DType::f32 : DType::bf16;
  const int threads = argc > 2 ? std::atoi(argv[2]) : usable_cores();
  omp_set_num_threads(threads);
  Stream stream({}, threads);
  const double peak = gemm_peak(t), bandwidth = copy_bandwidth(stream);
  std::printf("# %s, %d threads, peak %.0f GFLOP/s, copy %.1f GB/s\n", std::string(dtype_name(t)).c_str(), threads,
              peak / 1e9, bandwidth / 1e9);
  std::printf("class\tms\tlimit_ms\tlimit/time\tcalls\tstep_ms\n");
  double total = 0, products = 0;
  for (const Row& r : rows(t)) {
    test::Prepared p = r.make().prepare();
    const double s = median_s(7, [&] { p.run(stream); });
    const double limit = std::max(p.cost.flop / peak, p.cost.bytes / bandwidth);
    total += s * static_cast<double>(r.calls);
    if (std::strncmp(r.name, "gemm", 4) == 0) products += s * static_cast<double>(r.calls);
    std::printf("%s\t%.3f\t%.3f\t%.2f\t%ld\t%.1f\n", r.name, s * 1e3, limit * 1e3, limit / s, r.calls,
                s * 1e3 * static_cast<double>(r.calls));
    std::fflush(stdout);
  }
  const double weights = 12.0 * kLayers * kHidden * kHidden + static_cast<double>(kHidden) * kVocab;
  const double model = 6 * weights * kTokens + 3 * kLayers * 4 * ops::attention_cost(256, 256, 12, 64, true, 2).flop;
  std::printf("all products\t\t\t\t\t%.1f\nwhole step\t\t\t\t\t%.1f\nmodel FLOP/s over peak\t\t\t\t\t%.3f\n",
              products * 1e3, total * 1e3, model / total / peak);
  return 0;
}
