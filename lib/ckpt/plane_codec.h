#pragma once
// Packs the bytes of numbers without loss: byte planes apart, each coded by itself.
//
// A float is turned left by one bit first, so that its whole exponent is one byte; then the k-th bytes of all elements are
// laid end to end, a plane each. The exponents of weights are few and pack to a third; mantissas are noise and stay as they
// are. A plane is a zstd frame, or, where that would not be smaller, the plane itself. Only zstd's Huffman stage is used:
// trained weights hold no repetitions for its search to find, and without it packing runs at more than 1 GB/s.
// Ratio and speed beside memcpy: tests/bench/ckpt_bench.cc. Code: ckpt/plane_codec.cc. Tests: tests/ckpt/plane_codec_test.cc.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace mt {

// The name in manifests and options.
inline constexpr const char* kPlaneCodecName = "planes-zstd";

inline constexpr std::size_t kMostPlanes = 8;

// One thread's working memory. Not copied.
class PlaneCodec {
 public:
  PlaneCodec();
  ~PlaneCodec();
  PlaneCodec(const PlaneCodec&) = delete;
  PlaneCodec& operator=(const PlaneCodec&) = delete;

  // Pack whole elements of `width` bytes each.
  //   needs  width 1, 2, 4 or 8; a multiple of it in `raw`
  //   gives  the stored bytes of each plane, end to end, valid until the next call; how many bytes each plane takes in
  //          `sizes`, which is raw.size() / width for one that is stored as it is
  //   cost   two passes over `raw` and one of zstd; memory of about 2.1 times raw.size()
  std::span<const std::byte> pack(std::span<const std::byte> raw, std::size_t width, std::vector<std::uint32_t>& sizes);

  // The way back.
  //   needs  `stored` as long as the sum of `sizes`, `sizes` one number a plane, out.size() a multiple of sizes.size()
  //   gives  "" or what is wrong with the bytes; `out` is then undefined
  std::string unpack(std::span<const std::byte> stored, std::span<const std::uint32_t> sizes, std::span<std::byte> out);

 private:
  struct Contexts;
  std::unique_ptr<Contexts> contexts_;
  std::vector<std::byte> planes_, stored_;
};

}  // namespace mt
