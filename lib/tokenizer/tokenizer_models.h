#pragma once
// The models of a tokenizer.json, from their part of the file.
//
// Code: tokenizer/tokenizer_models.cc. Tests: tests/tokenizer/tokenizer_json_test.cc, peer_vectors_test.cc.

#include "tokenizer/pipeline_tokenizer.h"
#include "tokenizer/tokenizer_file.h"

namespace mt::tokenizer {

// The model's "type"; old files do not say it, and it is told by what they hold.
std::string model_type(const dom::element& model);

// Any model over characters or words; its tokens, as the file spells them, go to `tokens`, which is sealed.
//   fails  Error{data}: an unknown type, dropout (ids would differ from run to run); Error{corrupt}
PieceModel read_piece_model(const JsonFile& file, const dom::element& model, TokenTable& tokens);

// Refuses dropout.   fails  Error{data}
void refuse_dropout(const JsonFile& file, const dom::element& model);

}  // namespace mt::tokenizer
