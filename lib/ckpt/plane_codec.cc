#include "ckpt/plane_codec.h"

#define ZSTD_STATIC_LINKING_ONLY  // the name of the parameter that keeps literals coded; the symbols are the public ones
#include <zstd.h>

#include <cstring>

#include "base/error.h"

namespace mt {
namespace {

template <class U>
void split(const std::byte* raw, std::size_t count, std::byte* planes) {
  constexpr unsigned kBits = 8 * sizeof(U);
  for (std::size_t p = 0; p < sizeof(U); ++p) {
    std::byte* out = planes + p * count;
    for (std::size_t i = 0; i < count; ++i) {
      U v;
      std::memcpy(&v, raw + i * sizeof(U), sizeof(U));
      const U turned = static_cast<U>(static_cast<U>(v << 1) | static_cast<U>(v >> (kBits - 1)));
      out[i] = static_cast<std::byte>(turned >> (8 * p));
    }
  }
}

template <class U>
void join(const std::byte* const* planes, std::size_t count, std::byte* out) {
  constexpr unsigned kBits = 8 * sizeof(U);
  for (std::size_t i = 0; i < count; ++i) {
    U turned = 0;
    for (std::size_t p = 0; p < sizeof(U); ++p)
      turned = static_cast<U>(turned | static_cast<U>(static_cast<U>(planes[p][i]) << (8 * p)));
    const U v = static_cast<U>(static_cast<U>(turned >> 1) | static_cast<U>(turned << (kBits - 1)));
    std::memcpy(out + i * sizeof(U), &v, sizeof(U));
  }
}

}  // namespace

struct PlaneCodec::Contexts {
  ZSTD_CCtx* pack = ZSTD_createCCtx();
  ZSTD_DCtx* unpack = ZSTD_createDCtx();

  Contexts() {
    if (!pack || !unpack) throw std::bad_alloc();
    // The search steps over nearly everything, and what it passes is Huffman coded all the same. An old zstd that knows
    // no such parameter gives larger planes, not wrong ones.
    ZSTD_CCtx_setParameter(pack, ZSTD_c_compressionLevel, ZSTD_minCLevel());
    if (ZSTD_isError(ZSTD_CCtx_setParameter(pack, ZSTD_c_literalCompressionMode, ZSTD_lcm_huffman)))
      ZSTD_CCtx_setParameter(pack, ZSTD_c_compressionLevel, 1);
  }
  ~Contexts() {
    ZSTD_freeCCtx(pack);
    ZSTD_freeDCtx(unpack);
  }
  Contexts(const Contexts&) = delete;
  Contexts& operator=(const Contexts&) = delete;
};

PlaneCodec::PlaneCodec() : contexts_(std::make_unique<Contexts>()) {}
PlaneCodec::~PlaneCodec() = default;

std::span<const std::byte> PlaneCodec::pack(std::span<const std::byte> raw, std::size_t width,
                                            std::vector<std::uint32_t>& sizes) {
  MT_CHECK(width == 1 || width == 2 || width == 4 || width == 8, "width {}", width);
  MT_CHECK(raw.size() % width == 0, "{} bytes of elements of {}", raw.size(), width);
  const std::size_t count = raw.size() / width;
  planes_.resize(raw.size());
  if (width == 1) std::memcpy(planes_.data(), raw.data(), raw.size());
  else if (width == 2) split<std::uint16_t>(raw.data(), count, planes_.data());
  else if (width == 4) split<std::uint32_t>(raw.data(), count, planes_.data());
  else split<std::uint64_t>(raw.data(), count, planes_.data());

  stored_.resize(width * ZSTD_compressBound(count));
  sizes.clear();
  std::size_t at = 0;
  for (std::size_t p = 0; p < width; ++p) {
    const std::byte* plane = planes_.data() + p * count;
    std::size_t n = ZSTD_compress2(contexts_->pack, stored_.data() + at, ZSTD_compressBound(count), plane, count);
    if (ZSTD_isError(n) || n >= count) {
      std::memcpy(stored_.data() + at, plane, count);
      n = count;
    }
    sizes.push_back(static_cast<std::uint32_t>(n));
    at += n;
  }
  return {stored_.data(), at};
}

std::string PlaneCodec::unpack(std::span<const std::byte> stored, std::span<const std::uint32_t> sizes,
                               std::span<std::byte> out) {
  const std::size_t width = sizes.size();
  MT_CHECK(width >= 1 && width <= kMostPlanes && out.size() % width == 0, "{} planes of {} bytes", width, out.size());
  const std::size_t count = out.size() / width;
  planes_.resize(out.size());
  const std::byte* planes[kMostPlanes] = {};
  std::size_t at = 0;
  for (std::size_t p = 0; p < width; ++p) {
    if (sizes[p] > count || sizes[p] > stored.size() - at) return "a plane is longer than its bytes";
    if (sizes[p] == count) {
      planes[p] = stored.data() + at;
    } else {
      std::byte* to = planes_.data() + p * count;
      const std::size_t n = ZSTD_decompressDCtx(contexts_->unpack, to, count, stored.data() + at, sizes[p]);
      if (ZSTD_isError(n)) return std::string("zstd: ") + ZSTD_getErrorName(n);
      if (n != count) return fmt::format("a plane has {} bytes, wanted {}", n, count);
      planes[p] = to;
    }
    at += sizes[p];
  }
  if (at != stored.size()) return "bytes are left over";
  switch (width) {
    case 1: std::memcpy(out.data(), planes[0], count); return "";
    case 2: join<std::uint16_t>(planes, count, out.data()); return "";
    case 4: join<std::uint32_t>(planes, count, out.data()); return "";
    case 8: join<std::uint64_t>(planes, count, out.data()); return "";
    default: return fmt::format("{} planes", width);
  }
}

}  // namespace mt
