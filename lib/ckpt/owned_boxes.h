#pragma once
// Which boxes of a checkpoint each rank of a layout writes, so that every unique byte is written once: ranks that hold the
// same box write a part each, small tensors go whole to one of them; under ZeRO each rank writes its shards.
//
// The trainer saves by this, and mt-reshard cuts files by it, so a resharded checkpoint has the files that a run of its
// layout would have written. Pure functions. Code: ckpt/owned_boxes.cc. Tests: tests/ckpt/owned_boxes_test.cc,
// tests/engine/checkpoint_test.cc, tests/cli/mt_reshard_test.cc.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "ckpt/manifest.h"
#include "layout/shards.h"
#include "layout/state_spec.h"

namespace mt {

// A box, and where its bytes are on its rank.
struct OwnedBox {
  TensorBox what;
  std::size_t shard = 0;  // in the plan's shards
  std::int64_t at = 0;    // elements from the shard's begin
};

// Kinds that are stored of a piece, with their dtypes; the names must outlive the call.
using StoredKinds = std::function<std::vector<StateKind>(const ParamSpec&, const Piece&)>;

// In table order. A tied copy on a last stage owns nothing.
//   needs  the plan of these specs for the rank at the coordinate
std::vector<OwnedBox> owned_boxes(const std::vector<ParamSpec>& specs, const ShardPlan& plan, const ParallelSpec& parallel,
                                  const Coordinate& at, const StoredKinds& kinds);

}  // namespace mt
