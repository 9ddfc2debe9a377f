#pragma once
// The regex dialect of tokenizer files (Oniguruma over Unicode 16) in the words of PCRE2, whose tables depend on the
// machine: Debian 12's are of Unicode 14.
//
// \p{L} and its like keep their names and get the younger code points beside them; \s \d \w \h are spelled out.
// Code: tokenizer/regex_classes.cc. Tests: tests/tokenizer/split_pattern_test.cc.

#include <string>
#include <string_view>

namespace mt::tokenizer {

// The regex with its character classes pinned to Unicode 16.
//   gives  a pattern for PCRE2 with PCRE2_UTF and PCRE2_UCP. \P{..} and \S \D \W inside brackets stay the library's
//   fails  Error{data}: && or a negated set inside a set, which PCRE2 lacks
std::string pin_character_classes(std::string_view regex);

}  // namespace mt::tokenizer
