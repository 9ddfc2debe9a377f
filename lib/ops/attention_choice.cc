#include "base/error.h"
#include "device/backend.h"
#include "ops/attention.h"
#include "ops/cuda/sdpa_plan.h"

namespace mt::ops {

namespace {

constexpr int kOldestCapability = 90;
constexpr std::int64_t kMostDim = 256, kBorder = 16;

// As cuDNN reads and writes it: `dtype`, rows on borders.
bool fits(const View& x, DType dtype) {
  const auto bytes = static_cast<std::int64_t>(bits_of(dtype)) / 8;
  return x.dtype == dtype && x.stride(2) == 1 && x.stride(0) > 0 && x.stride(1) > 0 &&
         x.stride(0) * bytes % kBorder == 0 && x.stride(1) * bytes % kBorder == 0 &&
         reinterpret_cast<std::uintptr_t>(x.data) % kBorder == 0;
}

bool takes(const View& q, const View& k, const View& v, const AttentionShape& s, int capability) {
  if (s.mode.kernels == AttentionKernels::ours || capability < kOldestCapability) return false;
  if (q.dtype != DType::bf16 && q.dtype != DType::f16) return false;
  if (q.dim(2) % 8 != 0 || q.dim(2) > kMostDim || q.dim(0) == 0 || k.dim(0) == 0) return false;
  for (const View* x : {&q, &k, &v})
    if (!fits(*x, q.dtype)) return false;
  if (s.dropout.p > 0 || s.used_k || !(s.scale > 0)) return false;
  const auto& l = s.lengths;
  const std::int64_t sequences = s.cu_q.size() - 1;
  if (sequences < 1 || l.longest_q < 1 || l.longest_k < 1) return false;
  // One token attends to itself alone, and a key that no query sees is what the library's notes warn of.
  if (l.longest_q == 1) return false;
  if (l.equal)
    return l.longest_q * sequences == q.dim(0) && l.longest_k * sequences == k.dim(0) &&
           (!s.causal || l.longest_q <= l.longest_k);
  return s.cu_q.data == s.cu_k.data && q.dim(0) == k.dim(0);
}

}  // namespace

bool cudnn_takes(const AttentionForwardArgs& g, int capability) {
  return takes(g.q, g.k, g.v, g.shape, capability) && fits(g.out, g.q.dtype);
}

bool cudnn_takes(const AttentionBackwardArgs& g, int capability) {
  if (!takes(g.q, g.k, g.v, g.shape, capability)) return false;
  for (const View* x : {&g.out, &g.dout, &g.dq, &g.dk, &g.dv})
    if (!fits(*x, g.q.dtype)) return false;
  return true;
}

std::string attention_kernels(Device device, AttentionKernels wanted) {
  if (device.kind == DeviceKind::cpu || wanted == AttentionKernels::ours) return "our own";
  if (cuda_backend().capability(device.index) < kOldestCapability)
    return "our own (cuDNN's are for compute capability 9.0 and above)";
  const std::string& why = cuda::why_no_sdpa();
  return why.empty() ? cuda::sdpa_library() : fmt::format("our own ({})", why);
}

}  // namespace mt::ops
