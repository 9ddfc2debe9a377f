#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/error.h"
#include "data/split_pattern.h"

namespace mt::data {

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
  int error = 0;
  PCRE2_SIZE offset = 0;
  code_->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(regex.data()), regex.size(), PCRE2_UTF | PCRE2_UCP, &error,
                              &offset, nullptr);
  if (code_->code == nullptr) {
    throw Error(mt::Code::data, fmt::format("split pattern, place {}: {}", offset, pcre_text(error)), regex);
  }
  pcre2_jit_compile(code_->code, PCRE2_JIT_COMPLETE);  // without a JIT pcre2_match interprets
}

PcrePattern::~PcrePattern() = default;

void PcrePattern::split(std::string_view text, std::vector<std::uint32_t>& lengths) const {
  MT_CHECK(text.size() < (std::size_t{1} << 32), "text of {} bytes", text.size());
  struct MatchData {
    pcre2_match_data* data;
    ~MatchData() { pcre2_match_data_free(data); }
  } match{pcre2_match_data_create_from_pattern(code_->code, nullptr)};
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  const auto piece = [&lengths](std::size_t begin, std::size_t end) {
    if (end > begin) lengths.push_back(static_cast<std::uint32_t>(end - begin));
  };
  std::size_t done = 0, from = 0;
  while (from < text.size()) {
    int n = pcre2_match(code_->code, subject, text.size(), from, PCRE2_NO_UTF_CHECK, match.data, nullptr);
    if (n == PCRE2_ERROR_JIT_STACKLIMIT) {  // a very long match; the interpreter keeps its stack on the heap
      n = pcre2_match(code_->code, subject, text.size(), from, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, match.data, nullptr);
    }
    if (n == PCRE2_ERROR_NOMATCH) break;
    if (n < 0) throw Error(mt::Code::data, "split pattern: " + pcre_text(n));
    const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(match.data);
    if (bounds[1] == bounds[0]) {  // an empty match: step over one code point, which joins the gap
      ++from;
      while (from < text.size() && (static_cast<unsigned char>(text[from]) & 0xC0) == 0x80) ++from;
      continue;
    }
    piece(done, bounds[0]);
    piece(bounds[0], bounds[1]);
    done = from = bounds[1];
  }
  piece(done, text.size());
}

}  // namespace mt::data
