#include "ckpt/reader.h"

#include <cmath>
#include <limits>

#include "base/files.h"
#include "ckpt/sample_checkpoint.h"

namespace mt {
namespace {

class ReaderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::mt19937 rng(17);
    tensors_ = test::sample_tensors();
    dir_ = test::save(root_.path(), 10, test::random_layout(tensors_, 4, rng));
  }
  // check() and read() must say the same.
  std::string refusal(const TensorBox& what, Code code = Code::config) {
    const Reader reader(dir_);
    std::vector<std::byte> out(1 << 16);
    TensorRequest q;
    q.what = what;
    q.out = out.data();
    const auto text = test::error_of([&] { reader.check({&q, 1}); }, code);
    EXPECT_EQ(text, test::error_of([&] { reader.read({&q, 1}); }, code));
    return text;
  }
  test::TemporaryDirectory root_;
  std::vector<TensorBox> tensors_;
  fs::path dir_;
};

TEST_F(ReaderTest, AnyBoxReadsBackWithAndWithoutVerifyingOnOneOrMoreThreads) {
  std::mt19937 rng(23);
  for (const bool verify : {true, false})
    for (const int threads : {1, 3}) {
      const Reader reader(dir_, {threads, verify});
      for (int round = 0; round < 20; ++round) {
        std::vector<TensorBox> wanted;
        for (const auto& t : tensors_)
          for (const auto& b : test::random_cut(t.box, 1 + static_cast<int>(rng() % 8), rng)) {
            if (rng() % 2) continue;
            wanted.push_back(t);
            wanted.back().box = b;
          }
        test::expect_content(reader, wanted);
      }
    }
}

TEST_F(ReaderTest, OverlappingRequestsOfOneTensorAreEachServed) {
  auto t = tensors_[0];
  auto a = t, b = t;
  a.box = Box{{0, 0}, {10, 20}};
  b.box = Box{{5, 3}, {10, 9}};
  test::expect_content(Reader(dir_), {t, a, b, a});
}

TEST_F(ReaderTest, FlatRangesOfAShardedOptimizerReadAsBoxes) {
  const auto t = tensors_[5];
  const Reader reader(dir_);
  const auto all = test::expected(t);
  for (std::int64_t begin = 0; begin < 480; begin += 37) {
    const auto end = std::min<std::int64_t>(480, begin + 101);
    std::vector<std::byte> out(static_cast<std::size_t>((end - begin) * 4));
    std::vector<TensorRequest> requests;
    auto* at = out.data();
    for (const auto& box : boxes_of_range(t.shape, begin, end)) {
      TensorRequest q;
      q.what = t;
      q.what.box = box;
      q.out = at;
      at += q.what.bytes();
      requests.push_back(q);
    }
    reader.read(requests);
    EXPECT_EQ(std::memcmp(out.data(), all.data() + begin * 4, out.size()), 0);
  }
}

TEST_F(ReaderTest, RowsGoToTheirStrideAndTheGapsStayUntouched) {
  auto t = tensors_[0];  // bf16 [24, 20]
  t.box = Box{{3, 4}, {7, 9}};
  const auto right = test::expected(t);
  std::vector<std::byte> out(7 * 50, std::byte{0xEE});
  TensorRequest q;
  q.what = t;
  q.out = out.data();
  q.row_stride_bytes = 50;
  Reader(dir_).read({&q, 1});
  for (std::size_t row = 0; row < 7; ++row) {
    EXPECT_EQ(std::memcmp(out.data() + row * 50, right.data() + row * 18, 18), 0) << row;
    for (std::size_t i = 18; i < 50; ++i) EXPECT_EQ(out[row * 50 + i], std::byte{0xEE});
  }
}

TEST_F(ReaderTest, ConversionHappensOnlyWhenAskedAndRoundsToNearestEven) {
  auto t = tensors_[1];  // f32
  const auto stored = test::expected(t);
  std::vector<std::byte> out(t.bytes());
  TensorRequest q;
  q.what = t;
  q.what.dtype = DType::bf16;
  q.out = out.data();
  EXPECT_CONTAINS(refusal(q.what), "wanted bf16, found f32");
  q.convert = true;
  Reader(dir_).read({&q, 1});
  for (std::int64_t i = 0; i < t.box.size(); ++i) {
    float f;
    bf16 h;
    std::memcpy(&f, stored.data() + i * 4, 4);
    std::memcpy(&h, out.data() + i * 2, 2);
    ASSERT_EQ(h.bits, to_bf16(f).bits);
  }
  auto w = tensors_[0];  // bf16 to f32 is exact
  q.what = w;
  q.what.dtype = DType::f32;
  std::vector<float> wide(static_cast<std::size_t>(w.box.size()));
  q.out = reinterpret_cast<std::byte*>(wide.data());
  Reader(dir_).read({&q, 1});
  const auto narrow = test::expected(w);
  for (std::size_t i = 0; i < wide.size(); ++i) {
    bf16 h;
    std::memcpy(&h, narrow.data() + i * 2, 2);
    ASSERT_EQ(wide[i], to_f32(h));
  }
  auto counter = tensors_[10];
  ASSERT_EQ(counter.dtype, DType::i64);
  q.what = counter;
  q.what.dtype = DType::f32;
  EXPECT_CONTAINS(test::error_of([&] { Reader(dir_).read({&q, 1}); }, Code::config), "wanted f32, found i64");
}

TEST(ReaderConversion, DoublesReachBf16WithOneRounding) {
  // 1 + 2^-8 is half way between two bf16; a hair above must go up, though f32 cannot hold the hair.
  const test::TemporaryDirectory root;
  const std::vector<double> values = {1.00390625, std::nextafter(1.00390625, 2.0), std::nextafter(1.00390625, 0.0), -0.0};
  const TensorBox t{"d", "weight", DType::f64, {4}, whole({4})};
  const TensorShard shard{t, reinterpret_cast<const std::byte*>(values.data())};
  write_rank(begin_save(root.path(), 1), 0, {&shard, 1});
  const Reader reader(commit(root.path(), test::sample_meta(1, 1)));
  std::vector<bf16> out(4);
  TensorRequest q;
  q.what = t;
  q.what.dtype = DType::bf16;
  q.out = reinterpret_cast<std::byte*>(out.data());
  q.convert = true;
  reader.read({&q, 1});
  EXPECT_EQ(to_f32(out[0]), 1.0f);
  EXPECT_EQ(to_f32(out[1]), 1.0078125f);
  EXPECT_EQ(to_f32(out[2]), 1.0f);
  EXPECT_EQ(out[3].bits, 0x8000);
  EXPECT_EQ(reader.num_overflowed(), 0);
}

// What a narrower dtype cannot hold is counted; what was no finite number before is not.
TEST(ReaderConversion, FiniteElementsThatBecomeInfiniteAreCounted) {
  const test::TemporaryDirectory root;
  constexpr float kInf = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> values = {65504, 65519, 65520, -1e6f, kInf, -kInf, kNan, std::numeric_limits<float>::max(), 1};
  const TensorBox t{"d", "weight", DType::f32, {9}, whole({9})};
  const TensorShard shard{t, reinterpret_cast<const std::byte*>(values.data())};
  write_rank(begin_save(root.path(), 1), 0, {&shard, 1});
  const auto dir = commit(root.path(), test::sample_meta(1, 1));
  std::vector<std::uint16_t> out(9);
  TensorRequest q;
  q.what = t;
  q.out = reinterpret_cast<std::byte*>(out.data());
  q.convert = true;
  for (const auto& [dtype, too_large] : {std::pair{DType::f16, 3}, {DType::bf16, 1}}) {
    const Reader reader(dir);
    q.what.dtype = dtype;
    reader.read({&q, 1});
    EXPECT_EQ(reader.num_overflowed(), too_large) << dtype_name(dtype);
    reader.read({&q, 1});
    EXPECT_EQ(reader.num_overflowed(), 2 * too_large) << dtype_name(dtype);
  }
}

TEST_F(ReaderTest, ARefusalNamesTheTensorWantedAndFound) {
  auto t = tensors_[0];
  t.name = "decoder.layers.9.x";
  EXPECT_CONTAINS(refusal(t), "decoder.layers.9.x (weight): wanted bf16 [24, 20], the checkpoint has no such tensor");
  t = tensors_[0];
  t.kind = "momentum";
  EXPECT_CONTAINS(refusal(t), "(momentum)");
  t = tensors_[0];
  t.shape = {48, 20};
  EXPECT_CONTAINS(refusal(t), "wanted shape [48, 20], found [24, 20]");
  t.shape = {24};
  EXPECT_CONTAINS(refusal(t), "wanted shape [24], found [24, 20]");
  t = tensors_[0];
  t.box.offset = {20, 0};
  EXPECT_CONTAINS(refusal(t), "wanted box [20:44, 0:20], found shape [24, 20]");
}

TEST_F(ReaderTest, SeveralRefusalsAreCounted) {
  std::vector<TensorRequest> requests(5);
  for (auto& q : requests) {
    q.what = tensors_[0];
    q.what.shape = {1, 1};
  }
  EXPECT_CONTAINS(test::error_of([&] { Reader(dir_).check(requests); }, Code::config), "and 4 more like this");
}

TEST_F(ReaderTest, AFlippedBitAnywhereInTheDataIsFoundAndNamed) {
  std::mt19937 rng(29);
  const auto path = dir_ / data_file_name(1);
  const auto size = fs::file_size(path);
  for (int i = 0; i < 40; ++i) {
    const auto at = 4096 + rng() % (size - 4096);
    const auto bit = static_cast<int>(rng() % 8);
    test::flip_bit(path, at, bit);
    const Reader reader(dir_);
    std::vector<std::vector<std::byte>> out;
    std::vector<TensorRequest> requests;
    for (const auto& t : tensors_) {
      out.emplace_back(t.bytes() + 1);
      TensorRequest q;
      q.what = t;
      q.out = out.back().data();
      requests.push_back(q);
    }
    EXPECT_CONTAINS(test::error_of([&] { reader.read(requests); }, Code::corrupt), "data_00001.safetensors");
    test::flip_bit(path, at, bit);
  }
}

TEST_F(ReaderTest, AMissingOrShortDataFileIsToldBeforeAnythingIsRead) {
  TensorRequest q;
  q.what = tensors_[0];
  fs::resize_file(dir_ / data_file_name(2), fs::file_size(dir_ / data_file_name(2)) - 1);
  EXPECT_CONTAINS(test::error_of([&] { Reader(dir_).check({&q, 1}); }, Code::corrupt), "data_00002");
  fs::remove(dir_ / data_file_name(2));
  EXPECT_CONTAINS(test::error_of([&] { Reader(dir_).check({&q, 1}); }, Code::corrupt), "data_00002");
}

TEST(Reader, BoxesAcrossChunkBordersReadBackWithAndWithoutVerifying) {
  const test::TemporaryDirectory root;
  const Dims shape{1300, 3, 401};  // 6.3 MB: a chunk border inside a row
  const TensorBox t{"w", "weight", DType::f32, shape, whole(shape)};
  const auto dir = test::save(root.path(), 1, {{t}});
  std::mt19937 rng(3);
  for (const bool verify : {true, false}) {
    const Reader reader(dir, {2, verify});
    for (const auto& b : test::random_cut(t.box, 12, rng)) {
      auto wanted = t;
      wanted.box = b;
      test::expect_content(reader, {wanted});
    }
  }
}

TEST(Reader, ThousandsOfDataFilesNeverStandOpenTogether) {
  const test::TemporaryDirectory root;
  const int world = 1500;
  const TensorBox t{"w", "weight", DType::i32, {world, 3}, whole({world, 3})};
  test::Layout layout;
  for (int r = 0; r < world; ++r) {
    layout.push_back({t});
    layout.back()[0].box = Box{{r, 0}, {1, 3}};
  }
  // fsync of 3000 files is slow on some disks; memory serves as well.
  const auto dir = fs::is_directory("/dev/shm") ? fs::path("/dev/shm") / fmt::format("mt-reader-{}", ::getpid()) : root.path();
  const auto saved = test::save(dir, 1, layout);
  test::expect_content(Reader(saved), {t});
  if (dir != root.path()) fs::remove_all(dir);
}

}  // namespace
}  // namespace mt
