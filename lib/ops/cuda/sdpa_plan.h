#pragma once
// One attention as cuDNN is asked for it: what its plan depends on, the memory it is run with, and the plan.
//
// The library sees [batch, heads, tokens, dim] with free steps between tokens and between heads. Packed, every sequence
// has a length and, in each tensor, a first element; without, all have `queries` and `keys` tokens one after the other.
// Code: ops/cudnn/ where the library's headers are found, ops/absent/no_cudnn.cc elsewhere, and tests/cuda_emulation/
// for the emulated device. Tests: tests/ops/cudnn_plans_test.cc, cudnn_attention_test.cc.

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/dtype.h"

namespace mt::ops::cuda {

enum SdpaTensor : std::uint8_t { kSdpaQ, kSdpaK, kSdpaV, kSdpaOut, kSdpaLse, kSdpaDout, kSdpaDq, kSdpaDk, kSdpaDv, kSdpaTensors };

// Which of them have keys' tokens and groups' heads.
constexpr bool of_keys(int tensor) {
  return tensor == kSdpaK || tensor == kSdpaV || tensor == kSdpaDk || tensor == kSdpaDv;
}

struct SdpaSteps {
  std::int64_t sequence = 0, head = 0, token = 0;  // elements from one to the next; packed, the first is not looked at
  friend auto operator<=>(const SdpaSteps&, const SdpaSteps&) = default;
};

// All that a plan depends on. Tensors lie on borders of 16 bytes, as do their rows; lse is f32, the others are `dtype`.
struct Sdpa {
  int device = 0, capability = 90;  // the latter as 90, 100
  DType dtype = DType::bf16;
  bool backward = false, causal = true, packed = false;
  bool repeats = false;  // backward: the same bits every time
  std::int64_t batch = 1, heads = 1, groups = 1, dim = 64;
  std::int64_t queries = 1, keys = 1;  // of a sequence; packed: of the longest. Causal: the last query sees the last key
  float scale = 1;
  std::array<SdpaSteps, kSdpaTensors> steps = {};
  friend auto operator<=>(const Sdpa&, const Sdpa&) = default;
};

// Device memory.
struct SdpaMemory {
  std::array<void*, kSdpaTensors> data = {};
  // Packed: tokens of every sequence [batch], and the first element of each, and of what comes after the last
  // [batch + 1], by tensor.
  std::int32_t *query_lengths = nullptr, *key_lengths = nullptr;
  std::array<std::int64_t*, kSdpaTensors> firsts = {};
  std::byte* workspace = nullptr;  // on a border of 256 bytes
};

class SdpaPlan {
 public:
  virtual ~SdpaPlan() = default;
  virtual std::size_t workspace_bytes() const = 0;
  // Queued on the stream; nothing waits.   fails  Error{device}
  virtual void run(void* stream, const SdpaMemory& memory) const = 0;
};

// Null: the library has none for this, and `why` not.   fails  Error{device}   cost  up to seconds: the library may compile
std::unique_ptr<SdpaPlan> make_sdpa_plan(const Sdpa& sdpa, std::string& why);

// For tests, without a device: what the library misses to do this on a device of such properties (its JSON); empty: nothing.
std::string why_no_sdpa_engine(const Sdpa& sdpa, const std::string& device_properties);

// Why there is no such library here, in words; empty where there is one.   cost  the first time, opening it
const std::string& why_no_sdpa();
// Its name and version, where there is one.
std::string sdpa_library();

}  // namespace mt::ops::cuda
