// Of sequences that are equally long the library is told one length; then it wants the log-sum-exp of a head's queries side by
// side, where ours has a token's heads so, and reads no other order (its frontend refuses one below 9.26). Packed
// ones go by lengths and first elements, the log-sum-exp as it is.
#include "ops/cuda/cudnn_attention.h"

#include <algorithm>
#include <bit>
#include <map>
#include <mutex>

#include "base/log.h"
#include "device/cuda/launch.h"
#include "ops/cuda/elements.h"
#include "ops/cuda/sdpa_plan.h"

namespace mt::ops::cuda {

namespace {

struct Plans {
  std::mutex mutex;
  std::map<Sdpa, std::unique_ptr<SdpaPlan>> by_shape;  // null: the library has none
};

const SdpaPlan* plan_of(const Sdpa& s, AttentionKernels wanted) {
  static Plans& plans = *new Plans;  // kept to the end: the driver may be gone before static objects are
  const std::lock_guard lock(plans.mutex);
  const auto [at, is_new] = plans.by_shape.try_emplace(s);
  if (is_new) {
    mt::cuda::use_device(s.device);
    std::string why;
    at->second = make_sdpa_plan(s, why);
    if (at->second == nullptr) {
      const std::string words =
          fmt::format("attention {} of head dim {}, {} queries, {} keys is our own: cuDNN has no plan: {}",
                      s.backward ? "backward" : "forward", s.dim, s.queries, s.keys, why.substr(0, why.find('\n')));
      if (wanted == AttentionKernels::cudnn) log::warn("{}", words);
      else log::info("{}", words);
    }
  }
  return at->second.get();
}

// Few plans serve packed sequences of many lengths.
std::int64_t rounded(std::int64_t n) {
  return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(n)));
}

class Call {
 public:
  Call(const Stream& stream, const View& q, const View& k, const AttentionShape& shape) : stream_(stream), shape_(shape) {
    s_.device = stream.device().index;
    s_.capability = mt::cuda::compute_capability(s_.device);
    s_.dtype = q.dtype;
    s_.causal = shape.causal;
    s_.packed = !shape.lengths.equal;
    s_.heads = q.dim(1);
    s_.groups = k.dim(1);
    s_.dim = q.dim(2);
    s_.scale = shape.scale;
    count_ = shape.cu_q.size() - 1;
    s_.batch = s_.packed ? rounded(count_) : count_;
    s_.queries = shape.lengths.longest_q;
    s_.keys = shape.lengths.longest_k;
    if (s_.packed) s_.queries = s_.keys = std::min(rounded(std::max(s_.queries, s_.keys)), q.dim(0));
  }

  void backward(bool repeats) {
    s_.backward = true;
    s_.repeats = repeats;
  }
  void tensor(SdpaTensor t, const View& x) {
    const std::int64_t tokens = of_keys(t) ? s_.keys : s_.queries;
    memory_.data[t] = x.data;
    s_.steps[t] = {tokens * x.stride(0), x.stride(1), x.stride(0)};
  }
  void lse(const View& x) {
    lse_ = static_cast<float*>(x.data);
    memory_.data[kSdpaLse] = lse_;
    s_.steps[kSdpaLse] = s_.packed ? SdpaSteps{s_.queries * s_.heads, 1, s_.heads} : SdpaSteps{s_.heads * s_.queries, s_.queries, 1};
  }

  bool run();

 private:
  std::byte* take(std::byte*& memory, std::size_t bytes) const {
    std::byte* mine = memory;
    memory += up(bytes);
    return mine;
  }
  static std::size_t up(std::size_t bytes) { return (bytes + 255) / 256 * 256; }
  void pack(std::byte*& memory);

  const Stream& stream_;
  const AttentionShape& shape_;
  Sdpa s_;
  SdpaMemory memory_;
  std::int64_t count_ = 0;  // sequences there are; a plan may be for more, which are empty
  float* lse_ = nullptr;
};

struct PackArgs {
  const std::int32_t *cu_q, *cu_k;
  std::int32_t *query_lengths, *key_lengths;
  std::int64_t* firsts[kSdpaTensors];
  Count token[kSdpaTensors];
  int count, batch;
};

// A thread a sequence, and one for the end.
__global__ void pack_sequences(PackArgs g) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i > g.batch) return;
  const int at = i < g.count ? i : g.count;
  if (i < g.batch) {
    g.query_lengths[i] = i < g.count ? g.cu_q[i + 1] - g.cu_q[i] : 0;
    g.key_lengths[i] = i < g.count ? g.cu_k[i + 1] - g.cu_k[i] : 0;
  }
  for (int t = 0; t < kSdpaTensors; ++t)
    if (g.firsts[t] != nullptr) g.firsts[t][i] = g.token[t] * (of_keys(t) ? g.cu_k[at] : g.cu_q[at]);
}

struct LseArgs {
  float *by_head, *by_token;  // [sequences, heads, queries], [sequences, queries, heads]
  Count queries, heads, size;
};

template <bool kToToken>
__global__ void turn_lse(LseArgs g) {
  const Count i = static_cast<Count>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= g.size) return;
  const Count head = i % g.heads, token = i / g.heads, sequence = token / g.queries, query = token % g.queries;
  const Count other = (sequence * g.heads + head) * g.queries + query;
  if constexpr (kToToken) g.by_token[i] = g.by_head[other];
  else g.by_head[other] = g.by_token[i];
}

void Call::pack(std::byte*& memory) {
  PackArgs g{};
  g.cu_q = static_cast<const std::int32_t*>(shape_.cu_q.data);
  g.cu_k = static_cast<const std::int32_t*>(shape_.cu_k.data);
  g.count = static_cast<int>(count_);
  g.batch = static_cast<int>(s_.batch);
  const auto n = static_cast<std::size_t>(s_.batch);
  g.query_lengths = memory_.query_lengths = reinterpret_cast<std::int32_t*>(take(memory, n * 4));
  g.key_lengths = memory_.key_lengths = reinterpret_cast<std::int32_t*>(take(memory, n * 4));
  for (int t = 0; t < kSdpaTensors; ++t) {
    if (memory_.data[t] == nullptr) continue;
    g.firsts[t] = memory_.firsts[t] = reinterpret_cast<std::int64_t*>(take(memory, (n + 1) * 8));
    g.token[t] = s_.steps[t].token;
  }
  launch(stream_, pack_sequences, {.x = static_cast<unsigned>(ceil_div(s_.batch + 1, Count{kThreads})), .threads = kThreads}, g);
}

bool Call::run() {
  const SdpaPlan* plan = plan_of(s_, shape_.mode.kernels);
  if (plan == nullptr) return false;
  const Count rows = s_.batch * s_.queries * s_.heads;
  const auto n = static_cast<std::size_t>(s_.batch + 1);
  const std::size_t beside = s_.packed ? 2 * up(n * 4) + kSdpaTensors * up(n * 8) : up(static_cast<std::size_t>(rows) * 4);
  std::byte* memory = mt::cuda::scratch(stream_, beside + plan->workspace_bytes() + 256);
  LseArgs turn{};
  const Grid grid{.x = static_cast<unsigned>(ceil_div(rows, Count{kThreads})), .threads = kThreads};
  if (s_.packed) {
    pack(memory);
  } else {
    turn = {reinterpret_cast<float*>(take(memory, static_cast<std::size_t>(rows) * 4)), lse_, s_.queries, s_.heads, rows};
    memory_.data[kSdpaLse] = turn.by_head;
    if (s_.backward) launch(stream_, turn_lse<false>, grid, turn);
  }
  memory_.workspace = memory;
  mt::cuda::use_device(s_.device);
  plan->run(mt::cuda::native(stream_), memory_);
  if (!s_.packed && !s_.backward) launch(stream_, turn_lse<true>, grid, turn);
  return true;
}

bool there(const Stream& stream, const auto& args) {
  return cudnn_takes(args, mt::cuda::compute_capability(stream.device().index)) && why_no_sdpa().empty();
}

}  // namespace

bool cudnn_attention_forward(const Stream& stream, const AttentionForwardArgs& g) {
  if (!there(stream, g)) return false;
  Call call(stream, g.q, g.k, g.shape);
  call.tensor(kSdpaQ, g.q);
  call.tensor(kSdpaK, g.k);
  call.tensor(kSdpaV, g.v);
  call.tensor(kSdpaOut, g.out);
  call.lse(g.lse);
  return call.run();
}

bool cudnn_attention_backward(const Stream& stream, const AttentionBackwardArgs& g) {
  if (!there(stream, g)) return false;
  Call call(stream, g.q, g.k, g.shape);
  call.backward(g.shape.mode.repeats);
  call.tensor(kSdpaQ, g.q);
  call.tensor(kSdpaK, g.k);
  call.tensor(kSdpaV, g.v);
  call.tensor(kSdpaOut, g.out);
  call.lse(g.lse);
  call.tensor(kSdpaDout, g.dout);
  call.tensor(kSdpaDq, g.dq);
  call.tensor(kSdpaDk, g.dk);
  call.tensor(kSdpaDv, g.dv);
  return call.run();
}

}  // namespace mt::ops::cuda
