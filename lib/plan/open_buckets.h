#pragma once
// Memory of whole buckets that live for a while beside a rank's shards (ZeRO 2 and 3): book-keeping that parameter store and
// memory plan both follow, so that one predicts the other.
//
//   place  memory of one bucket at a time, of weights or of gradients; it grows and is never given up
// Code: plan/open_buckets.cc. Tests: tests/plan/memory_test.cc.

#include <cstdint>
#include <vector>

#include "layout/recompute.h"
#include "schedule/schedule.h"

namespace mt {

class GrowingPlaces {
 public:
  // The smallest free place of at least so many bytes; else the largest free one, grown to them; else a new one, whose
  // number is then size() − 1.
  int take(std::int64_t bytes);
  void give_back(int place) { places_[static_cast<std::size_t>(place)].taken = false; }
  std::int64_t bytes(int place) const { return places_[static_cast<std::size_t>(place)].bytes; }
  int size() const { return static_cast<int>(places_.size()); }
  std::int64_t total() const;  // bytes of all places

 private:
  struct Place {
    std::int64_t bytes = 0;
    bool taken = false;
  };
  std::vector<Place> places_;
};

// What a layer of a chunk opens.
struct LayerBuckets {
  struct Weights {
    int bucket;
    std::int64_t bytes;
  };
  RowRecompute again;
  std::vector<Weights> weights;     // gathered around each of its passes; two layers may read one bucket
  std::vector<std::int64_t> grads;  // opened together, for its weight gradients
  std::int64_t vectors = 0;         // gradients of a split backward that come with the input gradients
};

// Bytes of all places after steps of this lane, in the order of engine/executor.h: a layer's weights come while the one
// before it is at work.   needs  layers by chunk
std::int64_t open_bucket_bytes(const Lane& lane, const std::vector<std::vector<LayerBuckets>>& chunks);

}  // namespace mt
