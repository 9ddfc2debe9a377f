#include "data/sentence_splitter.h"

#include <algorithm>
#include <string>

#include "tokenizer/unicode.h"

namespace mt::data {

namespace {

// Words that are written with a full stop that ends no sentence, in small letters; the second list: before a number.
constexpr std::string_view kAbbreviations[] = {
    "adm", "assn", "ave", "blvd", "bros", "capt", "cf", "col", "corp", "dept", "dr", "esp", "gen", "gov", "hon", "inc", "jr",
    "lt", "ltd", "maj", "messrs", "mr", "mrs", "ms", "mt", "prof", "rep", "rev", "sen", "sgt", "sr", "st", "univ", "vs"};
constexpr std::string_view kBeforeNumbers[] = {"apr", "aug", "ch", "dec", "eq", "est", "feb", "fig", "figs", "jan",
                                               "jul", "jun", "mar", "no", "nos", "nov", "oct", "op", "p", "pp",
                                               "pt", "sec", "sep", "sept", "vol", "vols"};

bool is_space(std::uint32_t c) { return (tokenizer::unicode_classes()[c] & tokenizer::kSpace) != 0; }
bool is_end_mark(std::uint32_t c) { return c == '.' || c == '!' || c == '?' || c == 0x2026; }
bool is_wide_end_mark(std::uint32_t c) { return c == 0x3002 || c == 0xFF01 || c == 0xFF1F || c == 0xFF61; }
bool is_closing(std::uint32_t c) {
  return c == '"' || c == '\'' || c == ')' || c == ']' || c == '}' || c == 0xBB || c == 0x2019 || c == 0x201D ||
         c == 0x300D || c == 0x300F || c == 0xFF09 || c == 0x3011;
}
bool is_opening(std::uint32_t c) {
  return c == '"' || c == '\'' || c == '(' || c == '[' || c == '{' || c == 0xAB || c == 0x2018 || c == 0x201C;
}

bool is_abbreviation(std::string_view word, bool number_follows) {
  if (word.size() > 6) return false;
  std::string small(word);
  for (char& c : small) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  const auto in = [&small](const auto& list) { return std::binary_search(std::begin(list), std::end(list), std::string_view(small)); };
  return in(kAbbreviations) || (number_follows && in(kBeforeNumbers));
}

// One pass over one piece of text.
class Splitter {
 public:
  Splitter(std::string_view text, bool keep_space, std::vector<std::string_view>& out)
      : text_(text), keep_space_(keep_space), out_(out) {}

  void run() {
    start_ = skip_space(0);
    for (std::size_t at = start_; at < text_.size();) {
      const tokenizer::Decoded c = tokenizer::decode_utf8(text_.data() + at);
      if (c.code_point == '\n') {
        const std::size_t next = skip_space(at);
        const std::string_view between = text_.substr(at, next - at);
        if (between.find('\n', 1) != std::string_view::npos) end_sentence(at, next);
        at = next;
      } else if (is_end_mark(c.code_point) || is_wide_end_mark(c.code_point)) {
        at = end_mark(at);
      } else {
        at += c.size;
      }
    }
    if (start_ < text_.size()) end_sentence(text_.size(), text_.size());
  }

 private:
  tokenizer::Decoded at(std::size_t i) const { return tokenizer::decode_utf8(text_.data() + i); }
  std::size_t skip_space(std::size_t i) const {
    while (i < text_.size() && is_space(at(i).code_point)) i += at(i).size;
    return i;
  }
  template <class Is>
  std::size_t skip(std::size_t i, Is is) const {
    while (i < text_.size() && is(at(i).code_point)) i += at(i).size;
    return i;
  }

  // The sentence ends before `end`; the next begins at `next`.
  void end_sentence(std::size_t end, std::size_t next) {
    std::size_t stop = end;
    while (stop > start_ && static_cast<unsigned char>(text_[stop - 1]) <= ' ' && is_space(static_cast<unsigned char>(text_[stop - 1]))) --stop;
    if (stop > start_) out_.push_back(text_.substr(start_, (keep_space_ ? next : stop) - start_));
    start_ = next;
  }

  // At a mark that may end the sentence.   gives  where to go on
  std::size_t end_mark(std::size_t from) {
    const bool wide = is_wide_end_mark(at(from).code_point);
    std::size_t end = wide ? skip(from, is_wide_end_mark) : skip(from, is_end_mark);
    const bool one_stop = end == from + 1 && text_[from] == '.';
    end = skip(end, is_closing);
    const std::size_t next = skip_space(end);
    if (!wide && next == end && end < text_.size()) return end;  // inside a word or a number
    const bool empty_line = std::count(text_.begin() + static_cast<std::ptrdiff_t>(end),
                                       text_.begin() + static_cast<std::ptrdiff_t>(next), '\n') > 1;
    const bool goes_on = begins_small(next) || (one_stop && is_open(from, next));
    if (next < text_.size() && !wide && !empty_line && goes_on) return next;
    end_sentence(end, next);
    return next;
  }

  // The first letter past opening marks.
  std::uint32_t first_letter(std::size_t next) const {
    next = skip(next, is_opening);
    return next < text_.size() ? at(next).code_point : 0;
  }
  bool begins_small(std::size_t next) const { return (tokenizer::unicode_classes()[first_letter(next)] & tokenizer::kLower) != 0; }

  // True where the full stop at `stop` belongs to its word and ends nothing.
  bool is_open(std::size_t stop, std::size_t next) const {
    std::size_t begin = stop;
    while (begin > start_ && !is_space(static_cast<unsigned char>(text_[begin - 1])) && stop - begin < 64) --begin;
    std::string_view word = text_.substr(begin, stop - begin);
    while (!word.empty() && is_opening(static_cast<unsigned char>(word.front()))) word.remove_prefix(1);
    if (word.empty()) return false;
    const bool dotted = word.find('.') != std::string_view::npos && word.find_first_of("0123456789") == std::string_view::npos;
    if (dotted) return (tokenizer::unicode_classes()[first_letter(next)] & tokenizer::kUpper) == 0;
    const std::uint32_t follows = first_letter(next);
    if (is_abbreviation(word, follows >= '0' && follows <= '9')) return true;
    const bool number = word.find_first_not_of("0123456789") == std::string_view::npos;
    if (number) return begin == start_;
    const tokenizer::Decoded first = tokenizer::decode_utf8(word.data());
    return first.size == word.size() && (tokenizer::unicode_classes()[first.code_point] & tokenizer::kUpper) != 0;
  }

  std::string_view text_;
  bool keep_space_;
  std::vector<std::string_view>& out_;
  std::size_t start_ = 0;
};

// Bytes of the first `count` code points.
std::size_t prefix_bytes(std::string_view text, std::size_t count) {
  if (text.size() <= count) return text.size();
  std::size_t at = 0;
  for (std::size_t i = 0; i < count && at < text.size(); ++i) at += tokenizer::decode_utf8(text.data() + at).size;
  return at;
}

}  // namespace

void split_sentences(std::string_view text, bool keep_space, std::vector<std::string_view>& out) {
  while (!text.empty()) {
    const std::size_t piece = prefix_bytes(text, kSentencePiece);
    Splitter(text.substr(0, piece), keep_space, out).run();
    text.remove_prefix(piece);
  }
}

}  // namespace mt::data
