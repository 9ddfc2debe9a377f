#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>

#include "base/error.h"
#include "tokenizer/regex_classes.h"
#include "tokenizer/split_pattern.h"

namespace mt::tokenizer {

struct PcrePattern::Code {
  pcre2_code* code = nullptr;
  ~Code() { pcre2_code_free(code); }
};

namespace {

std::string pcre_text(int error_number) {
  unsigned char text[256] = {0};
  pcre2_get_error_message(error_number, text, sizeof text);
  return reinterpret_cast<const char*>(text);
}

}  // namespace

PcrePattern::PcrePattern(const std::string& regex) : code_(std::make_unique<Code>()) {
  const auto compile = [](const std::string& text, int& error, PCRE2_SIZE& place) {
    return pcre2_compile(reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), PCRE2_UTF | PCRE2_UCP, &error, &place,
                         nullptr);
  };
  int error = 0;
  PCRE2_SIZE place = 0;
  code_->code = compile(pin_character_classes(regex), error, place);
  if (code_->code == nullptr) {
    const int first_error = error;
    pcre2_code_free(compile(regex, error, place));  // the place is to be one of the user's text
    throw Error(mt::Code::data, fmt::format("split pattern, place {}: {}", place, pcre_text(first_error)), regex);
  }
  pcre2_jit_compile(code_->code, PCRE2_JIT_COMPLETE);  // without a JIT pcre2_match interprets
}

PcrePattern::~PcrePattern() = default;

void PcrePattern::find_all(std::string_view text, std::vector<TextSpan>& matches) const {
  MT_CHECK(text.size() < (std::size_t{1} << 32), "text of {} bytes", text.size());
  struct MatchData {
    pcre2_match_data* data;
    ~MatchData() { pcre2_match_data_free(data); }
  } match{pcre2_match_data_create_from_pattern(code_->code, nullptr)};
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  std::size_t from = 0;
  while (from < text.size()) {
    int n = pcre2_match(code_->code, subject, text.size(), from, PCRE2_NO_UTF_CHECK, match.data, nullptr);
    if (n == PCRE2_ERROR_JIT_STACKLIMIT) {  // a very long match; the interpreter keeps its stack on the heap
      n = pcre2_match(code_->code, subject, text.size(), from, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, match.data, nullptr);
    }
    if (n == PCRE2_ERROR_NOMATCH) break;
    if (n < 0) throw Error(mt::Code::data, "split pattern: " + pcre_text(n));
    const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(match.data);
    if (bounds[1] <= bounds[0]) {  // an empty match: step over one code point
      from = std::max(from, bounds[1]) + 1;
      while (from < text.size() && (static_cast<unsigned char>(text[from]) & 0xC0) == 0x80) ++from;
      continue;
    }
    matches.push_back({static_cast<std::uint32_t>(bounds[0]), static_cast<std::uint32_t>(bounds[1])});
    from = bounds[1];
  }
}

void PcrePattern::split(std::string_view text, std::vector<std::uint32_t>& lengths) const {
  std::vector<TextSpan> matches;
  find_all(text, matches);
  std::uint32_t done = 0;
  for (const TextSpan& match : matches) {
    if (match.begin > done) lengths.push_back(match.begin - done);
    lengths.push_back(match.end - match.begin);
    done = match.end;
  }
  if (text.size() > done) lengths.push_back(static_cast<std::uint32_t>(text.size()) - done);
}

}  // namespace mt::tokenizer
