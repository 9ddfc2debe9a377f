#include "tokenizer/bert_words.h"

#include <algorithm>
#include <bit>

#include <utf8proc.h>

#include "tokenizer/ascii_block.h"
#include "tokenizer/pre_tokenizer.h"
#include "tokenizer/text_forms.h"
#include "tokenizer/unicode.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace mt::tokenizer {

namespace {

constexpr std::uint32_t kBasicPlane = 0x10000;

bool is_space(std::uint32_t c) { return (unicode_classes()[c] & kSpace) != 0; }

void append_lower_block(const char* s, bool lowercase, std::string& out) {
  const std::size_t old = out.size();
  out.append(s, kBlockBytes);
  if (!lowercase) return;
  char* to = out.data() + old;
#if defined(__SSE2__)
  for (int part = 0; part < 4; ++part) {
    auto* at = reinterpret_cast<__m128i*>(to + 16 * part);
    const __m128i v = _mm_loadu_si128(at);
    const __m128i capital =
        _mm_and_si128(_mm_cmpgt_epi8(v, _mm_set1_epi8('A' - 1)), _mm_cmplt_epi8(v, _mm_set1_epi8('Z' + 1)));
    _mm_storeu_si128(at, _mm_or_si128(v, _mm_and_si128(capital, _mm_set1_epi8(0x20))));
  }
#else
  for (std::size_t k = 0; k < kBlockBytes; ++k) {
    if (to[k] >= 'A' && to[k] <= 'Z') to[k] = static_cast<char>(to[k] | 0x20);
  }
#endif
}

// White space in the block that is neither a blank, a tab nor a line end is a control too.
bool has_other_space(const char* s, const AsciiBlock& block) {
  std::uint64_t odd = block.space & ~(block.blank | block.newline);
  for (; odd != 0; odd &= odd - 1) {
    if (s[std::countr_zero(odd)] != '\t') return true;
  }
  return false;
}

}  // namespace

// Text so far and its words; `open` is where a word began that may go on.
struct BertWords::Writer {
  static constexpr std::uint32_t kNone = 0xFFFFFFFF;
  std::string& text;
  std::vector<TextSpan>& pieces;
  std::uint32_t open = kNone;

  std::uint32_t here() const { return static_cast<std::uint32_t>(text.size()); }
  void close(std::uint32_t end) {
    if (open != kNone) pieces.push_back({open, end});
    open = kNone;
  }
  void begin_word() {
    if (open == kNone) open = here();
  }
  void word(std::string_view bytes) {
    begin_word();
    text += bytes;
  }
  void apart(std::string_view bytes) {
    close(here());
    const std::uint32_t begin = here();
    text += bytes;
    pieces.push_back({begin, here()});
  }
};

BertWords::BertWords(const Normalizer::Step& step)
    : clean_text_(step.clean_text),
      chinese_(step.chinese),
      strip_accents_(step.strip_accents),
      lowercase_(step.lowercase),
      fates_(kBasicPlane) {
  for (std::uint32_t c = 0; c < kBasicPlane; ++c) fates_[c] = c >= 0xD800 && c < 0xE000 ? Fate::word : fate_of(c);
}

BertWords::Fate BertWords::fate_of(std::uint32_t c) const {
  const bool kept = c == '\t' || c == '\n' || c == '\r';  // controls, and white space
  if (clean_text_ && (c == 0 || c == 0xFFFD || (!kept && is_bert_control(c)))) return Fate::drop;
  if (is_space(c)) return Fate::space;
  if (strip_accents_ && c >= 0x80) {
    if (is_bert_mark(c)) return Fate::drop;
    std::string one, parts;
    append_utf8(c, one);
    if (!is_plainly(one, NormalForm::nfd)) {
      append_normal_form(one, NormalForm::nfd, parts);
      for (std::size_t i = 0; i < parts.size();) {
        const Decoded d = decode_utf8(parts.data() + i);
        const auto* property = utf8proc_get_property(static_cast<utf8proc_int32_t>(d.code_point));
        if (property->combining_class != 0 && !is_bert_mark(d.code_point)) return Fate::order;
        i += d.size;
      }
      if (parts != one) return Fate::change;
    }
  }
  if (lowercase_) {
    std::string one, lower;
    append_utf8(c, one);
    append_lower(c, lower);
    if (lower != one) return Fate::change;
  }
  return is_punctuation(c) || (chinese_ && is_bert_chinese(c)) ? Fate::apart : Fate::word;
}

// A code point that is not itself afterwards.
void BertWords::change(std::uint32_t c, Writer& out) const {
  std::string one, apart, lower;
  append_utf8(c, one);
  const bool chinese = chinese_ && is_bert_chinese(c);
  if (chinese) out.close(out.here());
  if (strip_accents_) {
    append_normal_form(one, NormalForm::nfd, apart);
  } else {
    apart = one;
  }
  for (std::size_t i = 0; i < apart.size();) {
    const Decoded d = decode_utf8(apart.data() + i);
    i += d.size;
    if (strip_accents_ && is_bert_mark(d.code_point)) continue;
    lowercase_ ? append_lower(d.code_point, lower) : append_utf8(d.code_point, lower);
  }
  for (std::size_t i = 0; i < lower.size();) {
    const Decoded d = decode_utf8(lower.data() + i);
    const std::string_view bytes(lower.data() + i, d.size);
    i += d.size;
    if (is_space(d.code_point)) {
      out.close(out.here());
    } else {
      is_punctuation(d.code_point) ? out.apart(bytes) : out.word(bytes);
    }
  }
  if (chinese) out.close(out.here());
}

// ASCII without controls from `s` on, in whole blocks.   gives  the bytes that were taken
std::size_t BertWords::add_ascii(const char* s, std::size_t size, Writer& out) const {
  std::size_t done = 0;
  for (; size - done >= kBlockBytes; done += kBlockBytes) {
    const AsciiBlock block = classify_block(s + done);
    if ((block.high | block.control) != 0 || has_other_space(s + done, block)) break;
    const std::uint32_t base = out.here();
    append_lower_block(s + done, lowercase_, out.text);
    const std::uint64_t word = block.letter | block.digit, sign = ~(word | block.space);
    std::uint64_t starts = (word & ~(word << 1)) | sign;
    if (out.open != Writer::kNone) {
      const int run = std::countr_one(word);
      if (run == 64) continue;
      out.close(base + static_cast<std::uint32_t>(run));
      if (run > 0) starts &= ~std::uint64_t{1};
    }
    for (; starts != 0; starts &= starts - 1) {
      const int first = std::countr_zero(starts);
      const int run = (sign >> first & 1) != 0 ? 1 : std::countr_one(word >> first);
      const std::uint32_t begin = base + static_cast<std::uint32_t>(first);
      if (first + run == 64 && (word >> first & 1) != 0) {
        out.open = begin;
      } else {
        out.pieces.push_back({begin, begin + static_cast<std::uint32_t>(run)});
      }
    }
  }
  return done;
}

bool BertWords::apply(std::string_view text, CutText& cut) const {
  cut.rewritten.clear();
  cut.rewritten.reserve(text.size() + text.size() / 4);
  cut.pieces.clear();
  Writer out{cut.rewritten, cut.pieces};
  for (std::size_t i = 0; i < text.size();) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte < 0x80 && text.size() - i >= kBlockBytes) {
      const std::size_t taken = add_ascii(text.data() + i, text.size() - i, out);
      i += taken;
      if (taken > 0) continue;
    }
    // A stretch that is no whole block of ASCII, code point by code point, and then another try.
    const std::size_t stop = std::min(text.size(), i + kBlockBytes);
    while (i < stop) {
      const Decoded d = decode_utf8(text.data() + i);
      const std::string_view bytes = text.substr(i, d.size);
      i += d.size;
      if (d.code_point < 0x80 && lowercase_ && d.code_point >= 'A' && d.code_point <= 'Z') {
        out.begin_word();
        out.text.push_back(static_cast<char>(d.code_point | 0x20));
        continue;
      }
      switch (d.code_point < kBasicPlane ? fates_[d.code_point] : fate_of(d.code_point)) {
        case Fate::word: out.word(bytes); break;
        case Fate::apart: out.apart(bytes); break;
        case Fate::space: out.close(out.here()); break;
        case Fate::drop: break;
        case Fate::change: change(d.code_point, out); break;
        case Fate::order: return false;
      }
    }
  }
  out.close(out.here());
  cut.text = cut.rewritten;
  return true;
}

}  // namespace mt::tokenizer
