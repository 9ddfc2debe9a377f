// Stands for cuDNN's attention in the emulated backend, where MT_EMULATION_CUDNN is set: plain loops in double over tensors as
// ops/cuda/sdpa_plan.h describes them, queued on the emulated stream.
//
// What the library refuses is refused, as its frontend's checks have it; what it would read wrong without a word stops the
// program. Its workspace is overwritten, as the library may. With MT_EMULATION_CUDNN=idle nothing else is, which shows who computes.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <vector>

#include "cuda_runtime.h"

#include "ops/cuda/sdpa_plan.h"

namespace mt::ops::cuda {

namespace {

constexpr std::size_t kWorkspace = 1000;

[[noreturn]] void stop(const char* what) {
  std::fprintf(stderr, "emulated cuDNN: %s\n", what);
  std::abort();
}

using Count = std::int64_t;

class Work {
 public:
  Work(const Sdpa& sdpa, const SdpaMemory& memory) : s_(sdpa), m_(memory) {}

  void operator()() const {
    std::memset(m_.workspace, 0xCB, kWorkspace);
    if (const char* said = std::getenv("MT_EMULATION_CUDNN"); said != nullptr && std::strcmp(said, "idle") == 0) return;
    for (Count b = 0; b < s_.batch; ++b) {
      if (s_.packed && (m_.query_lengths[b] > s_.queries || m_.key_lengths[b] > s_.keys)) stop("a sequence longer than the longest");
      if (!s_.backward) {
        for (Count h = 0; h < s_.heads; ++h)
          for (Count i = 0; i < queries(b); ++i) forward(b, h, i);
        continue;
      }
      for (Count g = 0; g < s_.groups; ++g) backward(b, g);
    }
  }

 private:
  Count queries(Count b) const { return s_.packed ? m_.query_lengths[b] : s_.queries; }
  Count keys(Count b) const { return s_.packed ? m_.key_lengths[b] : s_.keys; }
  Count seen(Count b, Count i) const { return s_.causal ? std::min(keys(b), i + 1 + keys(b) - queries(b)) : keys(b); }
  Count group(Count h) const { return h / (s_.heads / s_.groups); }

  Count at(int t, Count b, Count head, Count token, Count x) const {
    const auto& step = s_.steps[static_cast<std::size_t>(t)];
    const Count first = s_.packed ? m_.firsts[static_cast<std::size_t>(t)][b] : b * step.sequence;
    return first + head * step.head + token * step.token + x;
  }
  double get(int t, Count b, Count head, Count token, Count x) const {
    const void* p = m_.data[static_cast<std::size_t>(t)];
    const Count i = at(t, b, head, token, x);
    return s_.dtype == DType::bf16 ? to_f32(static_cast<const bf16*>(p)[i]) : to_f32(static_cast<const f16*>(p)[i]);
  }
  void put(int t, Count b, Count head, Count token, Count x, double value) const {
    void* p = m_.data[static_cast<std::size_t>(t)];
    const Count i = at(t, b, head, token, x);
    if (s_.dtype == DType::bf16) static_cast<bf16*>(p)[i] = to_bf16(static_cast<float>(value));
    else static_cast<f16*>(p)[i] = to_f16(static_cast<float>(value));
  }
  float& lse(Count b, Count head, Count token) const {
    return static_cast<float*>(m_.data[kSdpaLse])[at(kSdpaLse, b, head, token, 0)];
  }
  double dot(int t, Count th, Count i, int u, Count uh, Count j, Count b) const {
    double sum = 0;
    for (Count x = 0; x < s_.dim; ++x) sum += get(t, b, th, i, x) * get(u, b, uh, j, x);
    return sum;
  }

  void forward(Count b, Count h, Count i) const {
    std::vector<double> p;
    double most = -std::numeric_limits<double>::infinity(), sum = 0;
    for (Count j = 0; j < seen(b, i); ++j) {
      p.push_back(s_.scale * dot(kSdpaQ, h, i, kSdpaK, group(h), j, b));
      most = std::max(most, p.back());
    }
    for (double& e : p) sum += e = std::exp(e - most);
    lse(b, h, i) = static_cast<float>(most + std::log(sum));
    for (Count x = 0; x < s_.dim; ++x) {
      double out = 0;
      for (std::size_t j = 0; j < p.size(); ++j) out += p[j] / sum * get(kSdpaV, b, group(h), static_cast<Count>(j), x);
      put(kSdpaOut, b, h, i, x, out);
    }
  }

  void backward(Count b, Count g) const {
    const auto n = static_cast<std::size_t>(keys(b) * s_.dim);
    std::vector<double> dk(n), dv(n), dq(static_cast<std::size_t>(s_.dim));
    const Count each = s_.heads / s_.groups;
    for (Count h = g * each; h < (g + 1) * each; ++h)
      for (Count i = 0; i < queries(b); ++i) {
        const double delta = dot(kSdpaOut, h, i, kSdpaDout, h, i, b);
        std::fill(dq.begin(), dq.end(), 0.0);
        for (Count j = 0; j < seen(b, i); ++j) {
          const double p = std::exp(s_.scale * dot(kSdpaQ, h, i, kSdpaK, g, j, b) - lse(b, h, i));
          const double ds = s_.scale * p * (dot(kSdpaDout, h, i, kSdpaV, g, j, b) - delta);
          for (Count x = 0; x < s_.dim; ++x) {
            const auto c = static_cast<std::size_t>(j * s_.dim + x);
            dv[c] += p * get(kSdpaDout, b, h, i, x);
            dk[c] += ds * get(kSdpaQ, b, h, i, x);
            dq[static_cast<std::size_t>(x)] += ds * get(kSdpaK, b, g, j, x);
          }
        }
        for (Count x = 0; x < s_.dim; ++x) put(kSdpaDq, b, h, i, x, dq[static_cast<std::size_t>(x)]);
      }
    for (Count j = 0; j < keys(b); ++j)
      for (Count x = 0; x < s_.dim; ++x) {
        put(kSdpaDk, b, g, j, x, dk[static_cast<std::size_t>(j * s_.dim + x)]);
        put(kSdpaDv, b, g, j, x, dv[static_cast<std::size_t>(j * s_.dim + x)]);
      }
  }

  Sdpa s_;
  SdpaMemory m_;
};

class EmulatedPlan final : public SdpaPlan {
 public:
  explicit EmulatedPlan(const Sdpa& sdpa) : sdpa_(sdpa) {}
  std::size_t workspace_bytes() const override { return kWorkspace; }
  void run(void* stream, const SdpaMemory& memory) const override {
    for (std::size_t t = 0; t < kSdpaTensors; ++t) {
      const bool used = sdpa_.backward || t <= kSdpaLse;
      if (used != (memory.data[t] != nullptr)) stop("a tensor is missing, or there for nothing");
      if (reinterpret_cast<std::uintptr_t>(memory.data[t]) % 16 != 0) stop("a tensor off the borders of 16 bytes");
    }
    if (reinterpret_cast<std::uintptr_t>(memory.workspace) % 256 != 0) stop("a workspace off the borders of 256 bytes");
    emulation::queue(static_cast<cudaStream_t>(stream), Work(sdpa_, memory));
  }

 private:
  Sdpa sdpa_;
};

}  // namespace

const std::string& why_no_sdpa() {
  static const std::string none = "the emulated device has none", there;
  return std::getenv("MT_EMULATION_CUDNN") == nullptr ? none : there;  // asked again: a test may set it
}

std::string sdpa_library() { return "emulated cuDNN"; }

std::unique_ptr<SdpaPlan> make_sdpa_plan(const Sdpa& s, std::string& why) {
  const bool hopper = s.capability / 10 == 9;
  if (s.dim % 8 != 0 || s.dim > (s.backward && !hopper ? 128 : 256)) why = "head dim";
  if (s.causal && s.queries > s.keys) why = "more queries than keys";
  if (s.backward && s.queries == 1 && s.keys == 1) why = "one token";
  if (!why.empty()) return nullptr;
  const auto& lse = s.steps[kSdpaLse];
  if (!s.packed && lse != SdpaSteps{s.heads * s.queries, s.queries, 1}) stop("a log-sum-exp that backward reads wrong");
  return std::make_unique<EmulatedPlan>(s);
}

std::string why_no_sdpa_engine(const Sdpa&, const std::string&) { return "the emulated device has none"; }

}  // namespace mt::ops::cuda
