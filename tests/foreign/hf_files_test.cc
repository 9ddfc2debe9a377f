// Directories of safetensors files: what an index may say, and what is refused before anything is read.

#include "foreign/hf_files.h"

#include <fstream>
#include <set>

#include "foreign/golden_files.h"
#include "foreign/small_models.h"

namespace mt {
namespace {

using test::TemporaryDirectory;

std::string error_of(const std::filesystem::path& dir, Code code) {
  try {
    HfWeights weights(dir);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), code) << e.what();
    return e.what();
  }
  return "no error";
}

TEST(HfFiles, AnIndexThatIsWrongIsRefused) {
  const TemporaryDirectory dir;
  test::write_small(test::small_models()[1], dir / "hf", 4000);
  const auto path = dir / "hf/model.safetensors.index.json";
  const Json index = read_json(path);
  const auto with = [&](const std::function<void(Json&)>& change) {
    Json j = index;
    change(j);
    write_file_atomic(path, j.dump());
    return error_of(dir / "hf", Code::corrupt);
  };
  const std::string first = index["weight_map"].begin().key();
  EXPECT_CONTAINS(with([&](Json& j) { j["weight_map"][first] = "../model-00001-of-00002.safetensors"; }), "outside the directory");
  EXPECT_CONTAINS(with([&](Json& j) { j["weight_map"][first] = 5; }), "is no name");
  EXPECT_CONTAINS(with([&](Json& j) { j["weight_map"].erase(first); }), "which the index does not name");
  EXPECT_CONTAINS(with([&](Json& j) { j["weight_map"]["ghost"] = j["weight_map"][first]; }), "ghost is not in");
  EXPECT_CONTAINS(with([&](Json& j) { j.erase("weight_map"); }), "no weight_map");
  write_file_atomic(path, index.dump());
  EXPECT_EQ(error_of(dir / "hf", Code::corrupt), "no error");
  const auto file = dir / "hf" / index["weight_map"][first].get<std::string>();
  std::filesystem::resize_file(file, std::filesystem::file_size(file) - 1);
  EXPECT_NE(error_of(dir / "hf", Code::corrupt), "no error");
  std::filesystem::remove(file);
  EXPECT_NE(error_of(dir / "hf", Code::io), "no error");
}

TEST(HfFiles, DirectoriesWithoutWeightsSayWhatIsThere) {
  const TemporaryDirectory dir;
  std::filesystem::create_directories(dir / "pickles");
  std::ofstream(dir / "pickles/pytorch_model.bin") << "x";
  EXPECT_CONTAINS(error_of(dir / "pickles", Code::corrupt), "is no file of torch.save");
  std::filesystem::create_directories(dir / "empty");
  EXPECT_CONTAINS(error_of(dir / "empty", Code::config), "no model.safetensors");
  EXPECT_NE(error_of(dir / "absent", Code::io), "no error");
}

TEST(HfFiles, FilesOfTorchAreReadAsSafetensorsAre) {
  const HfWeights safe(test::golden("hf/llama")), torch(test::golden("torch/llama_bin"));
  ASSERT_EQ(safe.tensors().size(), torch.tensors().size());
  for (const auto& [name, t] : safe.tensors()) {
    const auto& other = torch.tensors().at(name);
    ASSERT_EQ(other.entry.shape, t.entry.shape) << name;
    EXPECT_EQ(other.entry.dtype, t.entry.dtype);
    std::vector<std::byte> a(static_cast<std::size_t>(t.entry.end - t.entry.begin)), b(a.size());
    safe.read(name, whole(t.entry.shape), a.data());
    torch.read(name, whole(t.entry.shape), b.data());
    EXPECT_EQ(a, b) << name;
  }
}

TEST(HfFiles, AnIndexOfTorchFilesThatIsWrongIsRefused) {
  const TemporaryDirectory dir;
  std::filesystem::copy(test::golden("torch/llama_bin"), dir / "hf");
  const auto path = dir / "hf/pytorch_model.bin.index.json";
  const Json index = read_json(path);
  const auto with = [&](const std::function<void(Json&)>& change) {
    Json j = index;
    change(j);
    write_file_atomic(path, j.dump());
    return error_of(dir / "hf", Code::corrupt);
  };
  const std::string first = index["weight_map"].begin().key();
  EXPECT_CONTAINS(with([&](Json& j) { j["weight_map"][first] = "../pytorch_model-00001-of-00002.bin"; }), "outside the directory");
  EXPECT_CONTAINS(with([&](Json& j) { j["weight_map"].erase(first); }), "which the index does not name");
  EXPECT_CONTAINS(with([&](Json& j) { j["weight_map"]["ghost"] = j["weight_map"][first]; }), "ghost is not in");
  EXPECT_EQ(with([](Json&) {}), "no error");
  write_file_atomic(dir / "hf/pytorch_model-00002-of-00002.bin", read_file(dir / "hf/pytorch_model-00001-of-00002.bin"));
  EXPECT_CONTAINS(error_of(dir / "hf", Code::corrupt), "which the index has elsewhere");
}

TEST(HfFiles, NothingIsReplacedWithoutForceAndOldShardsGoWithIt) {
  const TemporaryDirectory dir;
  test::write_small(test::small_models()[1], dir / "hf", 4000);
  EXPECT_THROW(test::write_small(test::small_models()[1], dir / "hf"), Error);
  const HfTensor one{"a", DType::f32, {2}};
  write_hf({dir / "hf", 1 << 20, true}, {&one, 1}, Json{{"model_type", "x"}}, [](std::size_t, std::uint64_t, std::uint64_t, std::byte* out) {
    for (int i = 0; i < 8; ++i) out[i] = std::byte{0};
  });
  std::set<std::string> left;
  for (const auto& e : std::filesystem::directory_iterator(dir / "hf")) left.insert(e.path().filename().string());
  EXPECT_EQ(left, (std::set<std::string>{"config.json", "model.safetensors"}));
}

}  // namespace
}  // namespace mt
