#include "tokenizer/pre_tokenizer_steps.h"

#include <algorithm>
#include <bit>

#include "base/error.h"
#include "tokenizer/ascii_block.h"
#include "tokenizer/byte_level_bpe.h"
#include "tokenizer/older_unicode.h"
#include "tokenizer/unicode.h"
#include "tokenizer/unicode_scripts.h"

namespace mt::tokenizer {

namespace {

using Kind = PreTokenizer::Kind;

bool is_space(std::uint32_t c) { return (unicode_classes()[c] & kSpace) != 0; }
bool is_number(std::uint32_t c) { return (unicode_classes()[c] & kNumber) != 0; }

// Puts matches and the gaps between them together as the behaviour says. Ranges come in order and touch.
class Grouper {
 public:
  Grouper(SplitBehavior behavior, std::vector<TextSpan>& out) : behavior_(behavior), out_(out), first_(out.size()) {}

  void add(std::uint32_t begin, std::uint32_t end, bool match) {
    if (begin == end) return;
    switch (behavior_) {
      case SplitBehavior::removed:
        if (!match) out_.push_back({begin, end});
        break;
      case SplitBehavior::isolated: out_.push_back({begin, end}); break;
      case SplitBehavior::contiguous: join(begin, end, match == last_match_); break;
      case SplitBehavior::merged_with_previous: join(begin, end, match && !last_match_); break;
      case SplitBehavior::merged_with_next: join(begin, end, !match && last_match_); break;
    }
    last_match_ = match;
  }

 private:
  void join(std::uint32_t begin, std::uint32_t end, bool together) {
    if (together && out_.size() > first_) {
      out_.back().end = end;
    } else {
      out_.push_back({begin, end});
    }
  }
  SplitBehavior behavior_;
  std::vector<TextSpan>& out_;
  std::size_t first_;
  bool last_match_ = false;
};

// Every code point that `wanted` takes is a match of its own.
template <class Wanted>
void cut_at(std::string_view text, TextSpan piece, SplitBehavior behavior, std::vector<TextSpan>& out, Wanted wanted) {
  Grouper group(behavior, out);
  std::uint32_t gap = piece.begin;
  for (std::uint32_t i = piece.begin; i < piece.end;) {
    const Decoded d = decode_utf8(text.data() + i);
    const std::uint32_t next = i + d.size;
    if (wanted(d.code_point)) {
      group.add(gap, i, false);
      group.add(i, next, true);
      gap = next;
    }
    i = next;
  }
  group.add(gap, piece.end, false);
}

// White space goes, what `apart` takes stands alone, the rest are runs.
template <class Apart>
void words(std::string_view text, TextSpan piece, std::vector<TextSpan>& out, Apart apart) {
  std::uint32_t begin = piece.begin;
  const auto end_run = [&](std::uint32_t end) {
    if (end > begin) out.push_back({begin, end});
  };
  for (std::uint32_t i = piece.begin; i < piece.end;) {
    const Decoded d = decode_utf8(text.data() + i);
    const std::uint32_t next = i + d.size;
    if (is_space(d.code_point)) {
      end_run(i);
      begin = next;
    } else if (apart(d.code_point)) {
      end_run(i);
      out.push_back({i, next});
      begin = next;
    }
    i = next;
  }
  end_run(piece.end);
}

// Runs of what is no white space, by blocks where they are ASCII.
void space_separated(std::string_view text, TextSpan piece, std::vector<TextSpan>& out) {
  constexpr std::uint32_t kNone = 0xFFFFFFFF;
  const std::uint8_t* classes = unicode_classes();
  std::uint32_t open = kNone;  // where a run began that may go on
  const auto close = [&](std::uint32_t end) {
    if (open != kNone) out.push_back({open, end});
    open = kNone;
  };
  for (std::uint32_t i = piece.begin; i < piece.end;) {
    if (static_cast<unsigned char>(text[i]) < 0x80 && piece.end - i >= kBlockBytes) {
      const AsciiBlock block = classify_block(text.data() + i);
      if (block.high == 0) {
        const std::uint64_t run = ~block.space;
        std::uint64_t begins = run & ~(run << 1);
        if (open != kNone) {
          begins &= ~std::uint64_t{1};
          const auto length = static_cast<std::uint32_t>(std::countr_one(run));
          if (length < kBlockBytes) close(i + length);
        }
        for (; begins != 0; begins &= begins - 1) {
          const auto first = static_cast<std::uint32_t>(std::countr_zero(begins));
          open = i + first;
          const auto length = static_cast<std::uint32_t>(std::countr_one(run >> first));
          if (first + length < kBlockBytes) close(i + first + length);
        }
        i += kBlockBytes;
        continue;
      }
    }
    const Decoded d = decode_utf8(text.data() + i);
    if ((classes[d.code_point] & kSpace) != 0) {
      close(i);
    } else if (open == kNone) {
      open = i;
    }
    i += d.size;
  }
  close(piece.end);
}

// Runs of word characters, and runs of what is neither word nor space.
void word_runs(std::string_view text, TextSpan piece, std::vector<TextSpan>& out) {
  int run = 0;  // 0 space, 1 word, 2 other
  std::uint32_t begin = piece.begin;
  for (std::uint32_t i = piece.begin; i < piece.end;) {
    const Decoded d = decode_utf8(text.data() + i);
    const int kind = is_word_character(d.code_point) ? 1 : is_space(d.code_point) ? 0 : 2;
    if (kind != run) {
      if (run != 0) out.push_back({begin, i});
      run = kind;
      begin = i;
    }
    i += d.size;
  }
  if (run != 0) out.push_back({begin, piece.end});
}

// A piece a stretch of one script; what goes with any stays where it stands, but in front of the first it is lost.
void script_runs(std::string_view text, TextSpan piece, std::vector<TextSpan>& out) {
  int last = kAnyScript;
  std::uint32_t begin = piece.end;
  bool begun = false;
  for (std::uint32_t i = piece.begin; i < piece.end;) {
    const Decoded d = decode_utf8(text.data() + i);
    const int script = script_of(d.code_point);
    if (script != kAnyScript && script != last) {
      if (begun) out.push_back({begin, i});
      begun = true;
      begin = i;
    }
    if (script != kAnyScript) last = script;
    i += d.size;
  }
  if (begin < piece.end) out.push_back({begin, piece.end});
}

void cut_literal(const PreTokenizer::Step& step, std::string_view text, TextSpan piece, std::vector<TextSpan>& out) {
  Grouper group(step.behavior, out);
  const std::string_view own = text.substr(0, piece.end);
  std::size_t done = piece.begin;
  for (std::size_t hit; (hit = own.find(step.literal, done)) != std::string_view::npos;) {
    const std::size_t end = hit + step.literal.size();
    group.add(static_cast<std::uint32_t>(done), static_cast<std::uint32_t>(hit), step.invert);
    group.add(static_cast<std::uint32_t>(hit), static_cast<std::uint32_t>(end), !step.invert);
    done = end;
  }
  group.add(static_cast<std::uint32_t>(done), piece.end, step.invert);
}

void cut_regex(const PreTokenizer::Step& step, std::string_view text, TextSpan piece, std::vector<TextSpan>& out) {
  const std::string_view own = text.substr(piece.begin, piece.end - piece.begin);
  if (!step.regex) {
    std::vector<std::uint32_t> lengths;
    step.pattern.split(own, lengths);
    std::uint32_t begin = piece.begin;
    for (const std::uint32_t n : lengths) {
      out.push_back({begin, begin + n});
      begin += n;
    }
    return;
  }
  Grouper group(step.behavior, out);
  std::vector<TextSpan> matches;
  step.regex->find_all(own, matches);
  std::uint32_t done = 0;
  for (const TextSpan& match : matches) {
    group.add(piece.begin + done, piece.begin + match.begin, step.invert);
    group.add(piece.begin + match.begin, piece.begin + match.end, !step.invert);
    done = match.end;
  }
  group.add(piece.begin + done, piece.end, step.invert);
}

void cut_length(const PreTokenizer::Step& step, std::string_view text, TextSpan piece, std::vector<TextSpan>& out) {
  std::uint32_t begin = piece.begin, count = 0;
  for (std::uint32_t i = piece.begin; i < piece.end;) {
    i += decode_utf8(text.data() + i).size;
    if (++count < step.length && i < piece.end) continue;
    out.push_back({begin, i});
    begin = i;
    count = 0;
  }
}

// A piece starts at every replacement, whether it stood in the text or was a space.
void metaspace(const PreTokenizer::Step& step, std::string_view own, bool first, CutText& cut) {
  std::string& out = cut.other;
  auto begin = static_cast<std::uint32_t>(out.size());
  const auto start_piece = [&] {
    const auto here = static_cast<std::uint32_t>(out.size());
    if (step.cuts && here > begin) cut.other_pieces.push_back({begin, here});
    if (step.cuts) begin = here;
    out += step.literal;
  };
  const bool prepends = step.prepend == PreTokenizer::Prepend::always ||
                        (step.prepend == PreTokenizer::Prepend::first && first);
  if (prepends && !own.starts_with(' ') && !own.starts_with(step.literal)) start_piece();
  std::size_t literal = own.find(step.literal);  // the next one, from `i` on
  for (std::size_t i = 0; i < own.size();) {
    const std::size_t stop = std::min(own.find(' ', i), literal);
    out.append(own, i, std::min(stop, own.size()) - i);
    if (stop == std::string_view::npos) break;
    start_piece();
    i = stop + (stop == literal ? step.literal.size() : 1);
    if (stop == literal) literal = own.find(step.literal, i);
  }
  const auto end = static_cast<std::uint32_t>(out.size());
  if (end > begin) cut.other_pieces.push_back({begin, end});
}

void byte_level(const PreTokenizer::Step& step, std::string_view own, CutText& cut) {
  std::string spaced;
  if (step.add_prefix_space && !own.starts_with(' ')) {
    spaced = " ";
    spaced += own;
    own = spaced;
  }
  std::vector<std::uint32_t> lengths;
  step.pattern.split(own, lengths);
  std::size_t at = 0;
  for (const std::uint32_t n : lengths) {
    const auto begin = static_cast<std::uint32_t>(cut.other.size());
    cut.other += token_of_bytes(own.substr(at, n));
    cut.other_pieces.push_back({begin, static_cast<std::uint32_t>(cut.other.size())});
    at += n;
  }
}

}  // namespace

bool is_punctuation(std::uint32_t c) {
  const bool ascii = (c >= 33 && c <= 47) || (c >= 58 && c <= 64) || (c >= 91 && c <= 96) || (c >= 123 && c <= 126);
  if (c < 0x80) return ascii;
  return ((unicode_classes()[c] & kPunctuation) != 0 && !is_in(kNoBertPunctuation, c)) || is_in(kExtraBertPunctuation, c);
}

bool is_word_character(std::uint32_t c) {
  const Category category = category_of(c);
  const bool circled = (c >= 0x24B6 && c <= 0x24E9) || (c >= 0x1F130 && c <= 0x1F149) ||
                       (c >= 0x1F150 && c <= 0x1F169) || (c >= 0x1F170 && c <= 0x1F189);
  return (unicode_classes()[c] & (kLetter | kMark)) != 0 || category == Category::Nd || category == Category::Nl ||
         category == Category::Pc || c == 0x200C || c == 0x200D || circled;
}

void cut_piece(const PreTokenizer::Step& step, std::string_view text, TextSpan piece, bool at_start, CutText& cut) {
  std::vector<TextSpan>& out = cut.other_pieces;
  const std::string_view own = text.substr(piece.begin, piece.end - piece.begin);
  switch (step.kind) {
    case Kind::split: return step.literal.empty() ? cut_regex(step, text, piece, out) : cut_literal(step, text, piece, out);
    case Kind::char_delimiter: return cut_literal(step, text, piece, out);
    case Kind::digits: return cut_at(text, piece, step.behavior, out, is_number);
    case Kind::punctuation: return cut_at(text, piece, step.behavior, out, is_punctuation);
    case Kind::whitespace: return word_runs(text, piece, out);
    case Kind::whitespace_split: return space_separated(text, piece, out);
    case Kind::bert: return words(text, piece, out, is_punctuation);
    case Kind::unicode_scripts: return script_runs(text, piece, out);
    case Kind::fixed_length: return cut_length(step, text, piece, out);
    case Kind::metaspace: return metaspace(step, own, at_start && piece.begin == 0, cut);
    case Kind::byte_level: return byte_level(step, own, cut);
  }
}

}  // namespace mt::tokenizer
