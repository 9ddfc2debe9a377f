#include "ckpt/reshard.h"

#include <fstream>

#include "base/files.h"
#include "ckpt/diff.h"
#include "ckpt/iterations.h"
#include "ckpt/sample_checkpoint.h"
#include "ckpt/verify.h"

namespace mt {
namespace {

bool equal(const fs::path& a, const fs::path& b) {
  bool same = true;
  diff_checkpoints(Reader(a), Reader(b), {}, [&](const TensorDifference& d) {
    same &= d.kind_of == TensorDifference::Kind::same;
    return same;
  });
  return same;
}

TEST(Reshard, AnyLayoutGoesToAnyOtherAndBackBitwise) {
  const test::TemporaryDirectory root;
  std::mt19937 rng(41);
  const auto tensors = test::sample_tensors();
  auto previous = test::save(root / "0", 7, test::random_layout(tensors, 3, rng));
  for (int round = 1; round <= 6; ++round) {
    const auto layout = test::random_layout(tensors, 1 + static_cast<int>(rng() % 7), rng);
    const auto next = reshard(Reader(previous), root / std::to_string(round), {layout, {{"round", round}}});
    EXPECT_TRUE(equal(root / "0/iter_0000007", next));
    EXPECT_TRUE(verify_checkpoint(next).problems.empty());
    const auto m = read_manifest(next);
    EXPECT_EQ(m.meta.training, test::sample_meta(7, 1).training);
    EXPECT_EQ(m.meta.consumed_samples, 56);
    EXPECT_EQ(m.meta.specs["round"], round);
    EXPECT_EQ(resolve(root / std::to_string(round)).iteration, 7);
    test::expect_content(Reader(next), tensors);
    previous = next;
  }
}

TEST(Reshard, ColumnsOfLargeTensorsStreamCorrectly) {
  const test::TemporaryDirectory root;
  const Dims shape{1500, 2003};
  const TensorBox t{"w", "weight", DType::f32, shape, whole(shape)};
  const auto a = test::save(root / "a", 1, {{t}});
  test::Layout columns;
  for (std::int64_t at = 0; at < 2003; at += 501) {
    auto piece = t;
    piece.box = Box{{0, at}, {1500, std::min<std::int64_t>(501, 2003 - at)}};
    columns.push_back({piece});
  }
  const auto b = reshard(Reader(a), root / "b", {columns, Json::object()});
  test::expect_content(Reader(b), {t});
  EXPECT_TRUE(verify_checkpoint(b).problems.empty());
}

// What the process reads by system calls, as the kernel counts it.
std::uint64_t bytes_read() {
  std::ifstream io("/proc/self/io");
  std::string name;
  std::uint64_t n = 0;
  while (io >> name >> n)
    if (name == "rchar:") return n;
  return 0;
}

TEST(Reshard, EveryByteOfTheSourceIsReadOnceHoweverManyNewFilesWantPartsOfIt) {
  if (bytes_read() == 0) GTEST_SKIP() << "no /proc/self/io here";
  const test::TemporaryDirectory root;
  const Dims shape{1030, 4099};
  std::vector<TensorBox> tensors;
  for (const char* name : {"a", "b", "c"}) tensors.push_back({name, "weight", DType::f32, shape, whole(shape)});
  const auto a = test::save(root / "a", 1, {tensors});
  const auto source_bytes = static_cast<double>(fs::file_size(a / data_file_name(0)));
  for (const int n : {2, 7, 40}) {
    test::Layout columns;
    for (int i = 0; i < n; ++i) {
      columns.emplace_back(tensors);
      for (auto& t : columns.back()) {
        t.box.offset[1] = 4099 * i / n;
        t.box.extent[1] = 4099 * (i + 1) / n - t.box.offset[1];
      }
    }
    ReaderOptions options;
    options.cached_chunks = 9;  // of the 13 there are
    const Reader reader(a, options);
    const auto before = bytes_read();
    const auto b = reshard(reader, root / std::to_string(n), {columns, Json::object()});
    EXPECT_LE(static_cast<double>(bytes_read() - before), 1.05 * source_bytes) << n;
    test::expect_content(Reader(b), tensors);
  }
}

TEST(Reshard, PackedAndUnpackedAgainNothingHasChanged) {
  const test::TemporaryDirectory root;
  std::mt19937 rng(9);
  const auto tensors = test::sample_tensors();
  const auto a = test::save(root / "a", 1, test::random_layout(tensors, 3, rng));
  Resharding to{test::random_layout(tensors, 2, rng), Json::object()};
  to.codec = Codec::planes;
  const auto packed = reshard(Reader(a), root / "packed", to);
  EXPECT_FALSE(read_manifest(packed).files[0].codec.empty());
  to.codec = Codec::none;
  EXPECT_TRUE(equal(a, reshard(Reader(packed), root / "plain", to)));
}

// Reference: what the elements are made of, rounded by the conversions of base.
TEST(Reshard, AnotherDtypeIsTheStoredValueRoundedOnce) {
  const test::TemporaryDirectory root;
  const TensorBox wide{"w", "weight", DType::f32, {30, 41}, whole({30, 41})};
  const TensorBox count{"n", "weight", DType::i64, {3}, whole({3})};
  const auto a = test::save(root / "a", 1, {{wide, count}});
  auto narrow = wide;
  narrow.dtype = DType::bf16;
  Resharding to{{{narrow, count}}, Json::object()};
  EXPECT_CONTAINS(test::error_of([&] { reshard(Reader(a), root / "b", to); }, Code::config), "wanted bf16, found f32");
  to.convert = true;
  const Reader reader(reshard(Reader(a), root / "b", to));
  test::expect_content(reader, {count});
  std::vector<bf16> found(30 * 41);
  TensorRequest q;
  q.what = narrow;
  q.out = reinterpret_cast<std::byte*>(found.data());
  reader.read({&q, 1});
  const auto source = test::expected(wide);
  for (std::size_t i = 0; i < found.size(); ++i) {
    float f;
    std::memcpy(&f, source.data() + i * 4, 4);
    const bf16 right = to_bf16(f);
    EXPECT_EQ(std::memcmp(&found[i], &right, 2), 0) << i;
  }
}

TEST(Reshard, SplittingByRowsCoversEverythingForAnyNumber) {
  const test::TemporaryDirectory root;
  std::mt19937 rng(2);
  const auto tensors = test::sample_tensors();
  const auto a = test::save(root / "a", 1, test::random_layout(tensors, 2, rng));
  for (const int n : {1, 2, 5, 40}) {
    const Reader reader(a);
    const auto b = reshard(reader, root / std::to_string(n), {split_by_rows(reader.manifest(), n), Json::object()});
    EXPECT_TRUE(equal(a, b)) << n;
  }
}

TEST(Reshard, ALayoutThatDoesNotFitIsRefusedBeforeAnythingIsWritten) {
  const test::TemporaryDirectory root;
  const auto tensors = test::sample_tensors();
  const Reader reader(test::save(root / "a", 1, test::one_rank(tensors)));
  auto fewer = tensors;
  fewer.pop_back();
  fewer.pop_back();
  const auto refusal = [&](const test::Layout& layout) {
    return test::error_of([&] { reshard(reader, root / "b", {layout, Json::object()}); }, Code::config);
  };
  EXPECT_CONTAINS(refusal({fewer}), "step (counter): no rank has it");
  EXPECT_CONTAINS(refusal({tensors, {tensors[0]}}), "stored twice");
  auto wrong = tensors;
  wrong[0].dtype = DType::f32;
  EXPECT_CONTAINS(refusal({wrong}), "wanted f32, found bf16");
  EXPECT_FALSE(fs::exists(root / "b"));
  EXPECT_CONTAINS(test::error_of([&] { reshard(reader, root / "a", {{tensors}, Json::object()}); }, Code::config), "same checkpoint");
}

TEST(Reshard, DamageInTheSourceStopsItAndLeavesNothing) {
  const test::TemporaryDirectory root;
  const auto tensors = test::sample_tensors();
  const auto a = test::save(root / "a", 1, test::one_rank(tensors));
  test::flip_bit(a / data_file_name(0), 5000);
  EXPECT_NE(test::error_of([&] { reshard(Reader(a), root / "b", {{tensors}, Json::object()}); }, Code::corrupt), "no error");
  EXPECT_TRUE(fs::is_empty(root / "b"));
}

}  // namespace
}  // namespace mt
