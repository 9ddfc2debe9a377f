#include "ckpt/packed_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <fstream>

#include "base/files.h"
#include "ckpt/iterations.h"
#include "ckpt/safetensors.h"
#include "ckpt/sample_checkpoint.h"
#include "ckpt/verify.h"

namespace mt {
namespace {

// An open file, as a reader of packed files borrows it.
class Opened {
 public:
  explicit Opened(const fs::path& path)
      : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)), file(fd_, fs::file_size(path), path.string()) {}
  ~Opened() { ::close(fd_); }

 private:
  int fd_;

 public:
  PackedFile file;
};

std::vector<std::byte> write_frames(const fs::path& path, std::mt19937& rng) {
  PackedFileWriter writer(path, WriteMode::direct);
  std::vector<std::byte> plain;
  for (int i = 0; i < 40; ++i) {
    const std::size_t width = std::size_t{1} << rng() % 4;
    std::vector<std::byte> frame(width * (rng() % 5000));
    for (auto& b : frame) b = static_cast<std::byte>(i % 3 == 0 ? rng() : rng() % 5);
    writer.add(frame, width);
    plain.insert(plain.end(), frame.begin(), frame.end());
  }
  const auto bytes = writer.finish();
  EXPECT_EQ(bytes, fs::file_size(path));
  return plain;
}

void write_bytes(const fs::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
}

TEST(PackedFile, AnyRangeOfThePlainFileReadsBack) {
  const test::TemporaryDirectory dir;
  std::mt19937 rng(2);
  const auto plain = write_frames(dir / "f", rng);
  Opened opened(dir / "f");
  ASSERT_EQ(opened.file.plain_bytes(), plain.size());
  for (int round = 0; round < 400; ++round) {
    auto begin = rng() % (plain.size() + 1), end = rng() % (plain.size() + 1);
    if (round == 0) begin = 0, end = plain.size();
    if (begin > end) std::swap(begin, end);
    std::vector<std::byte> out(end - begin + 1, std::byte{0xAB});
    opened.file.read(begin, end, out.data());
    EXPECT_EQ(out.back(), std::byte{0xAB});
    EXPECT_EQ(std::memcmp(out.data(), plain.data() + begin, end - begin), 0);
  }
}

TEST(PackedFile, CutAppendedAndChangedFilesAreNamedOrReadRight) {
  const test::TemporaryDirectory dir;
  std::mt19937 rng(4);
  const auto plain = write_frames(dir / "f", rng);
  const auto good = read_file(dir / "f");
  int refused = 0;
  for (int round = 0; round < 500; ++round) {
    auto bad = good;
    if (round % 5 == 0) bad.resize(rng() % good.size());
    else if (round % 5 == 1) bad += std::string(1 + rng() % 50, 'x');
    else if (round % 5 == 2) bad[good.size() - 1 - rng() % 500] ^= static_cast<char>(1 + rng() % 255);  // the index
    else bad[rng() % good.size()] ^= static_cast<char>(1 + rng() % 255);
    write_bytes(dir / "f", bad);
    try {
      Opened opened(dir / "f");
      std::vector<std::byte> out(opened.file.plain_bytes());
      opened.file.read(0, out.size(), out.data());
      EXPECT_GE(round % 5, 3) << "only frames may be changed without notice; hashes of chunks are for them";
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Code::corrupt) << e.what();
      EXPECT_CONTAINS(std::string(e.what()), (dir / "f").string());
      ++refused;
    }
  }
  EXPECT_GE(refused, 300);
}

TEST(PackedFile, AnIndexWhoseHashIsRightAndWhoseWordsAreNotIsRefused) {
  const test::TemporaryDirectory dir;
  const auto refusal = [&](std::string index, std::uint64_t num_frames, std::uint64_t frame_bytes) {
    std::string text = "MTPACK1\n" + std::string(frame_bytes, 'q');
    const std::uint64_t at = text.size(), hash = xxh3(index);
    text += index;
    for (const auto v : {at, num_frames, hash}) text.append(reinterpret_cast<const char*>(&v), 8);
    write_bytes(dir / "f", text + "MTPACK1\n");
    return test::error_of([&] { Opened opened(dir / "f"); }, Code::corrupt);
  };
  const auto frame = [](std::uint8_t width, std::uint32_t plain, std::vector<std::uint32_t> sizes) {
    std::string s(1, static_cast<char>(width));
    s.append(reinterpret_cast<const char*>(&plain), 4);
    for (const auto n : sizes) s.append(reinterpret_cast<const char*>(&n), 4);
    return s;
  };
  EXPECT_CONTAINS(refusal(frame(1, 4, {3}), 2, 3), "fewer bytes than frames need");
  EXPECT_CONTAINS(refusal(frame(3, 4, {3, 3, 3}), 1, 9), "in 3 planes");
  EXPECT_CONTAINS(refusal(frame(2, 5, {1, 1}), 1, 2), "of 5 bytes");
  EXPECT_CONTAINS(refusal(frame(1, 0xFFFFFFFF, {3}), 1, 3), "of 4294967295 bytes");
  EXPECT_CONTAINS(refusal(frame(1, 4, {5}), 1, 5), "too long a plane");
  EXPECT_CONTAINS(refusal(frame(1, 4, {3}), 1, 4), "frames end at byte");
  EXPECT_CONTAINS(refusal(frame(8, 8, {1}), 1, 1), "ends early");
  EXPECT_CONTAINS(refusal(frame(1, 4, {3}) + "x", 1, 3), "left over");
}

class PackedCheckpoint : public ::testing::Test {
 protected:
  // A packed and a plain checkpoint of the same random layout.
  void SetUp() override {
    std::mt19937 rng(17);
    const auto layout = test::random_layout(tensors_, 3, rng);
    for (const bool packed : {true, false}) {
      const auto root = dir_ / (packed ? "packed" : "plain");
      WriteOptions options;
      options.codec = packed ? Codec::planes : Codec::none;
      test::write_layout(begin_save(root, 1), layout, 0, options);
      (packed ? packed_ : plain_) = commit(root, test::sample_meta(1, 3));
    }
  }
  test::TemporaryDirectory dir_;
  std::vector<TensorBox> tensors_ = test::sample_tensors();
  fs::path packed_, plain_;
};

TEST_F(PackedCheckpoint, AnyBoxReadsBackWithAndWithoutVerifyingOnOneOrMoreThreads) {
  std::mt19937 rng(23);
  for (const bool verify : {true, false})
    for (const int threads : {1, 3}) {
      const Reader reader(packed_, {threads, verify});
      for (int round = 0; round < 10; ++round) {
        std::vector<TensorBox> wanted;
        for (const auto& t : tensors_)
          for (const auto& b : test::random_cut(t.box, 1 + static_cast<int>(rng() % 8), rng)) {
            wanted.push_back(t);
            wanted.back().box = b;
          }
        test::expect_content(reader, wanted);
      }
    }
}

TEST_F(PackedCheckpoint, UnpackedItsFilesAreThoseOfAnUnpackedSave) {
  const auto m = read_manifest(packed_);
  ASSERT_EQ(m.files.size(), 3u);
  for (const auto& f : m.files) {
    EXPECT_EQ(f.codec, kPlaneCodecName);
    ASSERT_TRUE(f.name.ends_with(kPackedSuffix)) << f.name;
    EXPECT_EQ(f.bytes, fs::file_size(packed_ / f.name));
    Opened opened(packed_ / f.name);
    std::string out(opened.file.plain_bytes(), '\0');
    opened.file.read(0, out.size(), reinterpret_cast<std::byte*>(out.data()));
    EXPECT_EQ(out, read_file(plain_ / f.name.substr(0, f.name.size() - std::string(kPackedSuffix).size())));
  }
}

TEST_F(PackedCheckpoint, VerifyFindsEveryChangedByteOfAFrame) {
  EXPECT_TRUE(verify_checkpoint(packed_, 2).problems.empty());
  const auto path = packed_ / read_manifest(packed_).files[0].name;
  const auto good = read_file(path);
  std::mt19937 rng(5);
  int found = 0;
  for (int round = 0; round < 30; ++round) {
    auto bad = good;
    bad[8 + rng() % (good.size() - 8)] ^= static_cast<char>(1 + rng() % 255);
    write_bytes(path, bad);
    const auto report = verify_checkpoint(packed_, 2);
    const auto plain = read_file(plain_ / "data_00000.safetensors");
    bool right = true;  // spare bits of a zstd frame change nothing
    try {
      Opened opened(path);
      std::string out(opened.file.plain_bytes(), '\0');
      opened.file.read(0, out.size(), reinterpret_cast<std::byte*>(out.data()));
      const auto data = read_safetensors_header(plain_ / "data_00000.safetensors").data_start;
      right = out.substr(data) == plain.substr(data);
    } catch (const Error&) {
      right = false;
    }
    EXPECT_TRUE(right || !report.problems.empty()) << "round " << round;
    found += !report.problems.empty();
  }
  EXPECT_GE(found, 25);
}

TEST_F(PackedCheckpoint, ItIsReplacedAndRemovedAsAnyOther) {
  EXPECT_EQ(foreign_entry(packed_), "");
  WriteOptions options;
  options.codec = Codec::planes;
  test::write_layout(begin_save(dir_ / "packed", 1), test::one_rank(tensors_), 3, options);
  commit(dir_ / "packed", test::sample_meta(1, 1));
  std::vector<std::string> names;
  for (const auto& e : fs::directory_iterator(dir_ / "packed")) names.push_back(e.path().filename().string());
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names, (std::vector<std::string>{"iter_0000001", kTrackerName}));
  test::expect_content(Reader(packed_), tensors_, 3);
}

TEST_F(PackedCheckpoint, ACodecThisProgramDoesNotKnowIsNamed) {
  auto text = read_file(packed_ / kManifestName);
  const auto field = text.rfind(",\n \"xxh3\"");
  text = text.substr(0, field) + "}\n";
  for (std::size_t at; (at = text.find(kPlaneCodecName)) != std::string::npos;)
    text.replace(at, std::string(kPlaneCodecName).size(), "planes-lzma");
  EXPECT_CONTAINS(test::error_of([&] { (void)parse_manifest(text, "m"); }, Code::corrupt), "planes-lzma");
}

}  // namespace
}  // namespace mt
