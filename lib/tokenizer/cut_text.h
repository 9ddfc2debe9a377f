#pragma once
// A text and the pieces it is cut into.
//
// Code: none. Tests: tests/tokenizer/peer_vectors_test.cc.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mt::tokenizer {

// Bytes begin to end of the text it belongs to.
struct TextSpan {
  std::uint32_t begin, end;
  friend bool operator==(const TextSpan&, const TextSpan&) = default;
};

// A text and its pieces; the rest is scratch, kept from call to call.
struct CutText {
  std::string_view text;         // the caller's, or one of the two below
  std::vector<TextSpan> pieces;  // of `text`, in order; there may be gaps
  std::string rewritten, other;
  std::vector<TextSpan> other_pieces;
};

}  // namespace mt::tokenizer
