#include "engine/host_activations.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"

namespace mt {

namespace {

std::size_t largest(const std::vector<std::vector<std::size_t>>& rows) {
  std::size_t n = 0;
  for (const auto& chunk : rows)
    for (const std::size_t bytes : chunk) n = std::max(n, bytes);
  return n;
}

}  // namespace

HostActivations::HostActivations(Device device, std::vector<std::vector<std::size_t>> rows,
                                 const std::vector<std::int64_t>& places)
    : device_(device), rows_(std::move(rows)), leaving_(device), coming_(device) {
  for (const std::int64_t bytes : places) places_.emplace_back(device, static_cast<std::size_t>(bytes), Memory::pinned);
  for (int b = 0; b < kRowBuffers; ++b) buffers_.push_back({Arena(device, largest(rows_)), {}, {}});
}

std::byte* HostActivations::place_of(int chunk, int place, std::size_t row) {
  const auto& bytes = rows_[static_cast<std::size_t>(chunk)];
  const auto at = static_cast<std::size_t>(place);
  const std::size_t all = std::accumulate(bytes.begin(), bytes.end(), std::size_t{0});
  if (places_.size() <= at) places_.resize(at + 1);
  if (places_[at].size() < all) places_[at] = Buffer(device_, all, Memory::pinned);
  return places_[at].data() + std::accumulate(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(row), std::size_t{0});
}

Arena& HostActivations::begin(Stream& stream, std::size_t row) {
  RowBuffer& b = buffers_[row % kRowBuffers];
  stream.wait(b.left);
  b.arena.reset();
  return b.arena;
}

void HostActivations::leave(Stream& stream, int chunk, int place, std::size_t row) {
  RowBuffer& b = buffers_[row % kRowBuffers];
  const std::size_t bytes = rows_[static_cast<std::size_t>(chunk)][row];
  MT_CHECK(b.arena.used() == bytes, "row {} of chunk {} has {} bytes of {}", row, chunk, b.arena.used(), bytes);
  b.arena.reset();
  leaving_.wait(stream.record());
  copy_bytes(leaving_, place_of(chunk, place, row), b.arena.allocate(bytes), bytes);
  b.left = leaving_.record();
}

void HostActivations::bring(int chunk, int place, std::size_t row) {
  RowBuffer& b = buffers_[row % kRowBuffers];
  const std::size_t bytes = rows_[static_cast<std::size_t>(chunk)][row];
  coming_.wait(b.left);  // the last to leave the buffer; this row was not later
  b.arena.reset();
  copy_bytes(coming_, b.arena.allocate(bytes), place_of(chunk, place, row), bytes);
  b.arrived = coming_.record();
}

void HostActivations::fetch(Stream& stream, int chunk, int place) {
  const std::size_t n = rows(chunk);
  if (n == 0) return;
  coming_.wait(stream.record());
  for (std::size_t r = n; r-- > 0 && r + kRowBuffers >= n;) bring(chunk, place, r);
}

void HostActivations::await(Stream& stream, std::size_t row) { stream.wait(buffers_[row % kRowBuffers].arrived); }

void HostActivations::done(Stream& stream, int chunk, int place, std::size_t row) {
  if (row < kRowBuffers) return;
  coming_.wait(stream.record());
  bring(chunk, place, row - kRowBuffers);
}

std::size_t HostActivations::device_bytes() const {
  std::size_t n = 0;
  for (const auto& b : buffers_) n += b.arena.reserved();
  return n;
}

std::size_t HostActivations::host_bytes() const {
  std::size_t n = 0;
  for (const auto& p : places_) n += p.size();
  return n;
}

}  // namespace mt
