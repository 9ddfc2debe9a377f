#include "engine/batch.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "ops/arithmetic.h"
#include "tensor/tensor.h"

namespace mt {

double HostBatch::unmasked() const {
  double n = 0;
  for (float m : mask) n += m;
  return n;
}

namespace {

std::size_t aligned(std::size_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; }

// Pinned memory that is filled piece by piece; empty on a CPU. Its end waits for nobody: device/backend.h.
class Staging {
 public:
  Staging(const Stream& stream, std::size_t bytes) {
    if (stream.native()) memory_ = Buffer(stream.device(), bytes, Memory::pinned);
  }
  explicit operator bool() const { return memory_.size() > 0; }
  std::byte* take(std::size_t bytes) {
    std::byte* at = memory_.data() + used_;
    used_ += aligned(bytes);
    MT_CHECK(used_ <= memory_.size(), "{} bytes of {}", used_, memory_.size());
    return at;
  }

 private:
  Buffer memory_;
  std::size_t used_ = 0;
};

template <class T>
std::size_t staged_bytes(const std::vector<T>& v) {
  return aligned(v.size() * sizeof(T));
}

template <class T>
View copy(Stream& stream, Arena& arena, Staging& staging, const std::vector<T>& host) {
  if (host.empty()) return {};
  const View v = allocate(arena, dtype_of<T>, {static_cast<std::int64_t>(host.size())});
  const void* from = host.data();
  if (staging) from = std::memcpy(staging.take(v.bytes()), from, v.bytes());
  copy_bytes(stream, v.data, from, v.bytes());
  return v;
}

// Of both queries and keys: tokens attend to their own sequence.
ops::AttentionLengths lengths_of(const std::vector<std::int32_t>& cu_seqlens) {
  std::int64_t longest = 0, shortest = std::numeric_limits<std::int64_t>::max();
  for (std::size_t i = 1; i < cu_seqlens.size(); ++i) {
    const std::int64_t length = cu_seqlens[i] - cu_seqlens[i - 1];
    longest = std::max(longest, length);
    shortest = std::min(shortest, length);
  }
  return {longest, longest, longest == shortest};
}

}  // namespace

Tokens upload(Stream& stream, Arena& arena, const HostBatch& b, double scale, const float* on_device) {
  Staging staging(stream, staged_bytes(b.ids) + staged_bytes(b.labels) + staged_bytes(b.mask) + staged_bytes(b.ordinals) +
                              staged_bytes(b.positions) + staged_bytes(b.places) + staged_bytes(b.cu_seqlens));
  Tokens t;
  t.ids = copy(stream, arena, staging, b.ids);
  t.labels = copy(stream, arena, staging, b.labels);
  t.loss_scale = copy(stream, arena, staging, b.mask);
  if (t.loss_scale)
    ops::scale(stream, {.x = t.loss_scale,
                        .out = t.loss_scale,
                        .factor = static_cast<float>(scale),
                        .on_device = on_device});
  t.ordinals = copy(stream, arena, staging, b.ordinals);
  t.positions = copy(stream, arena, staging, b.positions);
  t.places = b.places.empty() ? t.positions : copy(stream, arena, staging, b.places);
  t.cu_seqlens = copy(stream, arena, staging, b.cu_seqlens);
  t.lengths = lengths_of(b.cu_seqlens);
  return t;
}

std::vector<std::vector<float>> read_floats(Stream& stream, const std::vector<View>& views) {
  std::size_t bytes = 0;
  for (const View& v : views) bytes += aligned(v.bytes());
  Staging staging(stream, bytes);
  std::vector<const float*> from;
  for (const View& v : views) {
    from.push_back(staging ? reinterpret_cast<const float*>(staging.take(v.bytes())) : v.as<float>());
    if (staging) copy_bytes(stream, const_cast<float*>(from.back()), v.data, v.bytes());
  }
  stream.synchronize();
  std::vector<std::vector<float>> out;
  for (std::size_t i = 0; i < views.size(); ++i) out.emplace_back(from[i], from[i] + views[i].size());
  return out;
}

}  // namespace mt
