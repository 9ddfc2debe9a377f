// Models as transformers wrote them (tests/golden/make_hf_models.py, make_hf_families.py), there and back byte by byte; and matrices
// in e4m3 by blocks, as PyTorch multiplies them out.

#include <cstdlib>
#include <fstream>

#include "foreign/hf_block_scales.h"
#include "foreign/hf_convert.h"
#include "foreign/small_models.h"

namespace mt {
namespace {

using test::TemporaryDirectory;

class HfGolden : public testing::Test {
 protected:
  void SetUp() override {
    const char* source = std::getenv("MT_TEST_SOURCE");
    if (source == nullptr || *source == '\0') GTEST_SKIP() << "MT_TEST_SOURCE names no source tree; ctest sets it";
    golden_ = std::filesystem::path(source) / "tests/golden/hf";
  }
  std::filesystem::path golden_;
};

std::vector<std::byte> bytes_of(const HfWeights& w, const std::string& name) {
  const auto& e = w.tensors().at(name).entry;
  std::vector<std::byte> out(static_cast<std::size_t>(e.end - e.begin));
  w.read(name, whole(e.shape), out.data());
  return out;
}

void expect_same(const HfWeights& a, const HfWeights& b) {
  EXPECT_EQ(a.tensors().size(), b.tensors().size());
  for (const auto& [name, t] : a.tensors()) {
    ASSERT_EQ(b.tensors().count(name), 1u) << name;
    EXPECT_EQ(t.entry.dtype_text, b.tensors().at(name).entry.dtype_text) << name;
    EXPECT_EQ(t.entry.shape, b.tensors().at(name).entry.shape) << name;
    EXPECT_TRUE(bytes_of(a, name) == bytes_of(b, name)) << name;
  }
}

TEST_F(HfGolden, EveryModelComesBackByteByByteWithItsConfig) {
  int models = 0;
  for (const auto& at : std::filesystem::directory_iterator(golden_)) {
    const auto name = at.path().filename().string();
    if (!at.is_directory() || name.ends_with("-fp8")) continue;
    SCOPED_TRACE(name);
    const TemporaryDirectory dir;
    const Reader reader(import_hf({at.path(), dir / "native", 0, "test"}).path);
    export_hf(reader, {{dir / "back"}, "", std::nullopt});
    expect_same(HfWeights(at.path()), HfWeights(dir / "back"));
    EXPECT_EQ(read_json(dir / "back/config.json").dump(), read_json(at.path() / "config.json").dump());
    ++models;
  }
  EXPECT_GE(models, 10);
}

// Every tensor taken away, and one that nobody knows: named, and nothing is written.
TEST_F(HfGolden, ATensorThatIsMissingOrLeftOverIsNamed) {
  for (const auto& at : std::filesystem::directory_iterator(golden_)) {
    const auto name = at.path().filename().string();
    if (!at.is_directory() || name.ends_with("-fp8")) continue;
    SCOPED_TRACE(name);
    const HfWeights whole_model(at.path());
    std::vector<std::string> names;
    for (const auto& [n, t] : whole_model.tensors()) names.push_back(n);
    for (const std::string& changed : {names.front(), names[names.size() / 2], names.back()})
      for (const bool renamed : {false, true}) {
        const TemporaryDirectory dir;
        std::vector<HfTensor> tensors;
        std::vector<std::string> from;
        for (const auto& [n, t] : whole_model.tensors()) {
          if (n == changed && !renamed) continue;
          from.push_back(n);
          tensors.push_back({n == changed ? n + "x" : n, *t.entry.dtype, t.entry.shape});
        }
        write_hf({dir / "hf"}, tensors, read_json(at.path() / "config.json"), [&](std::size_t i, std::uint64_t begin, std::uint64_t end, std::byte* out) {
          const auto bytes = bytes_of(whole_model, from[i]);
          std::copy(bytes.begin() + static_cast<std::ptrdiff_t>(begin), bytes.begin() + static_cast<std::ptrdiff_t>(end), out);
        });
        try {
          import_hf({dir / "hf", dir / "native", 0, "test"});
          ADD_FAILURE() << "converted without " << changed;
        } catch (const Error& e) {
          EXPECT_EQ(e.code(), Code::config);
          EXPECT_CONTAINS(std::string(e.what()), changed + " is missing");
          if (renamed) {
            EXPECT_CONTAINS(std::string(e.what()), changed + "x is left over");
          }
          EXPECT_FALSE(std::filesystem::exists(dir / "native/latest_checkpointed_iteration.txt"));
        }
      }
  }
}

TEST_F(HfGolden, MatricesByBlocksAreMultipliedOutAsPytorchDoes) {
  const TemporaryDirectory dir;
  const auto from = golden_ / "deepseek_v3-fp8";
  const auto in = import_hf({from, dir / "native", 0, "test"});
  ASSERT_EQ(in.notices.size(), 1u);
  EXPECT_CONTAINS(in.notices[0], "in e4m3 by blocks become bf16");
  export_hf(Reader(in.path), {{dir / "back"}, "", std::nullopt});
  std::filesystem::create_directory(dir / "expected");
  std::filesystem::copy_file(from / "expected.safetensors", dir / "expected/model.safetensors");
  expect_same(HfWeights(dir / "expected"), HfWeights(dir / "back"));
  EXPECT_FALSE(read_json(dir / "back/config.json").contains("quantization_config"));
  // Read by boxes that begin within a block.
  const HfWeights weights(from);
  const BlockScales scales(read_json(from / "config.json"), weights);
  const std::string name = "model.layers.0.self_attn.kv_b_proj.weight";
  std::vector<bf16> part(3 * 4);
  scales.read(name, {{15, 2}, {3, 4}}, part.data());
  const auto all = bytes_of(HfWeights(dir / "expected"), name);
  for (std::size_t r = 0; r < 3; ++r) EXPECT_EQ(std::memcmp(&part[4 * r], all.data() + 2 * ((15 + r) * 8 + 2), 8), 0);
}

TEST_F(HfGolden, ScalesThatDoNotFitTheirMatrixAreRefused) {
  const TemporaryDirectory dir;
  const auto from = golden_ / "deepseek_v3-fp8";
  std::filesystem::copy(from, dir / "hf");
  Json config = read_json(from / "config.json");
  const auto error = [&](const Json& sizes) -> std::string {
    config["quantization_config"]["weight_block_size"] = sizes;
    write_file_atomic(dir / "hf/config.json", config.dump());
    try {
      import_hf({dir / "hf", dir / "native", 0, "test"});
    } catch (const Error& e) {
      return e.what();
    }
    return "converted";
  };
  EXPECT_CONTAINS(error({16, 8}), "q_a_proj.weight_scale_inv is F32 of shape [2, 2], blocks of 16 by 8 need F32 [1, 2]");
  EXPECT_CONTAINS(error({0, 8}), "weight_block_size is 0 by 8");
  EXPECT_CONTAINS(error({8}), "not two numbers");
  EXPECT_CONTAINS(error("eight"), "weight_block_size");
}

TEST(HfConvert, NamesOfOldAreReadAndGivenBack) {
  const TemporaryDirectory dir;
  const auto& bert = test::small_model("bert");
  const Json config = parse_json(bert.config, "");
  const HfModel model = read_hf_config(config, "");
  std::vector<HfTensor> tensors;
  for (const auto& t : hf_tensor_map(*model.family, model.spec, "bert.")) {
    std::string name = t.name;
    if (name.ends_with("LayerNorm.weight")) name.replace(name.size() - 6, 6, "gamma");
    if (name.ends_with("LayerNorm.bias")) name.replace(name.size() - 4, 4, "beta");
    tensors.push_back({name, DType::f32, t.shape});
  }
  tensors.push_back({"cls.predictions.decoder.weight", DType::f32, tensors[0].shape});
  tensors.push_back({"bert.embeddings.position_ids", DType::i64, {1, 32}});
  write_hf({dir / "hf"}, tensors, config, [&](std::size_t i, std::uint64_t begin, std::uint64_t end, std::byte* out) {
    const auto& name = tensors[i + 2 == tensors.size() ? 0 : i].name;
    for (auto at = begin; at < end; ++at) *out++ = test::hf_byte(name, at);
  });
  const auto in = import_hf({dir / "hf", dir / "native", 0, "test"});
  EXPECT_EQ(in.tensors, tensors.size() - 2);
  export_hf(Reader(in.path), {{dir / "back"}, "", std::nullopt});
  EXPECT_EQ(test::wrong_bytes(dir / "back"), std::make_pair(std::int64_t{0}, tensors.size() - 2));
}

}  // namespace
}  // namespace mt
