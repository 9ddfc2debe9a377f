#include "ckpt/store.h"

#include <fstream>
#include <set>
#include <thread>

#include "base/files.h"
#include "ckpt/iterations.h"
#include "ckpt/safetensors.h"
#include "ckpt/sample_checkpoint.h"

namespace mt {
namespace {

std::vector<std::string> names_in(const fs::path& dir) {
  std::vector<std::string> names;
  for (const auto& e : fs::directory_iterator(dir)) names.push_back(e.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

TensorBox box_of(const std::string& name, const Dims& shape, const Box& box) {
  return {name, "weight", DType::f32, shape, box};
}

TEST(Store, ASaveLeavesManifestDataAndTrackerAndNothingElse) {
  const test::TemporaryDirectory root;
  std::mt19937 rng(1);
  const auto dir = test::save(root / "new/save", 20, test::random_layout(test::sample_tensors(), 2, rng));
  EXPECT_EQ(dir, root / "new/save/iter_0000020");
  EXPECT_EQ(names_in(root / "new/save"), (std::vector<std::string>{"iter_0000020", kTrackerName}));
  EXPECT_EQ(names_in(dir), (std::vector<std::string>{"data_00000.safetensors", "data_00001.safetensors", "manifest.json"}));
  EXPECT_EQ(read_file(root / "new/save" / kTrackerName), "20\n");
}

TEST(Store, EveryTensorReadsBackWholeFromAnyLayout) {
  const test::TemporaryDirectory root;
  std::mt19937 rng(2);
  const auto tensors = test::sample_tensors();
  for (int world = 1; world <= 8; world += 3) {
    const auto dir = test::save(root.path(), world, test::random_layout(tensors, world, rng));
    const Reader reader(dir);
    test::expect_content(reader, tensors);
    EXPECT_EQ(reader.manifest().tensors.size(), tensors.size());
    EXPECT_EQ(reader.manifest().meta.training, test::sample_meta(1, 1).training);
  }
}

TEST(Store, BytesAreWrittenOnceAndDataFilesAreSafetensors) {
  const test::TemporaryDirectory root;
  std::mt19937 rng(3);
  const auto tensors = test::sample_tensors();
  std::uint64_t unique = 0, stored = 0;
  for (const auto& t : tensors) unique += t.bytes();
  const auto dir = test::save(root.path(), 1, test::random_layout(tensors, 3, rng));
  for (int rank = 0; rank < 3; ++rank) {
    const auto header = read_safetensors_header(dir / data_file_name(rank));
    for (const auto& t : header.tensors) stored += t.end - t.begin;
    EXPECT_EQ(header.data_start % 4096, 0u);
    for (const auto& t : header.tensors)
      EXPECT_EQ(t.begin % static_cast<std::uint64_t>(bytes_of(*t.dtype, 1)), 0u) << t.name;
  }
  EXPECT_EQ(stored, unique);
}

TEST(Store, AWholeWeightKeepsItsPlainNameInTheFile) {
  const test::TemporaryDirectory root;
  const auto dir = test::save(root.path(), 1, test::one_rank(test::sample_tensors()));
  std::set<std::string> names;
  for (const auto& t : read_safetensors_header(dir / data_file_name(0)).tensors) names.insert(t.name);
  EXPECT_TRUE(names.count("decoder.final_layernorm.weight"));
  EXPECT_TRUE(names.count("decoder.layers.0.mlp.linear_fc2.weight#exp_avg"));
}

TEST(Store, ShardsLargerThanChunksAndBlocksKeepTheirHashes) {
  const test::TemporaryDirectory root;
  // Sizes chosen so that chunk borders and file blocks fall on different bytes.
  const std::vector<TensorBox> tensors = {box_of("a", {1100, 1001}, whole({1100, 1001})),
                                          box_of("b", {1024, 1024}, whole({1024, 1024})),
                                          box_of("c", {2500, 1000}, whole({2500, 1000}))};
  for (const auto mode : {WriteMode::direct, WriteMode::buffered}) {
    const auto dir = begin_save(root.path(), 1);
    test::write_layout(dir, test::one_rank(tensors), 0, {mode});
    const Reader reader(commit(root.path(), test::sample_meta(1, 1)));
    test::expect_content(reader, tensors);
    const auto* c = reader.manifest().find("c", "weight");
    ASSERT_EQ(c->shards[0].chunk_xxh3.size(), 3u);
    const auto bytes = test::expected(tensors[2]);
    EXPECT_EQ(c->shards[0].chunk_xxh3[1], xxh3(bytes.data() + kChunkBytes, kChunkBytes));
  }
}

TEST(Store, ARankWithNothingWritesNoDataFile) {
  const test::TemporaryDirectory root;
  auto layout = test::one_rank(test::sample_tensors());
  layout.emplace_back();
  const auto dir = test::save(root.path(), 1, layout);
  EXPECT_EQ(names_in(dir), (std::vector<std::string>{"data_00000.safetensors", "manifest.json"}));
  test::expect_content(Reader(dir), layout[0]);
}

TEST(Store, SavingAnIterationAgainSwapsTheDirectoriesAndKeepsNoOldOne) {
  const test::TemporaryDirectory root;
  const auto tensors = test::sample_tensors();
  test::save(root.path(), 5, test::one_rank(tensors), 1);
  test::save(root.path(), 5, test::one_rank(tensors), 2);
  EXPECT_EQ(names_in(root.path()), (std::vector<std::string>{"iter_0000005", kTrackerName}));
  test::expect_content(Reader(root / "iter_0000005"), tensors, 2);
}

TEST(Store, WhatAKilledSaveLeftIsRemovedByTheNextOfThatIteration) {
  const test::TemporaryDirectory root;
  const auto tensors = test::sample_tensors();
  auto stale = test::one_rank(tensors);
  stale.push_back({box_of("ghost", {4}, whole({4}))});
  test::write_layout(begin_save(root.path(), 5), stale, 7);
  const auto dir = test::save(root.path(), 5, test::one_rank(tensors));
  EXPECT_EQ(names_in(dir), (std::vector<std::string>{"data_00000.safetensors", "manifest.json"}));
  EXPECT_EQ(Reader(dir).manifest().find("ghost", "weight"), nullptr);
}

// What commit says of a layout; the earlier checkpoint must stay the one that is named.
std::string refused(const test::Layout& layout, int claimed_world) {
  const test::TemporaryDirectory root;
  test::save(root.path(), 1, test::one_rank(test::sample_tensors()));
  test::write_layout(begin_save(root.path(), 2), layout);
  std::string text = "no error";
  try {
    commit(root.path(), test::sample_meta(2, claimed_world));
  } catch (const Error& e) {
    text = e.what();
  }
  EXPECT_EQ(read_file(root / kTrackerName), "1\n");
  EXPECT_FALSE(fs::exists(root / "iter_0000002"));
  EXPECT_EQ(resolve(root.path()).iteration, 1);
  return text;
}

TEST(Store, ASaveThatDoesNotCoverEveryTensorOnceIsNotPublished) {
  const auto top = box_of("w", {4, 2}, Box{{0, 0}, {2, 2}}), bottom = box_of("w", {4, 2}, Box{{2, 0}, {2, 2}});
  EXPECT_EQ(test::error_of([&] {
              const test::TemporaryDirectory root;
              test::save(root.path(), 1, {{top}, {bottom}});
            }, Code::corrupt), "no error");
  EXPECT_CONTAINS(refused({{top}, {}}, 2), "4 of 8 elements");
  EXPECT_CONTAINS(refused({{top}, {top, bottom}}, 2), "stored twice");
  auto other_shape = bottom;
  other_shape.shape = {5, 2};
  EXPECT_CONTAINS(refused({{top}, {other_shape}}, 2), "ranks disagree on w (weight)");
  auto other_dtype = bottom;
  other_dtype.dtype = DType::bf16;
  EXPECT_CONTAINS(refused({{top}, {other_dtype}}, 2), "ranks disagree");
  EXPECT_CONTAINS(refused({{top}, {bottom}}, 3), "rank_00002.json");
  EXPECT_CONTAINS(refused({{top}, {bottom}}, 1), "4 of 8 elements");
}

TEST(Store, ADataFileThatShrankBeforeTheCommitIsNoticed) {
  const test::TemporaryDirectory root;
  const auto dir = begin_save(root.path(), 2);
  test::write_layout(dir, test::one_rank(test::sample_tensors()));
  fs::resize_file(dir / data_file_name(0), 100);
  EXPECT_CONTAINS(test::error_of([&] { commit(root.path(), test::sample_meta(2, 1)); }, Code::corrupt), "found 100");
}

TEST(Store, APathThatCannotBeADirectoryIsAnIoError) {
  const test::TemporaryDirectory root;
  std::ofstream(root / "file") << "x";
  EXPECT_CONTAINS(test::error_of([&] { begin_save(root / "file/save", 1); }, Code::io), "file/save");
}

TEST(Store, RanksMayWriteAtTheSameTime) {
  const test::TemporaryDirectory root;
  std::mt19937 rng(4);
  const auto tensors = test::sample_tensors(64, 50);
  const auto layout = test::random_layout(tensors, 6, rng);
  const auto dir = begin_save(root.path(), 3);
  std::vector<std::thread> ranks;
  for (int r = 0; r < 6; ++r)
    ranks.emplace_back([&, r] {
      std::vector<std::vector<std::byte>> bytes;
      std::vector<TensorShard> shards;
      for (const auto& t : layout[static_cast<std::size_t>(r)]) bytes.push_back(test::expected(t));
      for (std::size_t i = 0; i < bytes.size(); ++i) {
        bytes[i].reserve(1);
        shards.push_back({layout[static_cast<std::size_t>(r)][i], bytes[i].data()});
      }
      write_rank(dir, r, shards);
    });
  for (auto& t : ranks) t.join();
  test::expect_content(Reader(commit(root.path(), test::sample_meta(3, 6))), tensors);
}

}  // namespace
}  // namespace mt
