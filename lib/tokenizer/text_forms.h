#pragma once
// Lower case and normal forms, as the tokenizers' normalisers ask for them.
//
// Code: tokenizer/text_forms.cc (utf8proc, and what Unicode 16 added to its tables). Tests: tests/tokenizer/peer_vectors_test.cc.

#include <cstdint>
#include <string>
#include <string_view>

namespace mt::tokenizer {

// Append the lower case of a code point: one code point, but for U+0130, which is i and a dot above. No rule looks at
// neighbours (a final sigma is like any other).
void append_lower(std::uint32_t code_point, std::string& out);

enum class NormalForm { nfc, nfd, nfkc, nfkd };

// `text` in a normal form, appended to `out`. Code points younger than the reference's tables (tokenizer/older_unicode.h)
// stay as they are, whatever utf8proc knows of them.
//   needs  valid UTF-8
//   fails  Error{data}: utf8proc's words
//   cost   stretches that the form leaves alone are copied, about 1 GB/s, ASCII more; the others 40 MB/s. The first call
//          of a form builds a table of 136 KiB, some 10 ms
void append_normal_form(std::string_view text, NormalForm form, std::string& out);

// True if no code point can be changed by the form, whatever stands beside it; false means "perhaps".
//   cost  over 5 GB/s for ASCII
bool is_plainly(std::string_view text, NormalForm form);

}  // namespace mt::tokenizer
