#pragma once
// The post_processor of a tokenizer.json: the ids it puts around a text that stands alone.
//
// Kinds (their JSON "type"): TemplateProcessing BertProcessing RobertaProcessing ByteLevel Sequence.
// Code: tokenizer/post_processor.cc. Tests: tests/tokenizer/peer_vectors_test.cc.

#include "base/json.h"
#include "tokenizer/tokenizer.h"

namespace mt::tokenizer {

// From the value of "post_processor"; null puts nothing around.
//   fails  Error{data}: a type this reader does not know, named; Error{corrupt}: one without its parts or with a
//          field of another type, or a template that does not hold the text once
Surround read_post_processor(const Json& json);

}  // namespace mt::tokenizer
