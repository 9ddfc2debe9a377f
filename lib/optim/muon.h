#pragma once
// Muon: the momentum of a layer's matrix, made orthogonal, is its update. What it does not take is AdamW's.
//
//   u = momentum (ops/momentum.h);  O = NS(u) · scale;  w = w·(1 − lr·decay) − lr·O
//   scale  extra_scale times, of O's rows r and columns c: spectral sqrt(max(r, c)), unit_rms_norm sqrt(r/c),
//          shape_scaling sqrt(max(1, r/c))
// A matrix cut over ranks, by tensor parallelism or ZeRO, goes to one of them whole, in f32, and its update comes back;
// which one is layout/muon_matrices.h's to say. So every layout orthogonalises the same matrix, in the same order of
// rows, and equal momenta give equal bits. Blockwise, each tensor-parallel rank takes its own part for a matrix, and the
// result depends on tp. Source: Jordan et al., "Muon"; scales and modes are Megatron's.
// Code: optim/muon.cc. Tests: tests/optim/muon_test.cc.

#include <memory>
#include <vector>

#include "layout/muon_matrices.h"
#include "ops/momentum.h"
#include "optim/newton_schulz.h"
#include "params/parameter_store.h"
#include "tensor/tensor.h"

namespace mt {

struct MuonOptions {
  enum class Scale : std::uint8_t { spectral, unit_rms_norm, shape_scaling } scale = Scale::spectral;
  double momentum = 0.9;
  bool nesterov = false;
  bool split_qkv = true;
  bool blockwise = false;
  double extra_scale = 1;
  NewtonSchulz iteration;
};

// The scale factor of an orthogonal [rows, cols].
double muon_scale(const MuonOptions& options, std::int64_t rows, std::int64_t cols);

class Muon {
 public:
  // Finds owners and allocates buffers. Collective over the ranks that hold parts of the same matrices.
  //   fails  Error{device}
  Muon(const ParameterStore& store, const Groups& groups, const MuonOptions& options, Device device);

  // What of a shard of the store is updated, flat.
  struct Shard {
    View master, momentum, model;  // model absent for f32 models
    float weight_decay = 0;
  };
  // One update. Collective as the constructor.
  //   needs  shards of store.plan().shards, read where they hold matrices; scalars in device memory; `plain` the same
  //          with grad_scale 1
  //   cost   bytes sent per rank: its shards' matrix elements · 4 to their owners, and as many back
  void update(Stream& stream, const std::vector<Shard>& shards, const ops::AdamwScalars* scalars,
              const ops::AdamwScalars* plain);

  std::size_t buffer_bytes() const { return buffer_.bytes(); }

 private:
  // This rank's part of a matrix: of a shard, and of what is sent.
  struct Part {
    std::size_t matrix, shard;
    std::int64_t begin, end;  // of the shard
    std::int64_t at;          // in `sent`
  };
  // A box of a gathered part and where it lies in its matrix.
  struct Placed {
    std::int64_t at, rows, cols;  // in `gathered`
    std::int64_t row, col;        // in the matrix
    bool counts;                  // false: another rank has sent the same
  };
  struct Owned {
    std::size_t matrix;
    std::vector<Placed> boxes;
  };
  void find_parts();
  void find_owned();
  void orthogonalize(Stream& stream, const MuonMatrix& m);
  View momentum_of(Stream& stream, const Part& part, const std::vector<Shard>& shards, View out,
                   const ops::AdamwScalars* scalars) const;
  void apply(Stream& stream, const Part& part, const Shard& shard, View update, const ops::AdamwScalars* plain) const;

  const ParameterStore& store_;
  MuonOptions options_;
  MuonSharing sharing_;
  std::unique_ptr<Communicator> group_;  // of several ranks alone
  std::vector<MuonMatrix> matrices_;
  std::vector<Part> parts_;  // by owner, then as matrices
  std::vector<Owned> owned_;
  std::vector<std::int64_t> sent_rows_, gathered_rows_;  // by rank of the group
  Tensor buffer_;
  View sent_, gathered_, matrix_, scratch_;
};

}  // namespace mt
