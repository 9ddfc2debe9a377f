// Blocks of a tensor in order, its figures against two passes in long double, and means of checkpoints.

#include "ckpt/tensor_scan.h"

#include <cmath>

#include "ckpt/average.h"
#include "ckpt/sample_checkpoint.h"

namespace mt {
namespace {

using test::TemporaryDirectory;

std::filesystem::path write_values(const std::filesystem::path& root, DType dtype, const Dims& shape,
                                   const std::vector<float>& values, std::int64_t iteration = 1,
                                   const std::vector<float>& masters = {}) {
  const auto dir = begin_save(root, iteration);
  std::vector<std::byte> bytes;
  for (const float v : values) {
    const auto b = to_bf16(v);
    const auto* from = dtype == DType::f32 ? reinterpret_cast<const std::byte*>(&v) : reinterpret_cast<const std::byte*>(&b);
    bytes.insert(bytes.end(), from, from + bytes_of(dtype, 1));
  }
  std::vector<TensorShard> shards{{{"t", "weight", dtype, shape, whole(shape)}, bytes.data()}};
  if (!masters.empty())
    shards.push_back({{"t", "master", DType::f32, shape, whole(shape)}, reinterpret_cast<const std::byte*>(masters.data())});
  write_rank(dir, 0, shards);
  return commit(root, test::sample_meta(iteration, 1));
}

TEST(TensorScan, VisitsEveryElementOfAPartInOrder) {
  const TemporaryDirectory root;
  // Larger than a block, and rows that do not divide it.
  const Dims shape{3, 1000, 4001};
  std::vector<float> values(static_cast<std::size_t>(num_elements(shape)));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 16000057);
  const Reader reader(write_values(root.path(), DType::f32, shape, values));
  const CheckpointTensors tensors(reader);
  const auto& t = tensors.tensors()[0];
  for (const Box& part : {whole(shape), Box{{1, 17, 5}, {2, 900, 3990}}}) {
    std::int64_t n = 0, wrong = 0;
    scan_tensor(tensors, t, part, [&](const Box& box, const std::byte* at) {
      for (std::int64_t i = 0; i < box.size(); ++i, ++n) {
        std::int64_t rest = n, flat = 0;
        Dims place(3);
        for (std::size_t d = 3; d-- > 0;) place[d] = part.offset[d] + rest % part.extent[d], rest /= part.extent[d];
        for (std::size_t d = 0; d < 3; ++d) flat = flat * shape[d] + place[d];
        wrong += element_value(DType::f32, at + 4 * i) != static_cast<double>(values[static_cast<std::size_t>(flat)]);
      }
    });
    EXPECT_EQ(n, part.size());
    EXPECT_EQ(wrong, 0);
  }
}

TEST(TensorScan, FiguresAreThoseOfTwoPasses) {
  const TemporaryDirectory root;
  std::vector<float> values;
  for (int i = 0; i < 100000; ++i) values.push_back(1e4f + static_cast<float>(test::mix(static_cast<std::uint64_t>(i)) >> 40) * 1e-7f);
  values[5] = 0;
  long double sum = 0, squares = 0, own = 0;
  for (const float v : values) sum += v, own += static_cast<long double>(v) * v;
  const auto n = static_cast<long double>(values.size());
  for (const float v : values) squares += (v - sum / n) * (v - sum / n);
  const float infinity = INFINITY;
  for (const float odd : {infinity, -infinity, std::nanf("")}) values.push_back(odd);
  const Reader reader(write_values(root.path(), DType::f32, {static_cast<std::int64_t>(values.size())}, values));
  const CheckpointTensors tensors(reader);
  const TensorStats s = stats_of(tensors, tensors.tensors()[0]);
  EXPECT_EQ(s.elements, 100003);
  EXPECT_EQ(s.zeros, 1);
  EXPECT_EQ(s.nan, 1);
  EXPECT_EQ(s.infinite, 2);
  EXPECT_EQ(s.least, 0);
  EXPECT_NEAR(s.mean, static_cast<double>(sum / n), 1e-9);
  EXPECT_NEAR(s.deviation, static_cast<double>(std::sqrt(squares / n)), 1e-9);
  EXPECT_NEAR(s.rms, static_cast<double>(std::sqrt(own / n)), 1e-7);
}

TEST(Average, IsTheMeanRoundedOnceAndOfMastersWhereThereAre) {
  const TemporaryDirectory root;
  const std::vector<float> a{1, 2, 3, 1e8f}, b{2, 2, 4, 1}, c{4, 2, 5, -1e8f};
  const Reader ra(write_values(root / "a", DType::f32, {4}, a, 7)), rb(write_values(root / "b", DType::f32, {4}, b, 9)),
      rc(write_values(root / "c", DType::f32, {4}, c, 8));
  const Reader mean(average_checkpoints({&ra, &rb, &rc}, root / "mean"));
  EXPECT_EQ(mean.manifest().meta.iteration, 9);
  std::vector<double> got;
  const CheckpointTensors means(mean);
  scan_tensor(means, means.tensors()[0], whole({4}), [&](const Box& box, const std::byte* at) {
    for (std::int64_t i = 0; i < box.size(); ++i) got.push_back(element_value(DType::f32, at + 4 * i));
  });
  EXPECT_EQ(got, (std::vector<double>{static_cast<float>(7.0 / 3), 2, 4, static_cast<float>(1.0 / 3)})) << "summed in double";

  const Reader wa(write_values(root / "wa", DType::bf16, {1}, {1.0f}, 1, {1.001f})),
      wb(write_values(root / "wb", DType::bf16, {1}, {1.0f}, 1, {1.007f}));
  const Reader both(average_checkpoints({&wa, &wb}, root / "both"));
  ASSERT_EQ(both.manifest().tensors.size(), 2u);
  const CheckpointTensors both_tensors(both);
  for (const auto& t : both_tensors.tensors())
    scan_tensor(both_tensors, t, whole({1}), [&](const Box&, const std::byte* at) {
      const auto master = static_cast<float>((static_cast<double>(1.001f) + static_cast<double>(1.007f)) / 2);
      EXPECT_EQ(element_value(t.dtype, at), static_cast<double>(t.kind == "master" ? master : to_f32(to_bf16(master)))) << t.kind;
    });
  const Reader other(write_values(root / "other", DType::f32, {2, 2}, a));
  EXPECT_CONTAINS(test::error_of([&] { average_checkpoints({&ra, &other}, root / "no"); }, Code::config), "[4]");
  EXPECT_FALSE(std::filesystem::exists(root / "no"));
}

}  // namespace
}  // namespace mt
