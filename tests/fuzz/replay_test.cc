// The inputs kept from fuzzing, once more: each made something fall over once, or shows a format's corners.

#include <filesystem>
#include <fstream>
#include <iterator>

#include <gtest/gtest.h>

#include "fuzz/targets.h"

namespace mt::fuzz {
namespace {

void replay(const std::string& name, void (*target)(Bytes), std::size_t least) {
  const char* source = std::getenv("MT_TEST_SOURCE");
  const auto folder = std::filesystem::path(source != nullptr ? source : ".") / "tests" / "fuzz" / "corpus" / name;
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    SCOPED_TRACE(entry.path().string());
    std::ifstream file(entry.path(), std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    target({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()});
    ++count;
  }
  EXPECT_GE(count, least) << folder;
}

TEST(FuzzReplay, tokenizer_json_files) { replay("tokenizer_json", tokenizer_json, 5); }
TEST(FuzzReplay, sentencepiece_models) { replay("sentencepiece_model", sentencepiece_model, 3); }
TEST(FuzzReplay, token_indexes) { replay("token_index", token_index, 3); }
TEST(FuzzReplay, pickles) { replay("pickle", pickle, 4); }
TEST(FuzzReplay, files_of_torch) { replay("torch_file", torch_file, 3); }
TEST(FuzzReplay, metadata_of_torch_dist) { replay("torch_metadata", torch_metadata, 2); }
TEST(FuzzReplay, gguf_files) { replay("gguf", gguf, 2); }
TEST(FuzzReplay, manifests) { replay("manifest", manifest, 3); }
TEST(FuzzReplay, headers_of_safetensors) { replay("safetensors_header", safetensors_header, 3); }
TEST(FuzzReplay, packed_files) { replay("packed_file", packed_file, 3); }
TEST(FuzzReplay, text_files) { replay("text_lines", text_lines, 5); }

}  // namespace
}  // namespace mt::fuzz
