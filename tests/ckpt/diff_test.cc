#include "ckpt/diff.h"

#include <cmath>
#include <limits>

#include "base/files.h"
#include "ckpt/sample_checkpoint.h"

namespace mt {
namespace {

std::vector<TensorDifference> differences(const fs::path& a, const fs::path& b, const DiffOptions& options = {}) {
  std::vector<TensorDifference> out;
  diff_checkpoints(Reader(a), Reader(b), options, [&](const TensorDifference& d) {
    if (d.kind_of != TensorDifference::Kind::same) out.push_back(d);
    return true;
  });
  return out;
}

fs::path save_values(const fs::path& root, const std::vector<float>& values, const std::string& name = "w") {
  const auto n = static_cast<std::int64_t>(values.size());
  const TensorShard s{{name, "weight", DType::f32, {n / 2, 2}, whole({n / 2, 2})},
                      reinterpret_cast<const std::byte*>(values.data())};
  write_rank(begin_save(root, 1), 0, {&s, 1});
  return commit(root, test::sample_meta(1, 1));
}

TEST(Diff, TheSameStateInTwoLayoutsIsEqual) {
  const test::TemporaryDirectory root;
  std::mt19937 rng(1);
  const auto tensors = test::sample_tensors();
  const auto a = test::save(root / "a", 1, test::random_layout(tensors, 1, rng));
  const auto b = test::save(root / "b", 1, test::random_layout(tensors, 5, rng));
  EXPECT_TRUE(differences(a, b).empty());
}

TEST(Diff, TheLargestDifferenceAndTheFirstPlaceAreExact) {
  const test::TemporaryDirectory root;
  const auto a = save_values(root / "a", {1, 2, 3, 4, 5, 6});
  const auto b = save_values(root / "b", {1, 2, 3, 4.5f, 5, 5.25f});
  const auto d = differences(a, b);
  ASSERT_EQ(d.size(), 1u);
  EXPECT_EQ(d[0].kind_of, TensorDifference::Kind::values);
  EXPECT_EQ(d[0].num_differ, 2);
  EXPECT_EQ(d[0].num_elements, 6);
  EXPECT_EQ(d[0].largest, 0.75);
  EXPECT_EQ(d[0].at, (Dims{1, 1}));
  EXPECT_CONTAINS(d[0].text, "w (weight): 2 of 6 elements differ, the first at [1, 1]");
}

TEST(Diff, BitsDecideZeroSignsAndNan) {
  const test::TemporaryDirectory root;
  const auto nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  const auto a = save_values(root / "a", {0.0f, nan, 1.0f, 2.0f});
  auto d = differences(a, save_values(root / "b", {-0.0f, nan, 1.0f, 2.0f}));
  ASSERT_EQ(d.size(), 1u);
  EXPECT_EQ(d[0].num_differ, 1);
  EXPECT_EQ(d[0].largest, 0);
  EXPECT_TRUE(differences(a, save_values(root / "c", {0.0f, nan, 1.0f, 2.0f})).empty());
  d = differences(a, save_values(root / "d", {0.0f, nan, inf, 2.0f}));
  EXPECT_EQ(d.at(0).largest, inf);
  d = differences(a, save_values(root / "e", {0.0f, nan, 1.0f, nan}));
  EXPECT_EQ(d.at(0).largest, inf);
}

TEST(Diff, MissingTensorsShapesAndDtypesAreNamed) {
  const test::TemporaryDirectory root;
  auto tensors = test::sample_tensors();
  const auto a = test::save(root / "a", 1, test::one_rank(tensors));
  tensors[0].dtype = DType::f16;
  tensors[1].shape = {20, 24};
  tensors[1].box = whole(tensors[1].shape);
  tensors[2].name = "other";
  const auto b = test::save(root / "b", 1, test::one_rank(tensors));
  const auto d = differences(a, b);
  ASSERT_EQ(d.size(), 4u);
  EXPECT_STREQ(difference_name(d[0].kind_of), "dtype");
  EXPECT_STREQ(difference_name(d[1].kind_of), "shape");
  EXPECT_STREQ(difference_name(d[2].kind_of), "only_in_a");
  EXPECT_STREQ(difference_name(d[3].kind_of), "only_in_b");
  EXPECT_EQ(d[3].name, "other");
  EXPECT_TRUE(differences(a, b, {{"counter"}}).empty());
}

TEST(Diff, TwoDtypesAreSaidAndComparedByValue) {
  const test::TemporaryDirectory root;
  const std::vector<float> values{1.0f, -0.0f, 2.5f, std::numeric_limits<float>::quiet_NaN()};
  std::vector<bf16> narrow;
  for (const float v : {1.0f, 0.0f, 2.0f, std::numeric_limits<float>::quiet_NaN()}) narrow.push_back(to_bf16(v));
  const TensorShard s{{"w", "weight", DType::bf16, {2, 2}, whole({2, 2})}, reinterpret_cast<const std::byte*>(narrow.data())};
  const auto a = save_values(root / "a", values);
  write_rank(begin_save(root / "b", 1), 0, {&s, 1});
  const auto b = commit(root / "b", test::sample_meta(1, 1));
  auto d = differences(a, b);
  ASSERT_EQ(d.size(), 1u);
  EXPECT_EQ(d[0].kind_of, TensorDifference::Kind::dtype);
  EXPECT_EQ(d[0].num_differ, 1);
  EXPECT_EQ(d[0].largest, 0.5);
  EXPECT_EQ(d[0].at, (Dims{1, 0}));
  EXPECT_CONTAINS(d[0].text, "f32 and bf16, 1 of 4 values differ");
  narrow[2] = to_bf16(2.5f);
  write_rank(begin_save(root / "c", 1), 0, {&s, 1});
  d = differences(a, commit(root / "c", test::sample_meta(1, 1)));
  ASSERT_EQ(d.size(), 1u) << "another dtype is a difference, whatever the values";
  EXPECT_EQ(d[0].num_differ, 0);
  EXPECT_CONTAINS(d[0].text, "all values are equal");
}

TEST(Diff, OneElementInALargeTensorIsFoundAcrossBlocks) {
  const test::TemporaryDirectory root;
  std::vector<float> values(2 * 5'000'000, 1.0f);
  const auto a = save_values(root / "a", values);
  values[9'876'543] = 1.5f;
  const auto b = save_values(root / "b", values);
  const auto d = differences(a, b);
  ASSERT_EQ(d.size(), 1u);
  EXPECT_EQ(d[0].num_differ, 1);
  EXPECT_EQ(d[0].at, (Dims{4938271, 1}));
}

TEST(Diff, StopsWhenToldTo) {
  const test::TemporaryDirectory root;
  const auto tensors = test::sample_tensors();
  const auto a = test::save(root / "a", 1, test::one_rank(tensors), 1), b = test::save(root / "b", 1, test::one_rank(tensors), 2);
  int seen = 0;
  diff_checkpoints(Reader(a), Reader(b), {}, [&](const TensorDifference& d) {
    ++seen;
    return d.kind_of == TensorDifference::Kind::same;
  });
  EXPECT_EQ(seen, 1);
}

}  // namespace
}  // namespace mt
