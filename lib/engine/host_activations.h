#pragma once
// Saved tensors of a stage's first rows in host memory between forward and backward (layout/host_activations.h).
//
//   row     counted from 0 among those of its chunk; each has one of a few device buffers, by turns, for its input and
//           what it saves: the same one in forward and backward, so that views stay what they are
//   place   host memory of one micro-batch in flight, as slots are counted
//   forward   begin(r), the row computes, leave(r): a copy on a stream of its own; begin(r + 3) waits for it
//   backward  fetch(): the last rows come; await(r), the row computes, done(r): row r − 3 comes into its buffer
// Code: engine/host_activations.cc. Tests: tests/engine/host_activations_test.cc, tests/train/host_activations_test.cc.

#include <vector>

#include "device/buffer.h"
#include "device/stream.h"
#include "layout/host_activations.h"

namespace mt {

class HostActivations {
 public:
  // rows    bytes of every row, by chunk
  // places  bytes of host memory by place, as planned; a place that needs more grows
  //   fails  Error{device} when memory is short
  HostActivations(Device device, std::vector<std::vector<std::size_t>> rows, const std::vector<std::int64_t>& places);

  // The row's buffer, empty, once what was in it has left.
  Arena& begin(Stream& stream, std::size_t row);
  // What of it is allocated is whole when the stream's work up to here is done, and leaves then.
  //   needs  as many bytes of it as were said
  void leave(Stream& stream, int chunk, int place, std::size_t row);

  // A backward of the chunk begins.
  void fetch(Stream& stream, int chunk, int place);
  // Later work of the stream finds the row in its buffer.   needs  fetch(), and done() of the row three behind
  void await(Stream& stream, std::size_t row);
  // Work of the stream up to here was the last with the row.
  void done(Stream& stream, int chunk, int place, std::size_t row);

  Arena& buffer(std::size_t row) { return buffers_[row % kRowBuffers].arena; }
  std::size_t rows(int chunk) const { return rows_[static_cast<std::size_t>(chunk)].size(); }
  // Of buffers on the device, and of places.
  std::size_t device_bytes() const;
  std::size_t host_bytes() const;

 private:
  struct RowBuffer {
    Arena arena;
    Event left, arrived;
  };
  std::byte* place_of(int chunk, int place, std::size_t row);
  void bring(int chunk, int place, std::size_t row);

  Device device_;
  std::vector<std::vector<std::size_t>> rows_;
  std::vector<Buffer> places_;
  std::vector<RowBuffer> buffers_;
  Stream leaving_, coming_;  // last: they end first
};

}  // namespace mt
