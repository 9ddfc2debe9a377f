#include "ckpt/manifest.h"

#include <random>

#include "base/hash.h"
#include "ckpt/sample_checkpoint.h"

namespace mt {
namespace {

Manifest small() {
  Manifest m;
  m.meta = test::sample_meta(20, 2);
  m.files = {{"data_00000.safetensors", 100}, {"data_00001.safetensors", 50}};
  TensorEntry t{"w", "weight", DType::f32, {4, 2}, {}};
  t.shards.push_back({Box{{0, 0}, {3, 2}}, 0, 0, 24, {0x0123456789abcdefull}});
  t.shards.push_back({Box{{3, 0}, {1, 2}}, 1, 8, 16, {42}});
  m.tensors.push_back(t);
  m.index();
  return m;
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const auto at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

std::string problem(const std::string& from, const std::string& to) {
  const auto text = replaced(manifest_text(small()), from, to);
  return test::error_of([&] { parse_manifest(text, "manifest.json"); }, Code::corrupt);
}

TEST(Manifest, WhatIsWrittenReadsBack) {
  const auto m = small();
  const auto r = parse_manifest(manifest_text(m), "x");
  EXPECT_EQ(r.meta.iteration, 20);
  EXPECT_EQ(r.meta.consumed_samples, 160);
  EXPECT_EQ(r.meta.world_size, 2);
  EXPECT_EQ(r.meta.specs, m.meta.specs);
  EXPECT_EQ(r.meta.training, m.meta.training);
  EXPECT_EQ(r.meta.tokenizer, "bytes");
  ASSERT_EQ(r.tensors.size(), 1u);
  EXPECT_EQ(r.tensors[0].shards, m.tensors[0].shards);
  EXPECT_EQ(r.find("w", "weight"), &r.tensors[0]);
  EXPECT_EQ(r.find("w", "master"), nullptr);
  EXPECT_EQ(r.find("v", "weight"), nullptr);
  EXPECT_EQ(manifest_text(r), manifest_text(m));
}

TEST(Manifest, EveryLieIsRefusedByName) {
  EXPECT_CONTAINS(problem("\"iteration\": 20", "\"iteration\": -1"), "'iteration'");
  EXPECT_CONTAINS(problem("\"iteration\": 20", "\"iteration\": \"x\""), "'iteration'");
  EXPECT_CONTAINS(problem("mt-checkpoint", "else"), "wanted 'mt-checkpoint', found 'else'");
  EXPECT_CONTAINS(problem("\"format_version\": 1", "\"format_version\": 2"), "reads 1, found 2");
  EXPECT_CONTAINS(problem("\"file\":\"data_00001.safetensors\"", "\"file\":\"other\""), "not among 'files'");
  EXPECT_CONTAINS(problem("{\"name\":\"data_00001", "{\"name\":\"../data_00001"), "leave the directory");
  EXPECT_CONTAINS(problem("{\"name\":\"data_00001", "{\"name\":\"data_00000"), "appears twice");
  EXPECT_CONTAINS(problem("\"extent\":[1,2]", "\"extent\":[2,2]"), "not inside shape");
  EXPECT_CONTAINS(problem("\"extent\":[1,2]", "\"extent\":[1]"), "not inside shape");
  EXPECT_CONTAINS(problem("\"extent\":[1,2]", "\"extent\":[1,2,3,4]"), "[1, 2, 3, 4] at ");
  EXPECT_CONTAINS(problem("\"end\":16", "\"end\":17"), "needs 8 bytes");
  EXPECT_CONTAINS(problem("\"begin\":8,\"end\":16", "\"begin\":48,\"end\":56"), "needs 8 bytes");
  EXPECT_CONTAINS(problem("\"dtype\":\"f32\"", "\"dtype\":\"f31\""), "unknown dtype 'f31'");
  EXPECT_CONTAINS(problem("000000000000002a", "000000000000002"), "not a multiple of 16");
  EXPECT_CONTAINS(problem("000000000000002a", "000000000000002G"), "hexadecimal");
  EXPECT_CONTAINS(problem("000000000000002a", ""), "1 chunks, but 0 hashes");
  EXPECT_CONTAINS(problem("\"shape\":[4,2]", "\"shape\":[5,2]"), "2 of 10 elements");
  EXPECT_CONTAINS(problem("\"shape\":[4,2]", "\"shape\":[4000000000,4000000000]"), "too large");
  EXPECT_CONTAINS(problem("\"offset\":[3,0]", "\"offset\":[2,0]"), "stored twice");
  EXPECT_CONTAINS(problem("\"chunk_bytes\": 4194304", "\"chunk_bytes\": 0"), "chunk_bytes");
  EXPECT_CONTAINS(problem("\"specs\": {", "\"specs\": 3, \"spec\": {"), "'specs' is not an object");
}

TEST(Manifest, AnyOtherTextHasAnotherChecksumAndAnOlderManifestNeedsNone) {
  EXPECT_CONTAINS(problem("\"iteration\": 20", "\"iteration\": 21"), "checksum");
  EXPECT_CONTAINS(problem("\"world_size\": 2", "\"world_size\": 3"), "checksum");
  EXPECT_CONTAINS(problem("\"iteration\": 20", "\"iteration\":20"), "checksum");
  const auto text = manifest_text(small());
  EXPECT_TRUE(parse_manifest(text, "x").has_checksum);
  EXPECT_CONTAINS(test::error_of([&] { parse_manifest(text + "\n", "x"); }, Code::corrupt), "checksum");
  // The checksum is that of what is left without its field.
  const auto at = text.rfind(",\n \"xxh3\"");
  ASSERT_NE(at, std::string::npos);
  const auto older = text.substr(0, at) + "}\n";
  EXPECT_EQ(text.substr(at), fmt::format(",\n \"xxh3\": \"{}\"}}\n", hash_text(xxh3(older))));
  const auto m = parse_manifest(older, "x");
  EXPECT_FALSE(m.has_checksum);
  EXPECT_EQ(m.meta.iteration, 20);
}

TEST(Manifest, TwoTensorsMayNotShareBytesNorAName) {
  auto m = small();
  auto second = m.tensors[0];
  second.name = "v";
  m.tensors.push_back(second);
  EXPECT_CONTAINS(test::error_of([&] { parse_manifest(manifest_text(m), "x"); }, Code::corrupt), "overlap in data_0000");
  m.tensors[1] = m.tensors[0];
  EXPECT_CONTAINS(test::error_of([&] { parse_manifest(manifest_text(m), "x"); }, Code::corrupt), "appears twice");
}

TEST(Manifest, AnyDamageIsRefusedOrLeavesASoundManifest) {
  const auto good = manifest_text(small());
  std::mt19937 rng(5);
  for (int i = 0; i < 3000; ++i) {
    auto bad = good;
    bad[rng() % bad.size()] = static_cast<char>(rng());
    if (i % 4 == 0) bad.resize(rng() % bad.size());
    try {
      const auto m = parse_manifest(bad, "x");
      for (const auto& t : m.tensors)
        for (const auto& s : t.shards) EXPECT_LE(s.end, m.files[s.file].bytes);
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Code::corrupt) << e.what();
    }
  }
}

TEST(Manifest, CoverageNamesWhatIsWrong) {
  const Dims shape{4, 6};
  EXPECT_EQ(coverage_problem(shape, {whole(shape)}), "");
  EXPECT_EQ(coverage_problem(shape, {Box{{0, 0}, {4, 3}}, Box{{0, 3}, {4, 3}}}), "");
  EXPECT_EQ(coverage_problem({}, {Box{}}), "");
  EXPECT_EQ(coverage_problem({0, 3}, {}), "");
  EXPECT_CONTAINS(coverage_problem({}, {}), "1 of 1 elements");
  EXPECT_CONTAINS(coverage_problem({}, {Box{}, Box{}}), "stored twice");
  EXPECT_CONTAINS(coverage_problem(shape, {Box{{0, 0}, {4, 3}}}), "12 of 24");
  EXPECT_CONTAINS(coverage_problem(shape, {Box{{0, 0}, {4, 4}}, Box{{0, 3}, {4, 3}}}), "[0:4, 3:4]");
  EXPECT_CONTAINS(coverage_problem(shape, {Box{{0, 0}, {5, 6}}}), "not inside");
  // The right number of elements, but one twice and one never.
  EXPECT_CONTAINS(coverage_problem({3}, {Box{{0}, {2}}, Box{{1}, {1}}}), "stored twice");
}

TEST(Manifest, RandomCutsAreCoversAndLosingOrDoublingAPieceIsNot) {
  std::mt19937 rng(9);
  for (int round = 0; round < 200; ++round) {
    Dims shape;
    for (std::size_t i = 0, n = 1 + rng() % 4; i < n; ++i) shape.push_back(1 + static_cast<std::int64_t>(rng() % 9));
    auto boxes = test::random_cut(whole(shape), 1 + static_cast<int>(rng() % 12), rng);
    std::shuffle(boxes.begin(), boxes.end(), rng);
    EXPECT_EQ(coverage_problem(shape, boxes), "");
    auto twice = boxes;
    twice.push_back(boxes[rng() % boxes.size()]);
    EXPECT_NE(coverage_problem(shape, twice), "");
    boxes.pop_back();
    EXPECT_NE(coverage_problem(shape, boxes), "");
  }
}

TEST(Manifest, AHundredThousandTensorsOpen) {
  Manifest m;
  m.meta = test::sample_meta(1, 1);
  m.files = {{"data_00000.safetensors", 100000 * 8}};
  for (std::uint64_t i = 0; i < 100000; ++i) {
    TensorEntry t{fmt::format("decoder.layers.{}.mlp.linear_fc1_gate.weight", i), "exp_avg", DType::f32, {2}, {}};
    t.shards.push_back({whole({2}), 0, i * 8, i * 8 + 8, {i}});
    m.tensors.push_back(std::move(t));
  }
  const auto text = manifest_text(m);
  const auto r = parse_manifest(text, "x");
  EXPECT_EQ(r.tensors.size(), 100000u);
}

}  // namespace
}  // namespace mt
