#include "engine/batch.h"

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

template <class T>
View copy(Stream& stream, Arena& arena, const std::vector<T>& host) {
  if (host.empty()) return {};
  const View v = allocate(arena, dtype_of<T>, {static_cast<std::int64_t>(host.size())});
  copy_bytes(stream, v.data, host.data(), v.bytes());
  return v;
}

}  // namespace

Tokens upload(Stream& stream, Arena& arena, const HostBatch& b, double scale, const float* on_device) {
  Tokens t;
  t.ids = copy(stream, arena, b.ids);
  t.labels = copy(stream, arena, b.labels);
  t.loss_scale = copy(stream, arena, b.mask);
  if (t.loss_scale)
    ops::scale(stream, {.x = t.loss_scale,
                        .out = t.loss_scale,
                        .factor = static_cast<float>(scale),
                        .on_device = on_device});
  t.ordinals = copy(stream, arena, b.ordinals);
  t.positions = copy(stream, arena, b.positions);
  t.places = b.places.empty() ? t.positions : copy(stream, arena, b.places);
  t.cu_seqlens = copy(stream, arena, b.cu_seqlens);
  return t;
}

}  // namespace mt
