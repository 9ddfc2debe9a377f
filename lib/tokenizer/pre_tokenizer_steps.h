#pragma once
// One step of a pre-tokenizer on one piece; only tokenizer/pre_tokenizer.cc calls it.
//
// Code: tokenizer/pre_tokenizer_steps.cc. Tests: tests/tokenizer/peer_vectors_test.cc.

#include "tokenizer/pre_tokenizer.h"

namespace mt::tokenizer {

// Append what becomes of `piece` to cut.other_pieces; steps that rewrite append its text to cut.other.
//   needs  at_start: the text begins the document
void cut_piece(const PreTokenizer::Step& step, std::string_view text, TextSpan piece, bool at_start, CutText& cut);

}  // namespace mt::tokenizer
