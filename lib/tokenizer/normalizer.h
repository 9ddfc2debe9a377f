#pragma once
// The normalizer of a tokenizer.json: what happens to the text before it is cut.
//
// Kinds (their JSON "type"): NFC NFD NFKC NFKD Lowercase Strip StripAccents Nmt Prepend Replace ByteLevel Precompiled
// BertNormalizer Sequence. They follow Hugging Face's library, oddities included: Precompiled looks at whole grapheme
// clusters of less than six bytes first and takes the shortest entry they start with.
// Code: tokenizer/normalizer.cc, tokenizer/normalizer_steps.cc. Tests: tests/tokenizer/peer_vectors_test.cc, golden_tokenizers_test.cc.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "tokenizer/chars_map.h"
#include "tokenizer/json_fields.h"
#include "tokenizer/split_pattern.h"

namespace mt::tokenizer {

class Normalizer {
 public:
  // Changes nothing.
  Normalizer() = default;
  // From the value of "normalizer"; null is the one that changes nothing.
  //   fails  Error{data}: a type this reader does not know, named; Error{corrupt}: one that lacks its parts, or has a
  //          field of another type
  explicit Normalizer(const Json& json);

  bool empty() const { return steps_.empty(); }
  // Its step, where there is exactly one; else null.
  struct Step;
  const Step* only_step() const { return steps_.size() == 1 ? steps_.data() : nullptr; }

  // The normalised text: `text` itself where there is nothing to do, else in `buffer`; `other` is scratch.
  //   needs  valid UTF-8; the buffers are none of `text`
  //   fails  Error{data}: a pattern at its limit
  //   cost   a copy a step; ASCII is quick
  std::string_view apply(std::string_view text, std::string& buffer, std::string& other) const;

  // Text that tells normalizers apart, for fingerprints.
  std::string description() const;

  enum class Kind {
    nfc,
    nfd,
    nfkc,
    nfkd,
    lowercase,
    strip,
    strip_accents,
    nmt,
    prepend,
    replace,
    byte_level,
    precompiled,
    bert
  };
  struct Step {
    Kind kind;
    std::string pattern, content;        // Prepend: content; Replace: both (pattern empty where a regex stands)
    std::unique_ptr<PcrePattern> regex;  // Replace
    CharsMap map;                        // Precompiled
    bool left = true, right = true;      // Strip
    bool clean_text = true, chinese = true, strip_accents = true, lowercase = true;  // BertNormalizer
    std::string source;                  // its JSON
  };

 private:
  void add(const JsonFields& part);
  std::vector<Step> steps_;
};

// One step: `text` in, result appended to `out`.
void apply_step(const Normalizer::Step& step, std::string_view text, std::string& out);

// What BertNormalizer drops as accents, drops as controls, and puts apart.
bool is_bert_mark(std::uint32_t code_point);
bool is_bert_control(std::uint32_t code_point);
bool is_bert_chinese(std::uint32_t code_point);

// Bytes of base64 text; white space is skipped.   fails  Error{corrupt}: another character, a length that cannot be
std::string decode_base64(std::string_view text);

}  // namespace mt::tokenizer
