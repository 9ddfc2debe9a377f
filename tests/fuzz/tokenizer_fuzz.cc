// tokenizer.json and .model files: whatever loads must encode and decode any text, the same with a warm cache as with a
// cold one, within its own vocabulary.

#include <algorithm>

#include "base/error.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/unicode.h"
#include "fuzz/fuzz_scratch.h"

namespace mt::fuzz {

namespace {

using tokenizer::EncodeScratch;
using tokenizer::Id;
using tokenizer::Tokenizer;

void encode_twice(const Tokenizer& tokenizer, std::string_view text, EncodeScratch& scratch) {
  std::vector<Id> ids, again;
  tokenizer.encode(text, scratch, ids);
  tokenizer.encode(text, scratch, again);
  MT_CHECK(ids == again, "{} ids at first, {} from the cache", ids.size(), again.size());
  for (const Id id : ids) MT_CHECK(id >= 0 && id < tokenizer.vocab_size(), "id {} of {}", id, tokenizer.vocab_size());
  tokenizer.decode(ids);
}

void answer(const Error& error) { MT_CHECK(!error.message().empty(), "an error without words"); }

// A text that the vocabulary itself is made of.
std::string own_text(const Tokenizer& tokenizer) {
  std::string text;
  for (Id id = 0; id < std::min(tokenizer.vocab_size(), 40); ++id) {
    try {
      tokenizer.decode(std::vector<Id>{id}, text);
    } catch (const Error& error) {
      answer(error);  // a gap
    }
  }
  return text;
}

void try_tokenizer(const tokenizer::TokenizerSpec& spec, std::string_view text) {
  try {
    const auto tokenizer = tokenizer::make_tokenizer(spec);
    tokenizer->fingerprint();
    EncodeScratch scratch;
    const std::string own = own_text(*tokenizer);
    const std::string_view own_valid =
        valid_text({reinterpret_cast<const std::uint8_t*>(own.data()), std::min<std::size_t>(own.size(), 2000)});
    for (const std::string_view t : {text, own_valid, std::string_view("Hello wor\xCC\x81ld 12  <s>\xE4\xB8\xAD\n\xE2\x96\x81 a")}) {
      try {
        encode_twice(*tokenizer, t, scratch);
      } catch (const Error& error) {
        answer(error);
      }
    }
  } catch (const Error& error) {
    answer(error);
  }
}

}  // namespace

std::string_view valid_text(Bytes bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return text.substr(0, tokenizer::find_invalid_utf8(text));
}

void tokenizer_json(Bytes input) {
  static const ScratchDirectory dir;
  const auto nul = std::find(input.begin(), input.end(), 0);
  const auto size = static_cast<std::size_t>(nul - input.begin());
  tokenizer::TokenizerSpec spec;
  spec.model = put(dir, "tokenizer.json", input.first(size));
  const std::string_view text = nul == input.end() ? std::string_view() : valid_text(input.subspan(size + 1));
  spec.parse_special = text.size() % 2 == 1;
  try_tokenizer(spec, text);
}

void sentencepiece_model(Bytes input) {
  static const ScratchDirectory dir;
  tokenizer::TokenizerSpec spec;
  spec.type = "SentencePieceTokenizer";
  spec.model = put(dir, "tokenizer.model", input);
  spec.parse_special = input.size() % 2 == 1;
  try_tokenizer(spec, "a</s>b");
}

}  // namespace mt::fuzz
