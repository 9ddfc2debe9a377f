#pragma once
// The pre_tokenizer of a tokenizer.json: how normalised text is cut into the pieces a model sees one at a time.
//
// Kinds (their JSON "type"): ByteLevel Split Digits Metaspace Whitespace WhitespaceSplit Punctuation BertPreTokenizer
// CharDelimiterSplit FixedLength UnicodeScripts Sequence. Some also rewrite the text (ByteLevel, Metaspace). A text in which only
// byte-level BPE is asked for is cut by tokenizer/split_pattern.h instead, which is faster.
// Code: tokenizer/pre_tokenizer.cc. Tests: tests/tokenizer/peer_vectors_test.cc.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "tokenizer/cut_text.h"
#include "tokenizer/json_fields.h"
#include "tokenizer/split_pattern.h"

namespace mt::tokenizer {

enum class SplitBehavior { removed, isolated, contiguous, merged_with_previous, merged_with_next };

class PreTokenizer {
 public:
  // The whole text is one piece.
  PreTokenizer() = default;
  // From the value of "pre_tokenizer"; null cuts nothing.
  //   fails  Error{data}: a type or behaviour this reader does not know, named; Error{corrupt}: one without its
  //          parts, or with a field of another type
  explicit PreTokenizer(const Json& json);

  // Cut `text` into cut.pieces of cut.text.
  //   needs  valid UTF-8 below 1 GiB; `at_start`: it begins the document (Metaspace's prepend_scheme "first" asks)
  //   gives  no empty piece
  //   fails  Error{data}: a pattern at its limit
  void apply(std::string_view text, bool at_start, CutText& cut) const;

  bool empty() const { return steps_.empty(); }
  // Its step, where there is exactly one; else null.
  struct Step;
  const Step* only_step() const { return steps_.size() == 1 ? steps_.data() : nullptr; }
  std::string description() const;

  enum class Kind {
    split,
    digits,
    whitespace,
    whitespace_split,
    punctuation,
    bert,
    unicode_scripts,
    char_delimiter,
    fixed_length,
    metaspace,
    byte_level
  };
  enum class Prepend { always, first, never };
  struct Step {
    Kind kind;
    SplitBehavior behavior = SplitBehavior::isolated;
    std::string literal;                 // split, char_delimiter; metaspace: what stands for a space
    std::unique_ptr<PcrePattern> regex;  // split by a regex
    SplitPattern pattern;                // byte_level, and split where the pieces are all that counts
    bool invert = false;                 // split: the gaps are the matches
    bool add_prefix_space = false;       // byte_level
    bool cuts = true;                    // metaspace
    Prepend prepend = Prepend::always;   // metaspace
    std::uint32_t length = 0;            // fixed_length, in code points
    std::string source;
  };

 private:
  void add(const JsonFields& part);
  std::vector<Step> steps_;
};

// \w of the regexes that tokenizers use: letters, marks, digits, letter numbers, connectors, joiners.
bool is_word_character(std::uint32_t code_point);
// Punctuation of BertPreTokenizer and Punctuation: that of ASCII, symbols included, and P.
bool is_punctuation(std::uint32_t code_point);

}  // namespace mt::tokenizer
