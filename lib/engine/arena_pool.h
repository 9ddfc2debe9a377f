#pragma once
// Arenas that micro-batches borrow for a while, by the places of plan/lane_use.h.
//
// Code: header only. Tests: through tests/engine/ and tests/plan/.

#include <memory>
#include <vector>

#include "device/buffer.h"
#include "plan/lane_use.h"
#include "plan/memory.h"

namespace mt {

class ArenaPool {
 public:
  // `bytes` of the first block of each place; of places beyond them it is small.
  ArenaPool(Device device, std::vector<std::int64_t> bytes) : device_(device), bytes_(std::move(bytes)) {}

  int find(int chunk, int micro_batch) const { return places_.find(chunk, micro_batch); }
  // An empty arena.   gives  its place
  int take(int chunk, int micro_batch) {
    const int place = places_.take(chunk, micro_batch);
    const std::size_t n = arenas_.size();
    if (place == static_cast<int>(n))
      arenas_.push_back(
          std::make_unique<Arena>(device_, n < bytes_.size() ? static_cast<std::size_t>(bytes_[n]) : std::size_t{1} << 20));
    at(place).reset();
    return place;
  }
  Arena& at(int place) { return *arenas_[static_cast<std::size_t>(place)]; }
  // What was launched with it may still run: the next borrower's work comes behind it on the same stream.
  void give_back(int chunk, int micro_batch) { places_.give_back(find(chunk, micro_batch)); }

  std::size_t high_water() const {
    std::size_t n = 0;
    for (const auto& a : arenas_) n += a->high_water();
    return n;
  }

 private:
  Device device_;
  std::vector<std::int64_t> bytes_;
  PlaceTable places_;
  std::vector<std::unique_ptr<Arena>> arenas_;
};

}  // namespace mt
