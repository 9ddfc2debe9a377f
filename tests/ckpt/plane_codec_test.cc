#include "ckpt/plane_codec.h"

#include <zstd.h>

#include <bit>
#include <cstring>
#include <random>

#include <gtest/gtest.h>

#include "base/dtype.h"

namespace mt {
namespace {

std::vector<std::byte> bytes_of_values(const auto& values) {
  std::vector<std::byte> out(values.size() * sizeof(values[0]));
  std::memcpy(out.data(), values.data(), out.size());
  return out;
}

std::vector<std::byte> there_and_back(std::span<const std::byte> raw, std::size_t width, std::size_t* stored_bytes = nullptr) {
  PlaneCodec codec;
  std::vector<std::uint32_t> sizes;
  const auto stored = codec.pack(raw, width, sizes);
  if (stored_bytes) *stored_bytes = stored.size();
  const std::vector<std::byte> kept(stored.begin(), stored.end());
  std::vector<std::byte> out(raw.size());
  EXPECT_EQ(codec.unpack(kept, sizes, out), "");
  return out;
}

TEST(PlaneCodec, BytesOfEveryWidthAndKindComeBack) {
  std::mt19937_64 rng(5);
  for (const std::size_t width : {1, 2, 4, 8})
    for (const std::size_t count : {0, 1, 2, 3, 63, 1000, 70001})
      for (const int kind : {0, 1, 2, 3}) {
        std::vector<std::byte> raw(count * width);
        for (std::size_t i = 0; i < raw.size(); ++i)
          raw[i] = static_cast<std::byte>(kind == 0 ? 0 : kind == 1 ? 255 : kind == 2 ? rng() : i % 7);
        EXPECT_EQ(there_and_back(raw, width), raw) << width << " " << count << " " << kind;
      }
}

// The first plane on its own, so that the layout is what the header says: turned left by one bit, low bytes first.
TEST(PlaneCodec, ThePlanesAreBytesOfTheElementsTurnedByOneBit) {
  std::mt19937 rng(7);
  std::vector<std::uint16_t> raw(999);
  for (auto& v : raw) v = static_cast<std::uint16_t>(rng());
  PlaneCodec codec;
  std::vector<std::uint32_t> sizes;
  const auto stored = codec.pack(bytes_of_values(raw), 2, sizes);
  ASSERT_EQ(sizes, (std::vector<std::uint32_t>{999, 999})) << "noise is stored as it is";
  for (std::size_t i = 0; i < raw.size(); ++i) {
    const std::uint16_t turned = std::rotl(raw[i], 1);
    EXPECT_EQ(stored[i], static_cast<std::byte>(turned & 255));
    EXPECT_EQ(stored[999 + i], static_cast<std::byte>(turned >> 8));
  }
}

TEST(PlaneCodec, WeightsInBf16LoseAtLeastAQuarterAndMomentsInF32ATenth) {
  std::mt19937 rng(3);
  std::normal_distribution<float> normal(0, 0.02f);
  std::vector<bf16> weights(1 << 20);
  for (auto& w : weights) w = to_bf16(normal(rng));
  std::size_t stored = 0;
  const auto raw = bytes_of_values(weights);
  EXPECT_EQ(there_and_back(raw, 2, &stored), raw);
  EXPECT_LE(static_cast<double>(stored), 0.70 * static_cast<double>(raw.size()));

  std::vector<float> moments(1 << 18);
  for (auto& m : moments) m = normal(rng) * normal(rng);
  const auto raw_moments = bytes_of_values(moments);
  EXPECT_EQ(there_and_back(raw_moments, 4, &stored), raw_moments);
  EXPECT_LE(static_cast<double>(stored), 0.90 * static_cast<double>(raw_moments.size()));
}

TEST(PlaneCodec, PlanesAreZstdFramesThatZstdReads) {
  const std::vector<std::byte> raw(5000, std::byte{9});
  PlaneCodec codec;
  std::vector<std::uint32_t> sizes;
  const auto stored = codec.pack(raw, 1, sizes);
  std::vector<std::byte> out(5000);
  ASSERT_EQ(ZSTD_decompress(out.data(), out.size(), stored.data(), stored.size()), 5000u);
  EXPECT_EQ(out, raw);
}

TEST(PlaneCodec, DamagedBytesAreNamedAndNothingIsReadBeyondThem) {
  std::mt19937 rng(11);
  std::normal_distribution<float> normal(0, 1);
  std::vector<bf16> weights(4096);
  for (auto& w : weights) w = to_bf16(normal(rng));
  const auto raw = bytes_of_values(weights);
  PlaneCodec codec;
  std::vector<std::uint32_t> sizes;
  const auto packed = codec.pack(raw, 2, sizes);
  const std::vector<std::byte> stored(packed.begin(), packed.end());
  std::vector<std::byte> out(raw.size());

  EXPECT_NE(codec.unpack(std::span(stored).first(stored.size() - 1), sizes, out), "");
  EXPECT_NE(codec.unpack(stored, std::vector<std::uint32_t>{sizes[0], sizes[1] - 1}, out), "");
  EXPECT_NE(codec.unpack(stored, std::vector<std::uint32_t>{5000, sizes[1]}, out), "");
  int noticed = 0;
  for (int round = 0; round < 300; ++round) {
    auto bad = stored;
    bad[sizes[0] + rng() % sizes[1]] ^= static_cast<std::byte>(1 + rng() % 255);
    noticed += !codec.unpack(bad, sizes, out).empty() || out != raw;
  }
  EXPECT_GE(noticed, 290);  // a zstd frame has spare bits
}

}  // namespace
}  // namespace mt
