#include <algorithm>

#include <utf8proc.h>

#include "base/error.h"
#include "tokenizer/byte_level_bpe.h"
#include "tokenizer/text_forms.h"
#include "tokenizer/normalizer.h"
#include "tokenizer/older_unicode.h"
#include "tokenizer/unicode.h"

namespace mt::tokenizer {

namespace {

using Kind = Normalizer::Kind;

bool is_space(std::uint32_t c) { return (unicode_classes()[c] & kSpace) != 0; }
bool is_accent(std::uint32_t c) {
  return ((unicode_classes()[c] & kMark) != 0 && !is_in(kNoAccent, c)) || is_in(kExtraAccent, c);
}

// Runs of bytes that `plain` accepts are copied whole; `special` gets the others, a code point at a time.
template <class Plain, class Special>
void each_code_point(std::string_view text, std::string& out, Plain plain, Special special) {
  for (std::size_t i = 0; i < text.size();) {
    std::size_t end = i;
    while (end < text.size() && plain(static_cast<unsigned char>(text[end]))) ++end;
    out.append(text, i, end - i);
    i = end;
    if (i == text.size()) break;
    const Decoded d = decode_utf8(text.data() + i);
    special(d.code_point, text.substr(i, d.size));
    i += d.size;
  }
}

void lowercase(std::string_view text, std::string& out) {
  each_code_point(
      text, out, [](unsigned char b) { return b < 0x80 && !(b >= 'A' && b <= 'Z'); },
      [&out](std::uint32_t c, std::string_view) { append_lower(c, out); });
}

template <class Drop>
void without(std::string_view text, std::string& out, Drop drop) {
  each_code_point(
      text, out, [](unsigned char b) { return b < 0x80; },
      [&](std::uint32_t c, std::string_view bytes) {
        if (!drop(c)) out += bytes;
      });
}

void strip(const Normalizer::Step& step, std::string_view text, std::string& out) {
  while (step.left && !text.empty()) {
    const Decoded d = decode_utf8(text.data());
    if (!is_space(d.code_point)) break;
    text.remove_prefix(d.size);
  }
  while (step.right && !text.empty()) {
    std::size_t last = text.size() - 1;
    while (last > 0 && (static_cast<unsigned char>(text[last]) & 0xC0) == 0x80) --last;
    if (!is_space(decode_utf8(text.data() + last).code_point)) break;
    text = text.substr(0, last);
  }
  out += text;
}

void nmt(std::string_view text, std::string& out) {
  const auto special = [&out](std::uint32_t c, std::string_view bytes) {
    if ((c >= 0x01 && c <= 0x08) || c == 0x0B || (c >= 0x0E && c <= 0x1F) || c == 0x7F || c == 0x8F || c == 0x9F) return;
    const bool blank = c == 0x09 || c == 0x0A || c == 0x0C || c == 0x0D || c == 0x1680 || (c >= 0x200B && c <= 0x200F) ||
                       c == 0x2028 || c == 0x2029 || c == 0x2581 || c == 0xFEFF || c == 0xFFFD;
    out += blank ? std::string_view(" ") : bytes;
  };
  each_code_point(text, out, [](unsigned char b) { return b >= 0x20 && b < 0x7F; }, special);
}

void replace(const Normalizer::Step& step, std::string_view text, std::string& out) {
  std::size_t done = 0;
  const auto put = [&](std::size_t begin, std::size_t end) {
    out.append(text, done, begin - done);
    out += step.content;
    done = end;
  };
  if (step.regex) {
    std::vector<TextSpan> matches;
    step.regex->find_all(text, matches);
    for (const TextSpan& match : matches) put(match.begin, match.end);
  } else if (step.pattern.size() == 1) {
    const char wanted = step.pattern.front();
    out.reserve(out.size() + text.size() + text.size() / 2);
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (text[i] == wanted) put(i, i + 1);
    }
  } else {
    for (std::size_t hit; (hit = text.find(step.pattern, done)) != std::string_view::npos;) {
      put(hit, hit + step.pattern.size());
    }
  }
  out.append(text, done, std::string_view::npos);
}

// Two of these in a row are two grapheme clusters: no marks, joiners, jamo, regional indicators among them.
bool stands_alone(std::uint32_t c) {
  return c < 0x300 || (c >= 0x400 && c <= 0x482) || (c >= 0x48A && c <= 0x52F) || (c >= 0x2010 && c <= 0x2027) ||
         (c >= 0x3001 && c <= 0x3029) || (c >= 0x3041 && c <= 0x3096) || (c >= 0x30A1 && c <= 0x30FA) ||
         (c >= 0x3400 && c <= 0x9FFF) || (c >= 0xFF01 && c <= 0xFF9D);
}

// The end of the grapheme cluster that starts at `begin`.
std::size_t cluster_end(std::string_view text, std::size_t begin) {
  utf8proc_int32_t state = 0;
  Decoded d = decode_utf8(text.data() + begin);
  std::size_t end = begin + d.size;
  while (end < text.size()) {
    const Decoded next = decode_utf8(text.data() + end);
    const bool both_plain = stands_alone(d.code_point) && stands_alone(next.code_point) && d.code_point != '\r';
    if (both_plain || utf8proc_grapheme_break_stateful(static_cast<utf8proc_int32_t>(d.code_point),
                                                       static_cast<utf8proc_int32_t>(next.code_point), &state)) {
      break;
    }
    d = next;
    end += d.size;
  }
  return end;
}

void precompiled(const CharsMap& map, std::string_view text, std::string& out) {
  const auto is_ascii = [text](std::size_t k) { return (static_cast<unsigned char>(text[k]) & 0x80) == 0; };
  for (std::size_t i = 0; i < text.size();) {
    // ASCII that is nothing of the map, and that no mark follows.
    std::size_t run = i;
    while (run + 1 < text.size() && is_ascii(run) && is_ascii(run + 1) && !map.maps_alone(text[run])) ++run;
    if (run > i) {
      out.append(text, i, run - i);
      i = run;
    }
    const std::size_t end = cluster_end(text, i);
    if (end - i < 6) {
      const CharsMap::Match match = map.shortest(text.substr(i, end - i));
      if (match.size > 0) {
        out += match.replacement;
        i = end;
        continue;
      }
    }
    while (i < end) {
      const std::size_t size = decode_utf8(text.data() + i).size;
      const CharsMap::Match match = map.shortest(text.substr(i, size));
      out += match.size > 0 ? match.replacement : text.substr(i, size);
      i += size;
    }
  }
}

void bert(const Normalizer::Step& step, std::string_view text, std::string& out) {
  std::string cleaned, plain;
  const auto special = [&](std::uint32_t c, std::string_view bytes) {
    if (step.clean_text) {
      const bool kept_control = c == '\t' || c == '\n' || c == '\r';
      if (c == 0 || c == 0xFFFD || (!kept_control && is_bert_control(c))) return;
      if (kept_control || is_space(c)) bytes = " ";
    }
    const bool apart = step.chinese && is_bert_chinese(c);
    if (apart) cleaned += ' ';
    cleaned += bytes;
    if (apart) cleaned += ' ';
  };
  each_code_point(text, cleaned, [](unsigned char b) { return b >= 0x20 && b < 0x7F; }, special);
  if (step.strip_accents) {
    std::string apart;
    append_normal_form(cleaned, NormalForm::nfd, apart);
    without(apart, plain, is_bert_mark);
    cleaned.swap(plain);
  }
  step.lowercase ? lowercase(cleaned, out) : void(out += cleaned);
}

}  // namespace

bool is_bert_mark(std::uint32_t c) {
  return (category_of(c) == Category::Mn && !is_in(kNoBertMark, c)) || is_in(kExtraBertMark, c);
}

bool is_bert_control(std::uint32_t c) {
  const Category category = category_of(c);
  const bool other =
      category == Category::Cc || category == Category::Cf || category == Category::Co || category == Category::Cs;
  return other && !is_in(kNoBertControl, c);
}

// The library's own list; BERT's first one has U+2B820 in place of U+2B920.
bool is_bert_chinese(std::uint32_t c) {
  return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) || (c >= 0x20000 && c <= 0x2A6DF) ||
         (c >= 0x2A700 && c <= 0x2B73F) || (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) ||
         (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

void apply_step(const Normalizer::Step& step, std::string_view text, std::string& out) {
  switch (step.kind) {
    case Kind::nfc: return append_normal_form(text, NormalForm::nfc, out);
    case Kind::nfd: return append_normal_form(text, NormalForm::nfd, out);
    case Kind::nfkc: return append_normal_form(text, NormalForm::nfkc, out);
    case Kind::nfkd: return append_normal_form(text, NormalForm::nfkd, out);
    case Kind::lowercase: return lowercase(text, out);
    case Kind::strip: return strip(step, text, out);
    case Kind::strip_accents: return without(text, out, is_accent);
    case Kind::nmt: return nmt(text, out);
    case Kind::prepend:
      if (!text.empty()) out += step.content;
      out += text;
      return;
    case Kind::replace: return replace(step, text, out);
    case Kind::byte_level: out += token_of_bytes(text); return;
    case Kind::precompiled: return precompiled(step.map, text, out);
    case Kind::bert: return bert(step, text, out);
  }
}

}  // namespace mt::tokenizer
