#include "foreign/foreign_tensors.h"

#include "base/temporary_directory.h"
#include "ckpt/diff.h"
#include "ckpt/tensor_scan.h"
#include "foreign/gguf_convert.h"
#include "foreign/golden_files.h"
#include "foreign/hf_convert.h"
#include "foreign/megatron_convert.h"
#include "foreign/meta_files.h"

namespace mt {
namespace {

using test::golden;

std::size_t num_differences(const TensorSource& a, const TensorSource& b) {
  std::size_t n = 0;
  diff_tensors(a, b, {{"weight"}}, [&](const TensorDifference& d) {
    EXPECT_EQ(d.text, "") << d.name;
    n += d.kind_of != TensorDifference::Kind::same ? 1 : 0;
    return true;
  });
  return n;
}

// One model as four programs have it, each cut and ordered in its own way.
TEST(ForeignTensors, AreEqualUnderOurNamesWhoeverHasThem) {
  const ForeignModel hf = open_hf(golden("hf/llama")), bin = open_hf(golden("torch/llama_bin")), meta = open_meta(golden("torch/llama_meta")),
                     gguf = open_gguf(golden("gguf/llama.gguf"));
  const ForeignTensors a(hf.tensors, hf.what), b(bin.tensors, bin.what), c(meta.tensors, meta.what), d(gguf.tensors, gguf.what);
  EXPECT_EQ(a.tensors().size(), 21u);
  for (const TensorSource* other : {static_cast<const TensorSource*>(&b), static_cast<const TensorSource*>(&c), static_cast<const TensorSource*>(&d)}) {
    EXPECT_EQ(other->tensors().size(), a.tensors().size());
    EXPECT_EQ(num_differences(a, *other), 0u);
  }
  for (const char* model : {"gqa", "classic", "experts"}) {
    const ForeignModel ranks = open_megatron(golden("megatron") / model / "legacy", std::nullopt), dist = open_megatron(golden("megatron") / model / "dist", std::nullopt);
    EXPECT_EQ(num_differences(ForeignTensors(ranks.tensors, ranks.what), ForeignTensors(dist.tensors, dist.what)), 0u) << model;
  }
}

TEST(ForeignTensors, AndTheCheckpointMadeOfThemIsTheSame) {
  const test::TemporaryDirectory dir;
  const auto from = golden("megatron/gqa/legacy");
  const ForeignModel model = open_megatron(from, std::nullopt);
  const ForeignTensors theirs(model.tensors, model.what);
  const Reader reader(import_megatron({from, dir / "native", std::nullopt, std::nullopt, "test"}).path);
  EXPECT_EQ(num_differences(theirs, CheckpointTensors(reader)), 0u);
  // Boxes that cut through parts.
  const auto* t = theirs.find("decoder.layers.1.self_attention.linear_q.weight", "weight");
  ASSERT_NE(t, nullptr);
  const Box part{{3, 5}, {9, 7}};
  std::vector<float> some(63), all(256);
  theirs.read(*t, part, reinterpret_cast<std::byte*>(some.data()));
  theirs.read(*t, whole(t->shape), reinterpret_cast<std::byte*>(all.data()));
  for (std::size_t i = 0; i < some.size(); ++i) EXPECT_EQ(some[i], all[(3 + i / 7) * 16 + 5 + i % 7]);
}

}  // namespace
}  // namespace mt
