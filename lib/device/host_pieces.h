#pragma once
// Device memory worked on by the host, piece by piece: while one is worked on, the next ones come and the last ones go.
//
//   HostPieces pieces(device, slots, bytes that come, bytes that go, Memory::pinned);
//   pieces.run(stream, list, [&](std::size_t i, std::byte* in, std::byte* out) { ... });
// Copies run on two streams of its own, one each way. On a CPU nothing is copied anywhere: there is no use for it.
// Code: device/host_pieces.cc. Tests: tests/device/host_pieces_test.cc.

#include <functional>
#include <span>
#include <vector>

#include "device/buffer.h"
#include "device/stream.h"

namespace mt {

struct HostPiece {
  const void* in = nullptr;  // comes to the host
  std::size_t in_bytes = 0;
  void* out = nullptr;  // goes back, as the host left it
  std::size_t out_bytes = 0;
  bool out_comes = false;  // it comes before, too: the host changes it
};

class HostPieces {
 public:
  // needs  an accelerator; `memory` of the host   fails  Error{device} when memory is short
  HostPieces(Device device, int slots, std::size_t in_bytes, std::size_t out_bytes, Memory memory);

  using Work = std::function<void(std::size_t piece, std::byte* in, std::byte* out)>;
  // Work on every piece in order, on the calling thread. What was launched on `stream` before is seen; what is launched
  // there later comes behind the last piece's way back. Copies back may still be under way on return.
  void run(Stream& stream, std::span<const HostPiece> pieces, const Work& work);

  std::size_t bytes() const { return memory_.size(); }

 private:
  struct Slot {
    std::byte *in, *out;
    Event arrived, left;
  };
  void fetch(const HostPiece& piece, Slot& slot);

  Buffer memory_;  // before the streams, which end first
  Stream coming_, going_;
  std::size_t in_bytes_, out_bytes_;
  std::vector<Slot> slots_;
};

}  // namespace mt
