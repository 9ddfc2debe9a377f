#pragma once
// How Megatron's optimizers order parameters, and how its distributed optimizer lays them into flat buffers.
//
//   buffer   the parameters of a model chunk from the last to the first, each at a multiple of 64
//   bucket   a part of it; a table that is shared with another pipeline stage has one of its own. Checkpoints leave out what
//            pads a bucket at its end
// Source: Megatron Core's _ParamAndGradBuffer. Code: foreign/megatron_buffers.cc. Tests: tests/foreign/megatron_optimizer_test.cc.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "layout/box.h"

namespace mt {

struct FlatParam {
  std::string name;
  Dims shape;
  bool alone = false;  // in a bucket
};

//   places   of each parameter, in the order given: its bucket, and its first element in that
//   buckets  elements of each
struct FlatLayout {
  struct Place {
    std::size_t bucket = 0;
    std::int64_t begin = 0;
  };
  std::vector<Place> places;
  std::vector<std::int64_t> buckets;

  std::int64_t size() const;
  // First element of a parameter where buckets lie end to end.
  std::int64_t begin_of(std::size_t param) const;
};
// A bucket ends once it has `bucket_size` elements; nothing: never for that.
FlatLayout flat_layout(std::span<const FlatParam> params, std::optional<std::int64_t> bucket_size);
// Where the sizes of buckets are known.   gives  nothing when parameters do not fill them so
std::optional<FlatLayout> flat_layout_of(std::span<const FlatParam> params, std::span<const std::int64_t> buckets);

// Parameters of a layer in the order that Megatron Core makes them in, for names of our spelling; those of other modules
// stand where they are made, before or behind all layers.   transformer_engine  norms are a part of what follows them
bool made_before(const std::string& a, const std::string& b, bool transformer_engine);

}  // namespace mt
