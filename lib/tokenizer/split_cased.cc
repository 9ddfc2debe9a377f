// o200k and Tekken: words are cut where a capital letter follows a small one, and a contraction belongs to its word.

#include "tokenizer/split_scan.h"
#include "tokenizer/wide_block.h"

namespace mt::tokenizer {

namespace {

bool may_be_upper(std::uint8_t bits) { return (bits & (kLetter | kMark)) != 0 && !(bits & kLower); }
bool may_be_lower(std::uint8_t bits) { return (bits & (kLetter | kMark)) != 0 && !(bits & kUpper); }

// U*W+ at i, as a backtracking matcher finds it: the last of U* that may be lower goes to W+ if nothing follows for it.
//   gives  its end, or 0; upper_end is the end of U*
std::size_t cased_word_end(const Scan& t, std::size_t i, std::size_t& upper_end) {
  std::size_t last_lower_end = 0;
  while (i < t.size) {
    const Scan::At c = t.at(i);
    if (!may_be_upper(c.bits)) break;
    i += c.size;
    if (may_be_lower(c.bits)) last_lower_end = i;
  }
  upper_end = i;
  std::size_t end = i;
  while (end < t.size) {
    const Scan::At c = t.at(end);
    if (!may_be_lower(c.bits)) break;
    end += c.size;
  }
  return end > i ? end : last_lower_end;
}

template <int max_digits, bool contractions>
std::size_t cased_end(const Scan& t, std::size_t i) {
  const auto with_suffix = [&t](std::size_t end) {
    if (!contractions || end >= t.size || t.s[end] != '\'') return end;
    return end + contraction<true>(t, end);
  };
  const char byte = t.s[i];
  const Scan::At c = t.at(i);
  const std::size_t second = i + c.size;
  const bool line_end = byte == '\n' || byte == '\r';
  const bool leads = !(c.bits & (kLetter | kNumber)) && !line_end, in_word = (c.bits & (kLetter | kMark)) != 0;
  std::size_t led_upper = second, upper = i;
  if (leads) {
    if (const std::size_t end = cased_word_end(t, second, led_upper)) return with_suffix(end);
  }
  if (in_word) {
    if (const std::size_t end = cased_word_end(t, i, upper)) return with_suffix(end);
  }
  if (led_upper > second) return with_suffix(led_upper);
  if (upper > i) return with_suffix(upper);
  if (c.bits & kNumber) {
    std::size_t end = second;
    for (int digits = 1; digits < max_digits && end < t.size; ++digits) {
      const Scan::At d = t.at(end);
      if (!(d.bits & kNumber)) break;
      end += d.size;
    }
    return end;
  }
  const auto tail = [&t](std::size_t end) {
    while (end < t.size && (t.s[end] == '\n' || t.s[end] == '\r' || t.s[end] == '/')) ++end;
    return end;
  };
  if (byte == ' ' && second < t.size && !(t.at(second).bits & kWordOrSpace)) {
    return tail(t.run<false>(second, kWordOrSpace));
  }
  if (!(c.bits & kSpace)) return tail(t.run<false>(second, kWordOrSpace));
  return line_space_end(t, i, t.run<true>(second, kSpace));
}

// A contraction behind a word is part of it, once: what follows it starts anew.
void join_contractions(const Scan& scan, std::size_t block, const AsciiBlock& b, std::uint64_t& starts) {
  int free_from = 0;  // the end of the last one joined
  for (std::uint64_t quotes = b.apostrophe & (b.letter << 1); quotes != 0; quotes &= quotes - 1) {
    const int q = std::countr_zero(quotes);
    if (q == free_from) continue;
    const auto size = static_cast<int>(contraction<true>(scan, block + static_cast<std::size_t>(q)));
    if (size == 0) continue;
    starts &= ~(low_bits(size) << q);
    free_from = q + size;
    if (free_from < 64) starts |= std::uint64_t{1} << free_from;
  }
}

template <int max_digits, bool contractions>
BlockStarts cased_starts(const Scan& scan, std::size_t i, AsciiBlock& b) {
  const std::uint64_t ascii_upper = b.letter & upper_case_bits(scan.s + i), ascii_lower = b.letter & ~ascii_upper;
  const WideCases wide = b.high != 0 ? take_in_high<true>(scan.s + i, scan.classes, b) : WideCases{};
  const LineStarts line = line_starts<max_digits>(b);
  const std::uint64_t upper = (ascii_upper | wide.upper) & ~b.continuation, lower = ascii_lower | wide.lower;
  const std::uint64_t word = b.letter & ~(b.letter << 1) & ~((line.last_space | line.leading) << 1);
  std::uint64_t starts = line.starts | line.last_space | word | (upper & (lower << 1)) | 1;
  if (contractions) join_contractions(scan, i, b, starts);
  // A slash behind the newlines of punctuation's tail is part of the tail too: rare, and left to the scalar scanner.
  const std::uint64_t slash = line.absorbed & ~(line.absorbed << 1) & ~b.high;
  std::uint64_t doubtful = 0;
  for (std::uint64_t tails = slash; tails != 0; tails &= tails - 1) {
    const int first = std::countr_zero(tails);
    const int after = first + std::countr_one(line.absorbed >> first);
    if (after >= 64 || scan.s[i + static_cast<std::size_t>(after)] == '/') {
      doubtful = std::uint64_t{1} << first;
      break;
    }
  }
  // Where a capital follows a letter without case, it depends on what comes behind.
  doubtful |= upper & ((b.letter & ~(ascii_upper | wide.upper | lower)) << 1);
  return {starts, known_before(b.high | doubtful, line.space)};
}

}  // namespace

std::size_t next_o200k(std::string_view text, std::size_t& position, std::span<std::uint32_t> lengths) {
  return fill_blocks<true>(text, position, lengths, cased_starts<3, true>, cased_end<3, true>);
}

std::size_t next_tekken(std::string_view text, std::size_t& position, std::span<std::uint32_t> lengths) {
  return fill_blocks<true>(text, position, lengths, cased_starts<1, false>, cased_end<1, false>);
}

}  // namespace mt::tokenizer
