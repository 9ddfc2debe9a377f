#pragma once
// What the forward and backward passes of CPU attention share: block sizes, packing, masks.
//
// Operands of one head are copied as f32 into scratch whose rows are padded with zeros to a multiple of 16 features, so
// every product is a Vector::block_product. kQueries × kKeys scores exist at a time.

#include <algorithm>

#include "ops/attention.h"
#include "ops/cpu/rows.h"
#include "ops/scalar.h"

namespace mt::ops::cpu {

inline constexpr Count kQueries = 64;  // rows of a block of scores
inline constexpr Count kKeys = 128;    // columns of one

inline Count padded(Count n) { return (n + 15) / 16 * 16; }

// The tokens of one sequence.
struct Sequence {
  Count q, nq, k, nk;  // first query token, queries, first key token, keys in use
  // Keys [0, visible(i)) are seen by query i.
  Count visible(Count i, bool causal) const { return causal ? std::clamp<Count>(i + 1 + nk - nq, 0, nk) : nk; }
};

inline Sequence sequence(const AttentionShape& s, Count i) {
  const auto* q = static_cast<const std::int32_t*>(s.cu_q.data) + i;
  const auto* k = static_cast<const std::int32_t*>(s.cu_k.data) + i;
  const Count used = s.used_k ? static_cast<const std::int32_t*>(s.used_k.data)[i] : k[1] - k[0];
  return {q[0], q[1] - q[0], k[0], used};
}

// Rows [first, first + rows) of head `head`, times `factor`, as f32 [rows, out_row] with zeros beyond the head dim.
inline void pack(const View& x, Count head, Count first, Count rows, float factor, float* out, Count out_row) {
  const Count d = x.dim(2), ahead = 12;
  for (Count i = 0; i < rows; ++i) {
    float* row = out + i * out_row;
    // Rows of a fused qkv are far apart: the processor does not see the next one coming.
    const auto* next = static_cast<const char*>(
        element(x, (first + std::min(i + ahead, rows - 1)) * x.strides[0] + head * x.strides[1]));
    for (Count byte = 0; byte < bytes_of(x.dtype, d); byte += 64) __builtin_prefetch(next + byte);
    to_f32(x.dtype, element(x, (first + i) * x.strides[0] + head * x.strides[1]), row, d);
    if (factor != 1) vector().scale(row, factor, row, d);
    std::fill(row + d, row + out_row, 0.0f);
  }
}

// out[feature, key] = in[key, feature] for `keys` keys; keys up to out_row are zeros.
inline void transpose_keys(const float* in, Count in_row, Count keys, Count features, float* out, Count out_row) {
  vector().transpose(in, in_row, keys, features, out, out_row);
  if (keys < out_row)
    for (Count j = 0; j < features; ++j) std::fill(out + j * out_row + keys, out + (j + 1) * out_row, 0.0f);
}

inline void unpack(const float* in, Count in_row, Count rows, const View& x, Count head, Count first) {
  for (Count i = 0; i < rows; ++i)
    from_f32(x.dtype, in + i * in_row, element(x, (first + i) * x.strides[0] + head * x.strides[1]), x.dim(2));
}

// Drop probabilities (or their gradients) x[0, n) of one query row, keys from token `key` on; see ops/dropout.h. Goes
// by runs of neighbouring positions: there is one, or two where a context-parallel rank's chunks meet.
inline void drop_row(const AttentionDropout& d, Count head, Count query, Count key, float* x, Count n) {
  const auto ordinal = static_cast<std::uint64_t>(static_cast<const std::int64_t*>(d.ordinals.data)[query]);
  const auto at = static_cast<const std::int32_t*>(d.query_positions.data)[query];
  const auto global_head = static_cast<std::uint32_t>(d.first_head + head);
  const auto* positions = static_cast<const std::int32_t*>(d.key_positions.data) + key;
  DropoutRow row{d.key,
                 static_cast<std::uint32_t>(at),
                 static_cast<std::uint32_t>(ordinal),
                 global_head << 16 | static_cast<std::uint32_t>((ordinal >> 32) & 0xffffu),
                 0,
                 dropout_threshold(d.p),
                 1.0f / (1.0f - d.p)};
  for (Count lo = 0, hi = n; lo < n; lo = hi, hi = n) {
    // Positions ascend, so equal distances at the ends mean no gap between.
    while (positions[hi - 1] - positions[lo] != hi - 1 - lo) --hi;
    row.first = positions[lo];
    vector().dropout(x + lo, row, hi - lo);
  }
}

}  // namespace mt::ops::cpu
