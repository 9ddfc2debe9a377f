// GGUF files as their own package writes them: tensors element by element; what is cut or says what no file has is refused.

#include "foreign/gguf_convert.h"

#include <cstring>

#include "base/temporary_directory.h"
#include "foreign/expected_tensors.h"
#include "foreign/gguf_file.h"
#include "foreign/hf_convert.h"
#include "foreign/torch_bytes.h"

namespace mt {
namespace {

using test::bytes_of_text;
using test::golden;
using test::le;
using test::TemporaryDirectory;

TEST(Gguf, BlocksOfEightBitsBecomeTheNumbersThatTheirPackageMakes) {
  const GgufFile file(golden("gguf/blocks.gguf"));
  const auto expected = test::read_expected(golden("gguf/blocks.tsv"));
  EXPECT_EQ(file.tensors().size(), expected.size());
  for (const auto& [name, t] : file.tensors()) {
    SCOPED_TRACE(name);
    std::vector<float> all(static_cast<std::size_t>(num_elements(t.shape)));
    file.read(name, whole(t.shape), reinterpret_cast<std::byte*>(all.data()));
    EXPECT_EQ(fmt::format("{:08x}", zip_crc(0, std::as_bytes(std::span(all)))), expected.at(name).crc);
    if (t.shape.size() != 2) continue;
    // A box that begins and ends inside blocks and rows.
    const Box box{{1, 5}, {t.shape[0] - 2, t.shape[1] - 9}};
    std::vector<float> some(static_cast<std::size_t>(box.size()));
    file.read(name, box, reinterpret_cast<std::byte*>(some.data()));
    for (std::int64_t r = 0; r < box.extent[0]; ++r)
      for (std::int64_t c = 0; c < box.extent[1]; ++c)
        ASSERT_EQ(some[static_cast<std::size_t>(r * box.extent[1] + c)], all[static_cast<std::size_t>((r + 1) * t.shape[1] + c + 5)]);
  }
  EXPECT_EQ(file.values()["tokenizer.ggml.tokens"], "70 values");
}

TEST(Gguf, ALlamaIsTheModelItWasMadeOf) {
  const TemporaryDirectory dir;
  const auto of_gguf = import_gguf({golden("gguf/llama.gguf"), dir / "gguf", 0, "test"});
  const auto of_hf = import_hf({golden("hf/llama"), dir / "hf", 0, "test"});
  EXPECT_EQ(test::tensors_of_checkpoint(of_gguf.path), test::tensors_of_checkpoint(of_hf.path));
  const auto spec = [](const std::filesystem::path& p) { return model_from_json(Reader(p).manifest().meta.specs["model"], ""); };
  auto a = spec(of_gguf.path), b = spec(of_hf.path);
  for (auto* m : {&a, &b})
    for (auto& row : m->towers[0].rows) row.norm.eps = std::round(row.norm.eps * 1e9) / 1e9;  // f32 in the file
  a.final_norm.eps = b.final_norm.eps;
  EXPECT_EQ(model_difference(a, b), "");
  EXPECT_EQ(import_gguf({golden("gguf/blocks.gguf"), dir / "blocks", 0, "test"}).notices.back(), "8 tensors of type Q8_0 became f32");
}

std::string error_of(const std::string& bytes) {
  try {
    const GgufFile file(bytes_of_text(bytes), "x.gguf");
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::corrupt) << e.what();
    return e.what();
  }
  return "no error";
}

std::string text(const std::string& s) { return le(s.size(), 8) + s; }

struct Info {
  std::string name = "t";
  std::vector<std::uint64_t> dims{4};
  std::uint32_t type = 0;
  std::uint64_t offset = 0;
};
std::string file_of(const std::vector<Info>& infos, std::size_t data_bytes, const std::string& values = "", std::uint64_t num_values = 0) {
  std::string s = "GGUF" + le(3, 4) + le(infos.size(), 8) + le(num_values, 8) + values;
  for (const auto& i : infos) {
    s += text(i.name) + le(i.dims.size(), 4);
    for (const auto d : i.dims) s += le(d, 8);
    s += le(i.type, 4) + le(i.offset, 8);
  }
  s.resize((s.size() + 31) / 32 * 32);
  return s + std::string(data_bytes, 'd');
}

TEST(Gguf, WhatIsCutOrSaysWhatNoFileHasIsRefused) {
  EXPECT_EQ(error_of(file_of({{}}, 16)), "no error");
  EXPECT_CONTAINS(error_of(file_of({{}}, 15)), "leaves the file: it is cut");
  EXPECT_CONTAINS(error_of(file_of({{}}, 16 + 64)), "64 bytes behind the last tensor");
  EXPECT_CONTAINS(error_of("GGUX" + std::string(40, '\0')), "does not begin with GGUF");
  EXPECT_CONTAINS(error_of("GGUF" + le(1, 4) + std::string(40, '\0')), "version 1");
  EXPECT_CONTAINS(error_of("GGUF" + le(3, 4) + le(~0ull, 8) + le(0, 8)), "tensors and 0 values");
  EXPECT_CONTAINS(error_of(file_of({{}, {}}, 16)), "t is there twice");
  EXPECT_CONTAINS(error_of(file_of({{"a"}, {"b", {4}, 0, 12}}, 32)), "overlap");
  EXPECT_CONTAINS(error_of(file_of({{"a", {1ull << 40, 1ull << 40}}}, 32)), "too large");
  EXPECT_CONTAINS(error_of(file_of({{"a", {33}, 8}}, 64)), "no whole blocks of Q8_0");
  EXPECT_CONTAINS(error_of(file_of({{"a", {4}, 99}}, 64)), "type 99");
  EXPECT_CONTAINS(error_of(file_of({{"a", {1, 1, 1, 1, 1}}}, 64)), "5 dimensions");
  EXPECT_CONTAINS(error_of(file_of({{"a", {4}, 0, ~0ull - 3}}, 64)), "it is cut");
  EXPECT_CONTAINS(error_of(file_of({}, 0, text("k") + le(9, 4) + le(8, 4) + le(1ull << 50, 8), 1)), "an array of 1125899906842624 values");
  EXPECT_CONTAINS(error_of(file_of({}, 0, text("k") + le(9, 4) + le(9, 4) + le(1, 8), 1)), "array of arrays");
  EXPECT_CONTAINS(error_of(file_of({}, 0, text("general.alignment") + le(4, 4) + le(48, 4), 1)), "general.alignment is 48");
  EXPECT_CONTAINS(error_of(file_of({}, 0, text("k") + le(7, 4) + le(1, 1) + text("k") + le(7, 4) + le(1, 1), 2)), "key k is there twice");
  const std::string good = test::read_text(golden("gguf/blocks.gguf"));
  for (std::size_t n = 0; n < good.size(); n += 61) EXPECT_NE(error_of(good.substr(0, n)), "no error") << n;
}

TEST(Gguf, OtherModelsAndTypesAreNamedAndNothingIsWritten) {
  const TemporaryDirectory dir;
  const auto error = [&](const std::string& bytes) {
    test::write_text(dir / "x.gguf", bytes);
    try {
      import_gguf({dir / "x.gguf", dir / "native", 0, "test"});
    } catch (const Error& e) {
      EXPECT_FALSE(std::filesystem::exists(dir / "native/latest_checkpointed_iteration.txt"));
      return std::string(e.what());
    }
    return std::string("no error");
  };
  EXPECT_CONTAINS(error(file_of({{}}, 16)), "architecture null is not read");
  std::string other = test::read_text(golden("gguf/llama.gguf"));
  const auto at = other.find("blk.0.attn_q.weight");
  ASSERT_NE(at, std::string::npos);
  other.replace(at, 5, "blk.7");
  EXPECT_CONTAINS(error(other), "blk.0.attn_q.weight is missing; blk.7.attn_q.weight is left over");
}

}  // namespace
}  // namespace mt
