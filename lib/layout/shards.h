#pragma once
// ZeRO: how parameters lie in buckets, and which flat ranges of them a data-parallel rank owns.
//
//   bucket  the parameters of one unit, back to back, each starting at a multiple of 64 elements; with sharding its end
//           is padded to a multiple of 64·ranks and rank r owns part r of equal parts. A tied word embedding has one of
//           its own, so that its parts are the same where the first and where the last stage holds it; so have
//           experts, which are shared over other ranks
//   stage   0 nothing sharded, 1 optimizer state, 2 and gradients, 3 and weights
//   instance  a part of the dp·cp group whose ranks hold all shards once: shards travel inside it, and only gradients of
//           shards across (Megatron's distributed optimizer instances, hybrid sharding); one when not asked for more
// Shards ignore the borders of parameters, as Megatron's distributed optimizer does. Pure functions.
// Source: Rajbhandari et al., arXiv:1910.02054. Code: layout/shards.cc. Tests: tests/layout/shards_test.cc.

#include <cstddef>
#include <utility>
#include <vector>

#include "layout/param_spec.h"

namespace mt {

struct ShardSpec {
  int stage = 0;
  int ranks = 1, rank = 0;  // of an instance: the dp·cp group, or its part
  int instances = 1, instance = 0;
  int expert_ranks = 1, expert_rank = 0, expert_instance = 0;  // the same of experts, which are shared over other ranks
  bool sharded() const { return stage > 0; }
};

// Of the rank at a coordinate; ranks of the dp·cp group count cp first.
ShardSpec shard_spec(const ParallelSpec& parallel, const Coordinate& coordinate);

// Elements, from the start of all buckets.
struct Bucket {
  int unit = 0;
  std::int64_t begin = 0, end = 0;
  int first_param = 0, last_param = 0;  // half open
  int parts = 1, part = 0;              // equal ones, and which of them is this rank's
  std::int64_t size() const { return end - begin; }
  std::int64_t own_begin() const { return begin + size() / parts * part; }
  std::int64_t own_size() const { return size() / parts; }
};

// Elements [begin, end) of a parameter, flat in its local shape, that this rank's optimizer updates.
struct OwnedRange {
  int param = 0;
  std::int64_t begin = 0, end = 0;
  std::int64_t state = 0;  // where its optimizer state starts, in elements; a multiple of 64 when nothing is sharded
  std::int64_t size() const { return end - begin; }
};

struct ShardPlan {
  ShardSpec spec;
  std::vector<std::int64_t> offset;  // of each parameter, from the start of all buckets
  std::vector<Bucket> buckets;       // by unit, ascending
  std::vector<std::size_t> bucket;   // of each parameter
  std::vector<OwnedRange> shards;
  std::int64_t total = 0;  // elements of all buckets, padding included
  std::int64_t state = 0;  // elements of optimizer state (of one moment) on this rank

  const Bucket& bucket_of_param(int param) const { return buckets[bucket[static_cast<std::size_t>(param)]]; }
  // Those of a unit, half open; none when it has no parameters here.
  std::pair<std::size_t, std::size_t> buckets_of_unit(int unit) const;
  // Elements of this rank's parts of all buckets, padding included.
  std::int64_t own() const;
};

// needs  specs in order of units
ShardPlan plan_shards(const std::vector<ParamSpec>& specs, const ShardSpec& spec);

// What of a piece lies in flat range [begin, end) of its parameter: boxes of the logical tensor, each with its place in
// the parameter. A piece that is whole rows of it is cut into at most 2·dims−1 boxes, one of a stack of experts into so
// many for each expert.
struct PlacedBox {
  Box box;
  std::int64_t at = 0;  // flat element of the parameter
};
std::vector<PlacedBox> boxes_in_range(const ParamSpec& spec, const Piece& piece, std::int64_t begin, std::int64_t end);

}  // namespace mt
