#pragma once
// Word (and learned position) embedding as the first sub-layer:  y = dropout(words[id] + positions[p]).
//
//   the table is cut by rows over tp: a rank looks up the ids it holds, zero rows for others, and the sum over tp is the
//   lookup (exact: one rank alone adds a non-zero row)
// It has no x and no dx; backward_input only undoes the dropout. Code: nn/vocab_parallel_embedding.cc. Tests: tests/nn/.

#include "layout/model_spec.h"
#include "nn/sub_layer.h"

namespace mt {

SubLayer vocab_parallel_embedding(const ParameterStore& params, const ModelSpec& model, std::int64_t first_id);

}  // namespace mt
