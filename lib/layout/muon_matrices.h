#pragma once
// Which matrices Muon orthogonalises, and who does it: a matrix cut over ranks is gathered on one of them.
//
//   matrix  rows of one parameter: query, key and value apart (together when asked), gate and up together, as Megatron
//           has them in one tensor
//   whole   the logical matrix, however tensor parallelism cuts it; else (blockwise) what a tensor-parallel rank holds
//   ranks   that hold parts of a matrix: tp when whole, times those that the optimizer state is sharded over
// Rank g of them is t + tp·d: tensor-parallel rank t of shard owner d. Pure functions.
// Code: layout/muon_matrices.cc. Tests: tests/layout/muon_matrices_test.cc.

#include <vector>

#include "layout/param_spec.h"

namespace mt {

struct MuonMatrix {
  int param = 0;
  int first_piece = 0, last_piece = 0;  // of the parameter, half open
  std::int64_t begin = 0, end = 0;      // flat elements of the local parameter
  std::int64_t rows = 0, cols = 0;      // of what is orthogonalised
  int owner = 0;                        // rank of those that hold parts of it

  std::int64_t size() const { return rows * cols; }
};

struct MuonSharing {
  bool whole = true, split_qkv = true;
  int tp = 1;      // tensor-parallel ranks
  int shards = 1;  // ranks the optimizer state is sharded over
  int ranks() const { return shards * (whole ? tp : 1); }
};

// In table order. The work is spread over the ranks, the largest matrices first, each to the rank that has least to do;
// the same on all of them.
std::vector<MuonMatrix> muon_matrices(const std::vector<ParamSpec>& specs, const MuonSharing& sharing);

// f32 elements beside the matrix itself that orthogonalising one takes (optim/newton_schulz.h).
std::int64_t newton_schulz_scratch(std::int64_t rows, std::int64_t cols);

// f32 elements a rank keeps for it: parts it sends and the matrices it gathers, or the largest matrix where it has all
// whole; and one at work.
//   mine  elements of its shards that belong to matrices
std::int64_t muon_buffer_elements(const std::vector<MuonMatrix>& matrices, const MuonSharing& sharing, int rank,
                                  std::int64_t mine);

}  // namespace mt
