#pragma once
// What libFuzzer calls with bytes of its own making, a function a file format. Each returns; an Error of the library is an
// answer like any other, anything else (a crash, a broken MT_CHECK, a sanitizer's word) is a find.
//
// Code: one file each. With clang and -DMT_FUZZ=ON they become programs fuzz_<name> (entry/fuzz_entry.cc); everywhere
// the inputs kept in corpus/<name>/ are replayed by replay_test.cc.

#include <cstdint>
#include <span>
#include <string_view>

namespace mt::fuzz {

using Bytes = std::span<const std::uint8_t>;

// A tokenizer.json; after a NUL byte, which no JSON holds, a text to encode.
void tokenizer_json(Bytes input);
// A SentencePiece .model.
void sentencepiece_model(Bytes input);
// Two bytes: the size of a .bin; then the .idx beside it.
void token_index(Bytes input);
// A byte: JSON lines or text, and the size of a chunk; then the file, packed or not.
void text_lines(Bytes input);
// A pickle.
void pickle(Bytes input);
// A file of torch.save.
void torch_file(Bytes input);
// A byte: how long __0_0.distcp is, in sixteens; then the .metadata beside it.
void torch_metadata(Bytes input);
// A GGUF file.
void gguf(Bytes input);
// A manifest.json.
void manifest(Bytes input);
// Three bytes: how many bytes of data follow the header; then the header of a safetensors file.
void safetensors_header(Bytes input);
// A packed data file.
void packed_file(Bytes input);

// The longest start of these bytes that is valid UTF-8.
std::string_view valid_text(Bytes bytes);

}  // namespace mt::fuzz
