#include "device/host_side.h"

#include <cstring>
#include <vector>

namespace mt {

HostSide::HostSide(Stream& stream, void* data, std::size_t bytes)
    : stream_(stream), there_(static_cast<std::byte*>(data)), host_(there_), bytes_(bytes) {
  if (stream.device().kind == DeviceKind::cpu) return;
  pinned_ = Buffer(stream.device(), bytes, Memory::pinned);
  host_ = pinned_.data();
}

void HostSide::fetch() {
  if (host_ != there_) copy_bytes(stream_, host_, there_, bytes_);
  stream_.synchronize();
}

void HostSide::store() {
  if (host_ != there_) copy_bytes(stream_, there_, host_, bytes_);
}

void upload_bytes(Stream& stream, void* dst, const void* src, std::size_t bytes) {
  if (bytes == 0) return;
  // An accelerator's runtime takes ordinary memory as it is at the call.
  if (stream.mode() == Stream::Mode::immediate) return copy_bytes(stream, dst, src, bytes);
  const auto* from = static_cast<const std::byte*>(src);
  stream.launch([dst, kept = std::vector<std::byte>(from, from + bytes)] { std::memcpy(dst, kept.data(), kept.size()); });
}

}  // namespace mt
