#pragma once
// The decoder of a tokenizer.json: how the tokens of a document become text again.
//
// Kinds (their JSON "type"): ByteLevel ByteFallback Metaspace Replace Fuse Strip WordPiece BPEDecoder CTC Sequence.
// Without one, tokens are joined by spaces. One deliberate difference to Hugging Face's library: bytes that are no
// valid UTF-8 stay as they are; there they become U+FFFD.
// Code: tokenizer/token_decoder.cc. Tests: tests/tokenizer/peer_vectors_test.cc, golden_tokenizers_test.cc.

#include <memory>
#include <string>
#include <vector>

#include "base/json.h"
#include "tokenizer/json_fields.h"
#include "tokenizer/split_pattern.h"

namespace mt::tokenizer {

class TokenDecoder {
 public:
  // Joins by spaces.
  TokenDecoder() = default;
  // From the value of "decoder"; null joins by spaces.
  //   fails  Error{data}: a type this reader does not know, named; Error{corrupt}: one without its parts, or with
  //          a field of another type
  explicit TokenDecoder(const Json& json);

  // Append the text of the tokens to `out`; the tokens are used up.
  void decode(std::vector<std::string>& tokens, std::string& out) const;

  enum class Kind { byte_level, byte_fallback, metaspace, replace, fuse, strip, word_piece, bpe, ctc };
  struct Step {
    Kind kind;
    std::string pattern, content;        // replace: both; strip, metaspace: content; word_piece: prefix; bpe: suffix
    std::unique_ptr<PcrePattern> regex;  // replace
    std::string delimiter;               // ctc
    bool flag = true;                    // word_piece, ctc: cleanup; metaspace: the first token loses its space
    std::size_t start = 0, stop = 0;     // strip
  };

 private:
  void add(const JsonFields& part);
  std::vector<Step> steps_;
};

}  // namespace mt::tokenizer
