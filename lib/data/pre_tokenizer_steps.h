#pragma once
// One step of a pre-tokenizer on one piece; only data/pre_tokenizer.cc calls it.
//
// Code: data/pre_tokenizer_steps.cc. Tests: tests/data/peer_vectors_test.cc.

#include "data/pre_tokenizer.h"

namespace mt::data {

// Append what becomes of `piece` to cut.other_pieces; steps that rewrite append its text to cut.other.
//   needs  at_start: the text begins the document
void cut_piece(const PreTokenizer::Step& step, std::string_view text, TextSpan piece, bool at_start, CutText& cut);

}  // namespace mt::data
