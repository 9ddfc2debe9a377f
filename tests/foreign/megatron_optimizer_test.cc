// What Megatron Core's optimizers kept of each parameter, in every form it was saved in: each moment and master weight is where
// it was in the whole model, and where the run stood comes along. The files were written by the package's own optimizers
// (tests/golden/make_megatron_optimizer.py).

#include "foreign/megatron_optimizer.h"

#include <functional>

#include "base/temporary_directory.h"
#include "foreign/expected_tensors.h"
#include "foreign/megatron_buffers.h"
#include "foreign/megatron_convert.h"

namespace mt {
namespace {

namespace fs = std::filesystem;
using test::golden;
using test::TemporaryDirectory;

fs::path of_case(const std::string& name) { return golden("megatron_optimizer") / name; }

TEST(MegatronOptimizer, EveryMomentAndMasterWeightOfEveryFormIsWhereItWas) {
  for (const char* name : {"torch", "torch-interleaved", "torch-f32", "torch-experts", "torch-distributed", "torch-distributed-interleaved", "dist", "dist-f32",
                           "dist-experts", "dist-fully", "dist-buckets", "dist-gathered"}) {
    SCOPED_TRACE(name);
    const TemporaryDirectory dir;
    const auto done = import_megatron({of_case(name), dir / "native", std::nullopt, std::nullopt, "test"});
    EXPECT_EQ(test::tensors_of_checkpoint(done.path, test::kind_and_name_of),
              test::read_expected(of_case(name) / "expected.tsv"));
    const Reader reader(done.path);
    const auto& meta = reader.manifest().meta;
    EXPECT_EQ(meta.iteration, 3);
    EXPECT_EQ(meta.consumed_samples, 24);
    EXPECT_EQ(meta.specs["optimizer"], "adam");
    EXPECT_EQ(meta.training["optimizer_steps"], 3);
    EXPECT_EQ(meta.training["schedule_samples"], 24);
    EXPECT_EQ(meta.training["seed"], 4321);
    EXPECT_EQ(meta.training["lr_schedule"]["max_lr"], 0.01);
    EXPECT_EQ(meta.training["lr_schedule"]["warmup_samples"], 16);
    EXPECT_EQ(meta.training["lr_schedule"]["decay_samples"], 80);
    EXPECT_EQ(meta.training["lr_schedule"]["style"], 2) << "cosine";
  }
}

TEST(MegatronOptimizer, StaysBehindOnRequest) {
  const TemporaryDirectory dir;
  for (const char* name : {"torch", "dist-buckets"}) {
    const auto done = import_megatron({of_case(name), dir / name, std::nullopt, std::nullopt, "test", true});
    EXPECT_CONTAINS(done.notices.back(), "optimizer state is left behind");
    const Reader reader(done.path);
    for (const auto& t : reader.manifest().tensors) EXPECT_EQ(t.kind, "weight");
  }
}

// What is said of a golden checkpoint after a change; nothing is written then.
std::string error_of(const std::string& name, const std::function<void(const fs::path& iteration)>& change) {
  const TemporaryDirectory dir;
  fs::copy(of_case(name), dir / "from", fs::copy_options::recursive);
  change(dir / "from/iter_0000003");
  try {
    import_megatron({dir / "from", dir / "native", std::nullopt, std::nullopt, "test"});
  } catch (const Error& e) {
    EXPECT_FALSE(fs::exists(dir / "native"));
    return std::string(e.what()) + " " + e.hint();
  }
  ADD_FAILURE() << "was taken: " << name;
  return "";
}

std::size_t replace_all(std::string& text, const std::string& from, const std::string& to) {
  std::size_t n = 0;
  for (auto at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()), ++n) text.replace(at, to.size(), to);
  return n;
}

// In the pickle of a file of torch.save, whose checksum is made one that is not compared.
void replace_in(const fs::path& file, const std::string& from, const std::string& to) {
  auto text = test::read_text(file);
  ASSERT_EQ(from.size(), to.size());
  for (const auto& e : read_zip_directory(test::bytes_of_text(text), file.string()))
    if (e.name.ends_with("data.pkl")) replace_all(text, std::string(reinterpret_cast<const char*>(&e.crc), 4), std::string(4, '\0'));
  ASSERT_GT(replace_all(text, from, to), 0u) << from;
  test::write_text(file, text);
}

TEST(MegatronOptimizer, WhatIsNotReadIsNamedWithTheWayAroundIt) {
  EXPECT_CONTAINS(error_of("dist-fully-stages", [](const fs::path&) {}), "embedding.word_embeddings.weight (master) does not round to its weight");
  const auto file = "mp_rank_00_000/model_optim_rng.pt";
  EXPECT_CONTAINS(error_of("torch", [&](const fs::path& d) { replace_in(d / file, "exp_avg_sq", "momentum__"); }), "--weights-only");
  EXPECT_CONTAINS(error_of("torch", [&](const fs::path& d) { replace_in(d / file, "wd_mult", "wd_none"); }), "without wd_mult");
  EXPECT_CONTAINS(error_of("torch", [&](const fs::path& d) { replace_in(d / file, "opt_param_scheduler", "opt_param_schedulex"); }), "no opt_param_scheduler");
  EXPECT_CONTAINS(error_of("torch", [&](const fs::path& d) { replace_in(d / "mp_rank_01_000/model_optim_rng.pt", "input_layernorm", "inpux_layernorm"); }), "--weights-only");
  EXPECT_CONTAINS(error_of("torch-distributed", [&](const fs::path& d) { fs::remove(d / "mp_rank_01_001/distrib_optim.pt"); }), "distrib_optim.pt");
  EXPECT_CONTAINS(error_of("torch-distributed", [&](const fs::path& d) { fs::copy_file(d / "mp_rank_00_001/distrib_optim.pt", d / "mp_rank_00_000/distrib_optim.pt", fs::copy_options::overwrite_existing); }),
                  "--weights-only");
  // Another rank's values in the same places: sizes agree, and master weights do not round to the weights.
  EXPECT_CONTAINS(error_of("torch-distributed", [&](const fs::path& d) { fs::copy_file(d / "mp_rank_00_001/distrib_optim.pt", d / "mp_rank_01_001/distrib_optim.pt", fs::copy_options::overwrite_existing); }),
                  "differ");
}

// Worked out by hand from Megatron Core's rule.
TEST(MegatronOptimizer, FlatBuffersGoFromTheLastParameterToTheFirstInStepsOf64) {
  const std::vector<FlatParam> params = {{"a", {10, 10}}, {"b", {7}}, {"c", {64}}};
  auto l = flat_layout(params, std::nullopt);
  EXPECT_EQ(l.buckets, (std::vector<std::int64_t>{228}));
  EXPECT_EQ(l.begin_of(2), 0);
  EXPECT_EQ(l.begin_of(1), 64);
  EXPECT_EQ(l.begin_of(0), 128);
  l = flat_layout(params, 70);
  EXPECT_EQ(l.buckets, (std::vector<std::int64_t>{71, 100}));
  EXPECT_EQ(l.places[0].bucket, 1u);
  EXPECT_EQ(l.begin_of(0), 71) << "what pads a bucket at its end is left out";
  // A table with a bucket of its own ends the one before at a multiple of 64.
  const std::vector<FlatParam> tied = {{"table", {8, 8}, true}, {"b", {7}}, {"c", {64}}};
  l = flat_layout(tied, std::nullopt);
  EXPECT_EQ(l.buckets, (std::vector<std::int64_t>{128, 64}));
  EXPECT_TRUE(flat_layout_of(tied, l.buckets).has_value());
  EXPECT_FALSE(flat_layout_of(tied, std::vector<std::int64_t>{70, 64}).has_value());
  EXPECT_TRUE(flat_layout_of(params, std::vector<std::int64_t>{71, 100}).has_value());
  EXPECT_FALSE(flat_layout_of(params, std::vector<std::int64_t>{71, 99}).has_value());
}

}  // namespace
}  // namespace mt
