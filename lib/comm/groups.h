#pragma once
// The communicators of one rank in a layout, made from explicit rank lists.
//
// Code: comm/groups.cc. Tests: tests/comm/groups_test.cc.

#include <array>
#include <memory>

#include "comm/communicator.h"
#include "layout/model_spec.h"
#include "layout/placement.h"

namespace mt {

struct Groups {
  Placement placement;
  Coordinate coordinate;
  Communicator* world = nullptr;  // borrowed
  // Every group exists, also of one rank.
  std::unique_ptr<Communicator> tp, dp, dp_cp, pp, kv, model;  // model: tp·pp, over which the gradient norm adds up
  // Of several optimizer instances: the ranks of this one, and those of the others with the same shards. Else null.
  std::unique_ptr<Communicator> intra, inter;
  // The ranks that share one set of shards.
  Communicator& shards() const { return intra ? *intra : *dp_cp; }
  // The pipeline once more for each of the schedule's channels, so that order within one is all that matters.
  std::array<std::unique_ptr<Communicator>, 4> channels;

  const Communicator& of(Axis axis) const;  // tp, dp, pp, kv
};

// Collective over the world.   needs  world.size() == placement.spec.world()
Groups make_groups(Communicator& world, const Placement& placement, int kv_heads);

// Key/value heads of the model's attention rows (1 when there are none).
int kv_heads_of(const ModelSpec& model);

}  // namespace mt
