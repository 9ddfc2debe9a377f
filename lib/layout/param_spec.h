#pragma once
// The ParamSpec table: every parameter a rank holds, as a pure function of (model, layout, coordinate).
//
// nn, params, optim, ckpt, plan and --dry-run read this one table and nothing else about shapes.
//   parameter  a local buffer, maybe fused: linear_qkv = rows [q; k; v], linear_fc1 = rows [gate; up]
//   piece      a box of one unfused logical tensor inside it; logical names are Megatron's local-spec names, layers
//              numbered globally: decoder.layers.3.self_attention.linear_q.weight, …mlp.linear_fc1_gate.weight
//   unit       what gathers, reduces and computes as one: 0 the embedding, 1+i row i of the towers, last the head
//              (final norm and output layer)
// Weights are [out, in]. Code: layout/param_spec.cc, layout/param_table.cc. Tests: tests/layout/param_spec_test.cc.

#include <string>
#include <vector>

#include "base/dtype.h"
#include "layout/box.h"
#include "layout/model_spec.h"
#include "layout/placement.h"

namespace mt {

// How a logical tensor starts.
struct Init {
  enum class Kind : std::uint8_t { zero, one, normal } kind = Kind::zero;
  double std = 0;  // of normal
};

struct Piece {
  std::string name;  // of the logical tensor
  Dims shape;        // its true global shape (vocabulary unpadded)
  Box box;           // what of it this rank holds; may be empty on ranks of pure padding
  Box local;         // where, in the parameter's local shape; same extents as box
  std::vector<Axis> replicated;  // axes of tp|kv whose ranks hold the same box (dp and cp always do)
  std::vector<Axis> grad_sum;    // of those, axes whose ranks each have only part of the gradient
  Init init;
  int tp_replicas = 1;  // so many tp ranks, one after the other, hold the same box: those of `replicated`
};

struct ParamSpec {
  std::string name;  // "decoder.layers.3.self_attention.linear_qkv.weight"
  Dims shape;        // local
  std::vector<Piece> pieces;
  int unit = 0;
  bool decay = true;   // weight decay: not for one-dimensional parameters and biases
  bool tie_copy = false;  // the head's copy of a tied word embedding that another stage holds; counted and saved there
  bool expert = false;    // replicated and reduced over edp, not over dp and cp
  int grad_slots = 1;  // 2 for a tied word embedding: slot 0 input side, slot 1 output side, added once a step
  int output_unit = -1;  // with two slots: the unit whose backward fills slot 1
  std::int64_t elements() const { return num_elements(shape); }
};

// What of the model a (stage, chunk) computes.
struct StageContent {
  bool embedding = false;
  int first_row = 0, last_row = 0;  // of all towers' rows one after the other, half open
  bool head = false;
};
// By layout/pipeline_split.h: chunk v of pipeline rank r is stage v·pp + r.
StageContent stage_content(const ModelSpec& model, const ParallelSpec& parallel, int pp_rank, int chunk);

// The table of one rank, in order of units. Padding rows of the vocabulary belong to no piece.
//   needs  a layout validate() accepts
std::vector<ParamSpec> param_specs(const ModelSpec& model, const ParallelSpec& parallel, const Coordinate& coordinate);

// Number of units of the whole model: embedding + rows + head.
int num_units(const ModelSpec& model);

// True if this rank counts and saves the piece's box among the tp ranks that hold it (the first of its replicas).
bool first_replica(const Piece& piece, const Coordinate& c);
// Position of this rank among all ranks that hold the same box, and their number: tp replicas × cp × dp, of
// experts the ranks of edp. The box is written by all of them, a part each (part_of).
struct Replica {
  int index = 0, count = 1;
};
Replica replica_of(const ParamSpec& spec, const Piece& piece, const ParallelSpec& parallel, const Coordinate& c);

inline constexpr std::int64_t kWorthCutting = 64 << 10;  // bytes

// What of the piece's box this rank writes when it is stored with elements of `dtype`: an equal part, or, where the box
// is under 64 KiB and not worth cutting, all or nothing, by the piece's name. May be empty.
Box written_part(const Piece& piece, const Replica& replica, DType dtype);

// Logical tensors of the whole model: name and true shape, each once, in table order.
struct LogicalTensor {
  std::string name;
  Dims shape;
};
std::vector<LogicalTensor> logical_tensors(const ModelSpec& model);

}  // namespace mt
