// Models as Meta publishes its own, of two ranks: the same weights as the model of Hugging Face they were made of.

#include "foreign/meta_files.h"

#include "base/temporary_directory.h"
#include "foreign/expected_tensors.h"
#include "foreign/hf_convert.h"
#include "foreign/rotary_rows.h"

namespace mt {
namespace {

namespace fs = std::filesystem;
using test::golden;
using test::TemporaryDirectory;

TEST(MetaFiles, TwoRanksAreTheModelTheyWereMadeOf) {
  const TemporaryDirectory dir;
  const auto of_meta = import_meta({golden("torch/llama_meta"), dir / "meta", 3, "test"});
  const auto of_hf = import_hf({golden("hf/llama"), dir / "hf", 3, "test"});
  EXPECT_EQ(test::tensors_of_checkpoint(of_meta.path), test::tensors_of_checkpoint(of_hf.path));
  auto spec = model_from_json(Reader(of_meta.path).manifest().meta.specs["model"], "");
  EXPECT_EQ(spec.max_positions, 4096);
  EXPECT_CONTAINS(of_meta.notices.front(), "does not say the longest sequence");
  spec.max_positions = 32;
  EXPECT_EQ(model_difference(spec, model_from_json(Reader(of_hf.path).manifest().meta.specs["model"], "")), "");
}

TEST(MetaFiles, RowsInPairsAreAPermutationOfRowsInHalves) {
  // Of a head of six features: 0 3 | 1 4 | 2 5 lie side by side.
  const std::vector<std::int64_t> expected{0, 2, 4, 1, 3, 5, 6, 8, 10, 7, 9, 11};
  for (std::size_t r = 0; r < expected.size(); ++r) EXPECT_EQ(row_in_pairs(static_cast<std::int64_t>(r), 6), expected[r]);
}

TEST(MetaFiles, RanksAndTensorsThatAreMissingAreNamed) {
  const auto error = [](const std::function<void(const fs::path&)>& change) {
    const TemporaryDirectory dir;
    fs::copy(golden("torch/llama_meta"), dir / "from", fs::copy_options::recursive);
    change(dir / "from");
    try {
      import_meta({dir / "from", dir / "native", 0, "test"});
    } catch (const Error& e) {
      EXPECT_FALSE(fs::exists(dir / "native/latest_checkpointed_iteration.txt"));
      return std::string(e.what());
    }
    return std::string("no error");
  };
  const auto with = [](const char* key, const Json& value) {
    return [key, value](const fs::path& p) {
      Json j = read_json(p / "params.json");
      j[key] = value;
      write_file_atomic(p / "params.json", j.dump());
    };
  };
  EXPECT_EQ(error([](const fs::path&) {}), "no error");
  EXPECT_CONTAINS(error([](const fs::path& p) { fs::remove(p / "consolidated.00.pth"); }), "consolidated.00.pth");
  EXPECT_NE(error([](const fs::path& p) { fs::remove(p / "consolidated.01.pth"); }), "no error");
  EXPECT_CONTAINS(error(with("n_layers", 1)), "layers.1.attention.wk.weight is left over");
  EXPECT_CONTAINS(error(with("n_layers", 3)), "layers.2.");
  EXPECT_CONTAINS(error(with("moe", Json::object())), "moe is not represented");
  EXPECT_CONTAINS(error(with("dim", -1)), "dim is -1");
  EXPECT_NE(error(with("n_kv_heads", 4)), "no error");
}

}  // namespace
}  // namespace mt
