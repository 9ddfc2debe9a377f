#pragma once
// Rows of a table by token id, and the gradient of the table.
//
//   T  tokens on this rank   C  hidden   Vs  rows of the table held here (a vocabulary shard)
// A tensor-parallel rank holds rows [first_id, first_id + Vs); other ids give zero rows, and the sum over ranks is the
// whole lookup. Code: ops/embedding.cc, ops/cpu/embedding.cc. Tests: tests/ops/embedding_test.cc.

#include "device/stream.h"
#include "ops/cost.h"
#include "tensor/view.h"

namespace mt::ops {

struct EmbeddingForwardArgs {
  View ids;     // i32 [T]
  View weight;  // [Vs, C]; any float
  View out;     // [T, C]; any float
  std::int64_t first_id = 0;
  View position_weight;  // [P, C], dtype of weight, or absent: added row by row; only where ids is not sharded
  View positions;        // i32 [T], each in [0, P)
};

// out = weight[ids - first_id] (zero where not held) + position_weight[positions].   cost  2·T·C elements moved
void embedding_forward(Stream& stream, const EmbeddingForwardArgs& args);

struct EmbeddingBackwardArgs {
  View ids;      // i32 [T]
  View dout;     // [T, C]; any float
  View dweight;  // [Vs, C]; any float
  std::int64_t first_id = 0;
};

// dweight[ids - first_id] += dout, tokens in ascending order, in f32 (a row that is not is rounded once); ids held
// elsewhere add nothing. Serves the position table
// too, with positions for ids.   cost  3·T·C elements moved
void embedding_backward(Stream& stream, const EmbeddingBackwardArgs& args);

Cost embedding_cost(std::int64_t tokens, std::int64_t hidden, int bytes_per_element);

}  // namespace mt::ops
