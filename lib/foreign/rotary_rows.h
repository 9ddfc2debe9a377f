#pragma once
// The two orders of rows of query and key weights: the features of a rotated pair side by side (2i, 2i + 1), or in the
// halves of their head (i, i + d/2), which is ours.
//
// Code: foreign/rotary_rows.cc. Tests: tests/foreign/meta_files_test.cc, tests/foreign/gguf_test.cc.

#include <cstdint>

#include "foreign/source_tensors.h"

namespace mt {

// Row of a file in pairs that is row `row` in halves.   needs  an even head_dim
std::int64_t row_in_pairs(std::int64_t row, std::int64_t head_dim);

// A matrix [heads·head_dim, in] whose rows lie in pairs, as if they lay in halves.
//   needs  a dtype
//   fails  Error{config}: an odd head_dim, rows that are no whole heads
SourceTensor with_rows_in_halves(SourceTensor pairs, std::int64_t head_dim);

}  // namespace mt
