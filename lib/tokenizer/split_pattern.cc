#include "tokenizer/split_pattern.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "base/error.h"
#include "tokenizer/split_scan.h"
#include "tokenizer/wide_block.h"

namespace mt::tokenizer {

extern const std::string_view kGpt2Pattern =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

extern const std::string_view kLlama3Pattern =
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|"
    "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
extern const std::string_view kO200kPattern =
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+"
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*"
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
    "\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
extern const std::string_view kTekkenPattern =
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+|"
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*|"
    "\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";

namespace {

constexpr std::string_view kQwenPattern =
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|"
    "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";

std::size_t gpt2_end(const Scan& t, std::size_t i) {
  if (t.s[i] == '\'') {
    if (const std::size_t n = contraction<false>(t, i)) return i + n;
  }
  std::size_t first = i;
  if (t.s[i] == ' ' && i + 1 < t.size) first = i + 1;
  const Scan::At c = t.at(first);
  if (c.bits & kLetter) return t.run<true>(first + c.size, kLetter);
  if (c.bits & kNumber) return t.run<true>(first + c.size, kNumber);
  if (!(c.bits & kSpace)) return t.run<false>(first + c.size, kWordOrSpace);
  return space_run(t, i, t.run<true>(i, kSpace));
}

template <int max_digits>
std::size_t llama3_end(const Scan& t, std::size_t i) {
  const char byte = t.s[i];
  if (byte == '\'') {
    if (const std::size_t n = contraction<true>(t, i)) return i + n;
  }
  const Scan::At c = t.at(i);
  if (c.bits & kLetter) return t.run<true>(i + c.size, kLetter);
  if (c.bits & kNumber) {
    std::size_t end = i + c.size;
    for (int digits = 1; digits < max_digits && end < t.size; ++digits) {
      const Scan::At d = t.at(end);
      if (!(d.bits & kNumber)) break;
      end += d.size;
    }
    return end;
  }
  const std::size_t second = i + c.size;
  if (second < t.size && byte != '\n' && byte != '\r') {
    const Scan::At d = t.at(second);
    if (d.bits & kLetter) return t.run<true>(second + d.size, kLetter);
    if (byte == ' ' && !(d.bits & kWordOrSpace)) {
      return t.newlines(t.run<false>(second + d.size, kWordOrSpace));
    }
  }
  if (!(c.bits & kSpace)) return t.newlines(t.run<false>(second, kWordOrSpace));
  return line_space_end(t, i, t.run<true>(second, kSpace));
}

// A contraction that starts a piece is one piece whatever surrounds it.
template <bool any_case>
void mark_contractions(const Scan& scan, std::size_t block, std::uint64_t quotes, std::uint64_t& starts) {
  for (quotes &= starts; quotes != 0; quotes &= quotes - 1) {
    const int q = std::countr_zero(quotes);
    const std::size_t size = contraction<any_case>(scan, block + static_cast<std::size_t>(q));
    if (size == 0 || (starts >> q & 1) == 0) continue;
    const std::uint64_t inside = (std::uint64_t{1} << size) - 2;  // its bytes but the first
    starts = (starts & ~(inside << q)) | ((inside + 2) << q);
  }
}

// Starts follow from the classes of a byte and its two neighbours.
BlockStarts gpt2_starts(const Scan& scan, std::size_t i, AsciiBlock& b) {
  if (b.high != 0) take_in_high<false>(scan.s + i, scan.classes, b);
  const std::uint64_t letter = b.letter, digit = b.digit, space = b.space, other = ~(letter | digit | space);
  std::uint64_t starts = (letter & ~(letter << 1)) | (digit & ~(digit << 1)) | (other & ~(other << 1));
  starts &= ~(b.blank << 1);                                // " word" starts at its blank
  starts |= (space & (~(space << 1) | ~(space >> 1))) | 1;  // a run of white space, and its last one again
  mark_contractions<false>(scan, i, b.apostrophe, starts);
  return {starts, b.high != 0 ? std::countr_zero(b.high) - 1 : 63};
}

// Here a run of white space also depends on its last newline, so a run that reaches the block's end is left whole to
// the next block.
template <int max_digits>
BlockStarts llama3_starts(const Scan& scan, std::size_t i, AsciiBlock& b) {
  if (b.high != 0) take_in_high<false>(scan.s + i, scan.classes, b);
  const LineStarts line = line_starts<max_digits>(b);
  const std::uint64_t word = b.letter & ~(b.letter << 1) & ~((line.last_space | line.leading) << 1);
  std::uint64_t starts = line.starts | line.last_space | word | 1;
  mark_contractions<true>(scan, i, b.apostrophe, starts);
  return {starts, known_before(b.high, line.space)};
}

constexpr std::string_view kDeepseekParts[] = {
    "\\p{N}{1,3}", "[\xE4\xB8\x80-\xE9\xBE\xA5\xE3\x81\x80-\xE3\x82\x9F\xE3\x82\xA0-\xE3\x83\xBF]+",
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+|"
    " ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"};

}  // namespace

SplitPattern SplitPattern::from_regex(const std::string& regex) {
  SplitPattern pattern;
  pattern.regex_ = regex;
  if (regex == kGpt2Pattern) {
    pattern.kind_ = PatternKind::gpt2;
  } else if (regex == kLlama3Pattern) {
    pattern.kind_ = PatternKind::llama3;
  } else if (regex == kQwenPattern) {
    pattern.kind_ = PatternKind::qwen;
  } else if (regex == kO200kPattern) {
    pattern.kind_ = PatternKind::o200k;
  } else if (regex == kTekkenPattern) {
    pattern.kind_ = PatternKind::tekken;
  } else {
    pattern.kind_ = PatternKind::pcre;
    pattern.pcre_ = std::make_unique<PcrePattern>(regex);
  }
  return pattern;
}

SplitPattern SplitPattern::sequence(std::vector<SplitPattern> parts) {
  if (parts.size() == 1) return std::move(parts.front());
  SplitPattern pattern;
  const bool deepseek = std::equal(parts.begin(), parts.end(), std::begin(kDeepseekParts), std::end(kDeepseekParts),
                                   [](const SplitPattern& part, std::string_view text) { return part.regex_ == text; });
  pattern.parts_ = std::move(parts);
  if (!deepseek) return pattern;
  pattern.regex_ = pattern.description();
  pattern.kind_ = PatternKind::deepseek;
  pattern.parts_.clear();
  return pattern;
}

SplitPattern SplitPattern::falcon() {
  SplitPattern pattern;
  pattern.regex_ = "Falcon: punctuation, GPT-2's pattern, digits by threes";
  pattern.kind_ = PatternKind::falcon;
  return pattern;
}

std::size_t SplitPattern::next(std::string_view text, std::size_t& position, std::span<std::uint32_t> lengths) const {
  MT_CHECK(batched() && text.size() < (std::size_t{1} << 32), "kind {} text of {} bytes", static_cast<int>(kind_),
           text.size());
  switch (kind_) {
    case PatternKind::gpt2: return fill_blocks<true>(text, position, lengths, gpt2_starts, gpt2_end);
    case PatternKind::llama3: return fill_blocks<true>(text, position, lengths, llama3_starts<3>, llama3_end<3>);
    case PatternKind::qwen: return fill_blocks<true>(text, position, lengths, llama3_starts<1>, llama3_end<1>);
    case PatternKind::o200k: return next_o200k(text, position, lengths);
    case PatternKind::tekken: return next_tekken(text, position, lengths);
    case PatternKind::deepseek: return next_deepseek(text, position, lengths);
    case PatternKind::falcon: return next_falcon(text, position, lengths);
    default: return fill(text, position, lengths, [](auto& t, auto) { return t.size; });
  }
}

void SplitPattern::split(std::string_view text, std::vector<std::uint32_t>& lengths) const {
  if (!parts_.empty()) {
    std::vector<std::uint32_t> coarse, fine{static_cast<std::uint32_t>(text.size())};
    if (text.empty()) fine.clear();
    for (const SplitPattern& part : parts_) {
      coarse.swap(fine);
      fine.clear();
      std::size_t begin = 0;
      for (const std::uint32_t n : coarse) {
        part.split(text.substr(begin, n), fine);
        begin += n;
      }
    }
    lengths.insert(lengths.end(), fine.begin(), fine.end());
    return;
  }
  if (kind_ == PatternKind::pcre) return pcre_->split(text, lengths);
  std::array<std::uint32_t, 256> some;
  std::size_t position = 0;
  while (const std::size_t n = next(text, position, some))
    lengths.insert(lengths.end(), some.begin(), some.begin() + n);
}

std::string SplitPattern::description() const {
  if (parts_.empty()) return regex_;
  std::string all;
  for (const SplitPattern& part : parts_) all += part.description() + "\n";
  return all;
}

}  // namespace mt::tokenizer
