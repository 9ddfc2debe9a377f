#pragma once
// Unicode normal form C, skipping text that plainly is in it already.
//
// Code: tokenizer/nfc.cc, tokenizer/text_forms.cc. Tests: tests/tokenizer/unicode_test.cc.

#include <string>
#include <string_view>

namespace mt::tokenizer {

// True if NFC can change no code point of it, whatever stands beside it; false means "perhaps not".   cost  over 5 GB/s for ASCII
bool plainly_nfc(std::string_view text);

// The normalised text: `text` itself where plainly_nfc, else written to `buffer`.
//   needs  valid UTF-8
//   fails  Error{data}: utf8proc's words
std::string_view to_nfc(std::string_view text, std::string& buffer);

}  // namespace mt::tokenizer
