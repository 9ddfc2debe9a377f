#pragma once
// A micro-batch on the host, and its copy on the device.
//
//   T  tokens = sequences · seq_length
// Code: engine/batch.cc. Tests: tests/engine/.

#include <cstdint>
#include <vector>

#include "nn/context.h"

namespace mt {

struct HostBatch {
  std::vector<std::int32_t> ids, labels;    // [T]; labels may be empty when generating
  std::vector<float> mask;                  // [T]: 1 where the label counts
  std::vector<std::int64_t> ordinals;       // [T]
  std::vector<std::int32_t> positions;      // [T]
  std::vector<std::int32_t> places;         // [T] of a token in its sample; empty: its positions
  std::vector<std::int32_t> cu_seqlens;     // [B + 1]
  double unmasked() const;
};

// Copy to `arena`; loss_scale = mask · scale · *on_device.
//   needs  `batch` lives until the stream ran
//   cost   an accelerator is given pinned memory, so the host does not wait for it
Tokens upload(Stream& stream, Arena& arena, const HostBatch& batch, double scale, const float* on_device = nullptr);

// The numbers of f32 views on the device.   cost  waits for the stream, once
std::vector<std::vector<float>> read_floats(Stream& stream, const std::vector<View>& views);

}  // namespace mt
