#pragma once
// Cutting text into the pieces a BPE never merges across: the "pre-tokenizer" patterns.
//
// The patterns of GPT-2, LLaMA-3, Qwen, o200k, Tekken, DeepSeek-V3 and Falcon are scanned by hand over Unicode 16
// classes; any other one runs under PCRE2's JIT, its classes pinned to Unicode 16 too (tokenizer/regex_classes.h). Several patterns in a row refine each other's pieces.
// In the usual notation, L letters, N numbers, s White_Space:
//   gpt2    '(s|t|re|ve|m|ll|d) | ?L+ | ?N+ | ?[^sLN]+ | s+(?!S) | s+
//   llama3  (?i:'(s|t|re|ve|m|ll|d)) | [^\r\nLN]?L+ | N{1,3} | ?[^sLN]+[\r\n]* | s*[\r\n]+ | s+(?!S) | s+
//   qwen    llama3 with N for N{1,3}
//   o200k   [^\r\nLN]?U*W+c? | [^\r\nLN]?U+W*c? | N{1,3} | ?[^sLN]+[\r\n/]* | s*[\r\n]+ | s+(?!S) | s+
//           with U: Lu Lt Lm Lo M, W: Ll Lm Lo M, c: (?i:'(s|t|re|ve|m|ll|d))
//   tekken  o200k without c and with N for N{1,3}
//   deepseek  N{1,3}, then [U+4E00-9FA5 3040-309F 30A0-30FF]+, then in each piece, P punctuation, S symbols:
//           [!-/:-@[-`{-~][A-Za-z]+ | [^\r\nLPS]?[LM]+ | ?[PS]+[\r\n]* | s*[\r\n]+ | s+(?!S) | s+
//   falcon  runs of punctuation, then gpt2 in each piece, then runs of digits, then [0-9][0-9][0-9]
// Under (?i:) the s of 's is also U+017F, the long s.
// Code: tokenizer/split_pattern.cc, split_cased.cc, split_deepseek.cc, split_falcon.cc (hand scanners), split_pcre.cc. Tests: tests/tokenizer/split_pattern_test.cc.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/cut_text.h"

namespace mt::tokenizer {

enum class PatternKind { whole, gpt2, llama3, qwen, o200k, tekken, deepseek, falcon, pcre };

// The text of the patterns that are scanned by hand, as tokenizer.json files write them; cl100k's is LLaMA-3's.
extern const std::string_view kGpt2Pattern, kLlama3Pattern, kO200kPattern, kTekkenPattern;

// A compiled regex in the dialect of tokenizer.json files; matches and the gaps between them are the pieces.
class PcrePattern {
 public:
  //   fails  Error{data} with PCRE2's words and the place in the pattern
  explicit PcrePattern(const std::string& regex);
  ~PcrePattern();
  PcrePattern(const PcrePattern&) = delete;
  PcrePattern& operator=(const PcrePattern&) = delete;

  // Append the piece lengths of `text` (they sum to its size).   needs  valid UTF-8
  //   fails  Error{data}: the match limit of PCRE2
  void split(std::string_view text, std::vector<std::uint32_t>& lengths) const;

  // Append the places of the matches that are not empty, in order.   needs, fails  as split
  void find_all(std::string_view text, std::vector<TextSpan>& matches) const;

 private:
  struct Code;
  std::unique_ptr<Code> code_;
};

class SplitPattern {
 public:
  // No cutting: the text is one piece.
  SplitPattern() = default;
  // Known patterns are recognised by their text and scanned by hand.
  static SplitPattern from_regex(const std::string& regex);
  // One after the other. DeepSeek-V3's three are recognised and scanned by hand as one.
  static SplitPattern sequence(std::vector<SplitPattern> parts);
  // Falcon's four pre-tokenizers, as one scan over bytes. May cut inside a character.
  static SplitPattern falcon();

  // The next pieces of `text` from `position` on, in bytes, at most lengths.size() of them.
  //   needs  valid UTF-8, under 4 GiB; position at a piece's start
  //   gives  how many were written; position moves to the end of the last; 0 at the end of the text
  //   cost   about 1 GB/s a core by hand for ASCII (blocks of 64 bytes), 0.3 for the rest; 0.1 by PCRE2
  // Only for hand-scanned kinds; see split.
  bool batched() const { return kind_ != PatternKind::pcre && parts_.empty(); }
  std::size_t next(std::string_view text, std::size_t& position, std::span<std::uint32_t> lengths) const;

  // All pieces of `text` at once, any kind.
  void split(std::string_view text, std::vector<std::uint32_t>& lengths) const;

  // Text that tells patterns apart, for fingerprints.
  std::string description() const;
  PatternKind kind() const { return kind_; }

 private:
  PatternKind kind_ = PatternKind::whole;
  std::string regex_;
  std::unique_ptr<PcrePattern> pcre_;
  std::vector<SplitPattern> parts_;
};

}  // namespace mt::tokenizer
