#pragma once
// Checkpoints with known content in random layouts. An element's value is a hash of (name, kind, flat index), so what is
// right at any place is known without the code under test.

#include <cstring>
#include <map>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/temporary_directory.h"
#include "ckpt/reader.h"
#include "ckpt/store.h"

namespace mt::test {

inline std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

// Bytes of one element; floating-point ones are finite.
inline void put_element(const TensorBox& t, std::uint64_t salt, std::int64_t flat, std::byte* out) {
  const auto h = mix(xxh3(t.name) ^ mix(xxh3(t.kind)) ^ mix(salt) ^ mix(static_cast<std::uint64_t>(flat)));
  if (t.dtype == DType::f32) {
    const float f = static_cast<float>(static_cast<std::int64_t>(h >> 40)) / 1024.0f - 8000.0f;
    std::memcpy(out, &f, 4);
  } else if (t.dtype == DType::bf16) {
    const auto b = to_bf16(static_cast<float>(static_cast<std::int64_t>(h >> 48)) - 30000.0f);
    std::memcpy(out, &b, 2);
  } else {
    std::memcpy(out, &h, static_cast<std::size_t>(bytes_of(t.dtype, 1)));
  }
}

// The right bytes of a box, element by element in row-major order.
inline std::vector<std::byte> expected(const TensorBox& t, std::uint64_t salt = 0) {
  const auto elem = static_cast<std::size_t>(bytes_of(t.dtype, 1));
  std::vector<std::byte> out(t.bytes());
  Dims at = t.box.offset;
  for (std::int64_t i = 0; i < t.box.size(); ++i) {
    std::int64_t flat = 0;
    for (std::size_t d = 0; d < at.size(); ++d) flat = flat * t.shape[d] + at[d];
    put_element(t, salt, flat, out.data() + static_cast<std::size_t>(i) * elem);
    for (std::size_t d = at.size(); d-- > 0;) {
      if (++at[d] < t.box.offset[d] + t.box.extent[d]) break;
      at[d] = t.box.offset[d];
    }
  }
  return out;
}

using Layout = std::vector<std::vector<TensorBox>>;  // boxes by rank

// A small transformer-like set: matrices, vectors, a scalar, an empty tensor, 3 dtypes, optimizer kinds.
inline std::vector<TensorBox> sample_tensors(std::int64_t rows = 24, std::int64_t columns = 20) {
  std::vector<TensorBox> out;
  const auto add = [&](const std::string& name, const std::string& kind, DType dtype, const Dims& shape) {
    out.push_back({name, kind, dtype, shape, whole(shape)});
  };
  for (const std::string name : {"embedding.word_embeddings.weight", "decoder.layers.0.mlp.linear_fc2.weight"}) {
    add(name, "weight", DType::bf16, {rows, columns});
    for (const std::string kind : {"master", "exp_avg", "exp_avg_sq"}) add(name, kind, DType::f32, {rows, columns});
  }
  add("decoder.final_layernorm.weight", "weight", DType::bf16, {columns});
  add("experts", "weight", DType::f32, {3, rows, columns});
  add("step", "counter", DType::i64, {});
  add("nothing", "weight", DType::u8, {0, 7});
  return out;
}

// Cut a box at random planes until there are `pieces` (or it cannot be cut).
inline std::vector<Box> random_cut(const Box& box, int pieces, std::mt19937& rng) {
  std::vector<Box> out{box};
  for (int tries = 0; static_cast<int>(out.size()) < pieces && tries < 4 * pieces; ++tries) {
    const auto i = rng() % out.size();
    if (out[i].extent.empty()) break;
    const auto d = rng() % out[i].extent.size();
    if (out[i].extent[d] < 2) continue;
    const auto at = 1 + static_cast<std::int64_t>(rng() % static_cast<std::uint32_t>(out[i].extent[d] - 1));
    Box rest = out[i];
    rest.offset[d] += at;
    rest.extent[d] -= at;
    out[i].extent[d] = at;
    out.push_back(rest);
  }
  return out;
}

// Every tensor cut at random and its pieces dealt to random ranks.
inline Layout random_layout(const std::vector<TensorBox>& tensors, int world, std::mt19937& rng) {
  Layout layout(static_cast<std::size_t>(world));
  for (const auto& t : tensors)
    for (const auto& b : random_cut(t.box, 1 + static_cast<int>(rng() % 6), rng)) {
      auto piece = t;
      piece.box = b;
      layout[rng() % layout.size()].push_back(piece);
    }
  return layout;
}

inline void write_layout(const std::filesystem::path& dir, const Layout& layout, std::uint64_t salt = 0,
                         const WriteOptions& options = {}) {
  for (std::size_t rank = 0; rank < layout.size(); ++rank) {
    std::vector<std::vector<std::byte>> bytes;
    std::vector<TensorShard> shards;
    for (const auto& t : layout[rank]) bytes.push_back(expected(t, salt));
    static const std::byte nothing{};
    for (std::size_t i = 0; i < bytes.size(); ++i)
      shards.push_back({layout[rank][i], bytes[i].empty() ? &nothing : bytes[i].data()});
    write_rank(dir, static_cast<int>(rank), shards, options);
  }
}

inline CheckpointMeta sample_meta(std::int64_t iteration, int world) {
  CheckpointMeta m;
  m.iteration = iteration;
  m.consumed_samples = iteration * 8;
  m.world_size = world;
  m.version = "0.1.0";
  m.tokenizer = "bytes";
  m.specs = {{"model", {{"hidden", 20}}}};
  m.training = {{"loss_scale", 1.5}, {"nested", {1, 2, "three"}}};
  return m;
}

inline std::filesystem::path save(const std::filesystem::path& root, std::int64_t iteration, const Layout& layout,
                                  std::uint64_t salt = 0) {
  write_layout(begin_save(root, iteration), layout, salt);
  return commit(root, sample_meta(iteration, static_cast<int>(layout.size())));
}

inline Layout one_rank(const std::vector<TensorBox>& tensors) { return {tensors}; }

// Read boxes and compare with what is right.
inline void expect_content(const Reader& reader, const std::vector<TensorBox>& wanted, std::uint64_t salt = 0) {
  std::vector<std::vector<std::byte>> got;
  for (const auto& t : wanted) got.emplace_back(std::max<std::size_t>(1, t.bytes()), std::byte{0xEE});
  std::vector<TensorRequest> requests;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    TensorRequest q;
    q.what = wanted[i];
    q.out = got[i].data();
    requests.push_back(q);
  }
  reader.read(requests);
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    got[i].resize(wanted[i].bytes());
    EXPECT_TRUE(got[i] == expected(wanted[i], salt)) << wanted[i].name << " " << wanted[i].kind << " "
                                                     << box_text(wanted[i].box);
  }
}

// The message of the Error that `body` throws; "no error" otherwise.
template <class Body>
std::string error_of(Body body, Code code) {
  try {
    body();
  } catch (const Error& e) {
    EXPECT_EQ(code_name(e.code()), code_name(code)) << e.what();
    return e.what();
  }
  return "no error";
}

inline void flip_bit(const std::filesystem::path& path, std::uint64_t byte, int bit = 0) {
  std::FILE* f = std::fopen(path.c_str(), "r+b");
  ASSERT_TRUE(f);
  std::fseek(f, static_cast<long>(byte), SEEK_SET);
  const int c = std::fgetc(f);
  std::fseek(f, static_cast<long>(byte), SEEK_SET);
  std::fputc(c ^ (1 << bit), f);
  std::fclose(f);
}

}  // namespace mt::test

#define EXPECT_CONTAINS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)
