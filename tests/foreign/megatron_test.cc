// Checkpoints that Megatron Core wrote, of both formats and several layouts: every tensor has the bytes it had in the whole
// model; what is damaged or missing is named and leaves nothing; what is written back is the same again.

#include "foreign/megatron_convert.h"

#include <functional>

#include "base/temporary_directory.h"
#include "foreign/expected_tensors.h"
#include "foreign/megatron_export.h"
#include "layout/model_spec.h"

namespace mt {
namespace {

namespace fs = std::filesystem;
using test::golden;
using test::TemporaryDirectory;

MegatronImport import_of(const fs::path& from, const fs::path& to) { return {from, to, std::nullopt, std::nullopt, "test"}; }

TEST(Megatron, EveryTensorOfBothFormatsIsTheWholeModels) {
  for (const char* model : {"gqa", "classic", "experts", "qk", "experts-etp", "grouped"})
    for (const char* format : {"legacy", "dist"}) {
      SCOPED_TRACE(std::string(model) + " " + format);
      const TemporaryDirectory dir;
      const auto done = import_megatron(import_of(golden("megatron") / model / format, dir / "native"));
      EXPECT_EQ(done.path.filename(), "iter_0000005");
      EXPECT_EQ(test::tensors_of_checkpoint(done.path), test::read_expected(golden("megatron") / model / "expected.tsv"));
      const Reader reader(done.path);
      EXPECT_EQ(reader.manifest().meta.consumed_samples, 40);
      const auto spec = model_from_json(reader.manifest().meta.specs["model"], "");
      EXPECT_EQ(spec.vocab_size, 37);
      EXPECT_EQ(spec.tied, std::string(model) == "gqa");
      EXPECT_EQ(spec.learned_positions, std::string(model) == "classic");
      EXPECT_EQ(reader.manifest().meta.specs["megatron"]["args"]["params_dtype"], "<torch.float32>");
    }
}

// Files of the package whose tensors were given other names by hand.
TEST(Megatron, NamesOfTransformerEngineAndOfOldModelsAreTheSameTensors) {
  for (const char* names : {"fused", "old"}) {
    SCOPED_TRACE(names);
    const TemporaryDirectory dir;
    const auto done = import_megatron(import_of(golden("megatron/qk") / names, dir / "native"));
    EXPECT_EQ(test::tensors_of_checkpoint(done.path), test::read_expected(golden("megatron/qk/expected.tsv")));
  }
}

TEST(Megatron, ASummaryIsOfHeadersAlone) {
  const auto s = megatron_summary(golden("megatron/gqa/legacy"), std::nullopt);
  EXPECT_EQ(s.format, "megatron");
  EXPECT_EQ(s.iteration, 5);
  EXPECT_EQ(s.layout["tensor_model_parallel_size"], 2);
  EXPECT_EQ(s.layout["pipeline_model_parallel_size"], 2);
  EXPECT_EQ(s.layout["virtual_pipeline_model_parallel_size"], 2);
  EXPECT_EQ(s.layout["optimizer"], false);
  const auto& t = s.tensors.at("mp_rank_01_001/decoder.layers.3.mlp.linear_fc2.weight");
  EXPECT_EQ(t.shape, (Dims{16, 12})) << "the last of four layers, in the second chunk of the second stage";
  EXPECT_EQ(megatron_summary(golden("megatron/gqa/dist"), std::nullopt).tensors.at("decoder.layers.mlp.linear_fc1.weight").shape, (Dims{4, 48, 16}));
}

class Damaged : public ::testing::Test {
 protected:
  // What is said of a golden checkpoint after a change, when nothing is written.
  std::string error_of(const char* format, const std::function<void(const fs::path& iteration)>& change) {
    const TemporaryDirectory dir;
    fs::copy(golden("megatron/gqa") / format, dir / "from", fs::copy_options::recursive);
    change(dir / "from/iter_0000005");
    try {
      import_megatron(import_of(dir / "from", dir / "native"));
    } catch (const Error& e) {
      EXPECT_FALSE(fs::exists(dir / "native/iter_0000005"));
      EXPECT_FALSE(fs::exists(dir / "native/latest_checkpointed_iteration.txt"));
      return e.what();
    }
    return "no error";
  }
  static void replace(const fs::path& file, const std::string& what, const std::string& by, std::size_t from = 0) {
    std::string text = test::read_text(file);
    const auto at = text.find(what, from);
    ASSERT_NE(at, std::string::npos) << what;
    text.replace(at, what.size(), by);
    test::write_text(file, text);
  }
};

TEST_F(Damaged, LegacyRanksThatAreMissingCutOrChangedAreNamed) {
  EXPECT_EQ(error_of("legacy", [](const fs::path&) {}), "no error");
  EXPECT_CONTAINS(error_of("legacy", [](const fs::path& it) { fs::remove_all(it / "mp_rank_01_000"); }), "rank tp 1, pp 0, ep 0 is missing");
  EXPECT_CONTAINS(error_of("legacy", [](const fs::path& it) { fs::rename(it / "mp_rank_01_001", it / "mp_rank_02_001"); }), "is missing");
  EXPECT_CONTAINS(error_of("legacy", [](const fs::path& it) { fs::remove(it / "mp_rank_01_001/model_optim_rng.pt"); }), "model_optim_rng.pt");
  EXPECT_CONTAINS(error_of("legacy", [](const fs::path& it) { fs::resize_file(it / "mp_rank_01_001/model_optim_rng.pt", 9000); }), "it is cut");
  EXPECT_CONTAINS(error_of("legacy", [](const fs::path& it) {
    const auto f = it / "mp_rank_00_001/model_optim_rng.pt";
    std::string text = test::read_text(f);
    const auto at = text.find("data/3") + 120;
    text[at] = static_cast<char>(text[at] ^ 1);
    test::write_text(f, text);
  }), "checksum");
  EXPECT_CONTAINS(error_of("legacy", [](const fs::path& it) { fs::rename(it / "mp_rank_01_001", it / "mp_rank_999999_999999"); }), "rank tp 0, pp 2, ep 0 is missing; ");
  EXPECT_CONTAINS(error_of("legacy", [](const fs::path& it) {
    fs::copy_file(it / "mp_rank_00_001/model_optim_rng.pt", it / "mp_rank_00_000/model_optim_rng.pt", fs::copy_options::overwrite_existing);
  }), "mp_rank_00_000/embedding.word_embeddings.weight is missing");
  EXPECT_CONTAINS(error_of("legacy", [](const fs::path& it) { test::write_text(it / "mp_rank_00_000/model_optim_rng.pt", "version https://git-lfs.github.com/spec/v1\n"); }), "Git LFS");
}

TEST_F(Damaged, DistFilesThatAreMissingCutOrElsewhereAreNamed) {
  EXPECT_EQ(error_of("dist", [](const fs::path&) {}), "no error");
  EXPECT_CONTAINS(error_of("dist", [](const fs::path& it) { fs::remove(it / "__1_0.distcp"); }), "__1_0.distcp");
  EXPECT_CONTAINS(error_of("dist", [](const fs::path& it) { fs::resize_file(it / "__1_0.distcp", fs::file_size(it / "__1_0.distcp") - 1); }), "it is cut");
  EXPECT_CONTAINS(error_of("dist", [](const fs::path& it) { replace(it / ".metadata", "__1_0.distcp", "../_0.distcp"); }), "outside the directory");
  EXPECT_CONTAINS(error_of("dist", [](const fs::path& it) { fs::resize_file(it / ".metadata", 9000); }), ".metadata, byte");
  EXPECT_CONTAINS(error_of("dist", [](const fs::path& it) { test::write_text(it / ".metadata", test::read_text(it / ".metadata") + "more"); }), "4 bytes behind the pickle");
  EXPECT_CONTAINS(error_of("dist", [](const fs::path& it) { fs::remove(it / "common.pt"); }), "holds no args");
  EXPECT_CONTAINS(error_of("dist", [](const fs::path& it) { fs::remove(it / ".metadata"); }), ".metadata");
  EXPECT_CONTAINS(error_of("dist", [](const fs::path& it) { replace(it / "metadata.json", "torch_dist", "zarr"); }), "zarr");
  EXPECT_CONTAINS(error_of("dist", [](const fs::path& it) { replace(it / ".metadata", "decoder.final_layernorm.weight", "decoder.final_layernorm.weighs"); }), "final_layernorm");
}

// Every byte of .metadata changed, one after the other: an answer each time.
TEST_F(Damaged, AChangedByteOfTheMetadataIsNeverFollowedOutOfAFile) {
  const TemporaryDirectory dir;
  fs::copy(golden("megatron/classic/dist"), dir / "from", fs::copy_options::recursive);
  const auto file = dir / "from/iter_0000005/.metadata";
  const std::string good = test::read_text(file);
  for (std::size_t i = 0; i < good.size(); i += 41) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 0x15);
    test::write_text(file, bad);
    try {
      const auto s = megatron_summary(dir / "from", std::nullopt);
    } catch (const Error&) {
    }
  }
}

TEST(Megatron, WhatIsWrittenInAnyLayoutIsTheSameAgain) {
  struct Case {
    const char* model;
    MegatronExport how;
  };
  const std::vector<Case> cases{{"gqa", {"", false, 1, 1, 1, true}},     {"gqa", {"", false, 2, 2, 1, false}}, {"gqa", {"", false, 4, 1, 1, true}},
                                {"gqa", {"", true, 1, 1, 1, true}},      {"classic", {"", false, 4, 2, 1, true}}, {"classic", {"", true, 1, 1, 1, true}},
                                {"experts", {"", false, 2, 2, 2, true}}, {"experts", {"", false, 1, 1, 4, false}}, {"experts", {"", true, 1, 1, 1, true}}};
  for (const auto& c : cases) {
    SCOPED_TRACE(fmt::format("{} dist {} tp {} pp {} ep {}", c.model, c.how.dist, c.how.tp, c.how.pp, c.how.ep));
    const TemporaryDirectory dir;
    const Reader reader(import_megatron(import_of(golden("megatron") / c.model / "dist", dir / "native")).path);
    MegatronExport how = c.how;
    how.root = dir / "megatron";
    export_megatron(reader, how);
    EXPECT_THROW(export_megatron(reader, how), Error) << "it is there";
    const auto again = import_megatron(import_of(how.root, dir / "again"));
    EXPECT_EQ(test::tensors_of_checkpoint(again.path), test::read_expected(golden("megatron") / c.model / "expected.tsv"));
    EXPECT_EQ(model_difference(model_from_json(Reader(again.path).manifest().meta.specs["model"], ""),
                               model_from_json(reader.manifest().meta.specs["model"], "")), "");
  }
}

TEST(Megatron, SizesThatDoNotDivideAreRefusedAndNothingIsLeft) {
  const TemporaryDirectory dir;
  const Reader reader(import_megatron(import_of(golden("megatron/gqa/dist"), dir / "native")).path);
  for (const auto& [tp, pp, ep] : {std::tuple(3, 1, 1), std::tuple(1, 3, 1)}) {
    MegatronExport how{dir / "out", false, tp, pp, ep};
    EXPECT_THROW(export_megatron(reader, how), Error);
    EXPECT_FALSE(fs::exists(dir / "out/latest_checkpointed_iteration.txt"));
    EXPECT_FALSE(fs::exists(dir / "out/iter_0000005"));
  }
  EXPECT_THROW(export_megatron(reader, {dir / "native", false}), Error) << "a directory of ours";
}

}  // namespace
}  // namespace mt
