#include "device/host_pieces.h"

#include "base/error.h"

namespace mt {

HostPieces::HostPieces(Device device, int slots, std::size_t in_bytes, std::size_t out_bytes, Memory memory)
    : memory_(device, static_cast<std::size_t>(slots) * (in_bytes + out_bytes), memory),
      coming_(device),
      going_(device),
      in_bytes_(in_bytes),
      out_bytes_(out_bytes) {
  for (int s = 0; s < slots; ++s) {
    std::byte* at = memory_.data() + static_cast<std::size_t>(s) * (in_bytes + out_bytes);
    slots_.push_back({at, at + in_bytes, {}, {}});
  }
}

void HostPieces::fetch(const HostPiece& piece, Slot& slot) {
  MT_CHECK(piece.in_bytes <= in_bytes_ && piece.out_bytes <= out_bytes_, "a piece of {} and {} bytes, slots have {} and {}",
           piece.in_bytes, piece.out_bytes, in_bytes_, out_bytes_);
  // What the slot held before is on its way: neither this copy nor, once it arrived, the host may write over it.
  coming_.wait(slot.left);
  copy_bytes(coming_, slot.in, piece.in, piece.in_bytes);
  if (piece.out_comes) copy_bytes(coming_, slot.out, piece.out, piece.out_bytes);
  slot.arrived = coming_.record();
}

void HostPieces::run(Stream& stream, std::span<const HostPiece> pieces, const Work& work) {
  if (pieces.empty()) return;
  coming_.wait(stream.record());
  const std::size_t ahead = slots_.size();
  for (std::size_t i = 0; i < pieces.size() && i < ahead; ++i) fetch(pieces[i], slots_[i]);
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    Slot& slot = slots_[i % ahead];
    slot.arrived.synchronize();
    work(i, slot.in, slot.out);
    // Behind the launches before by way of what has arrived.
    copy_bytes(going_, pieces[i].out, slot.out, pieces[i].out_bytes);
    slot.left = going_.record();
    if (i + ahead < pieces.size()) fetch(pieces[i + ahead], slot);
  }
  stream.wait(going_.record());
}

}  // namespace mt
