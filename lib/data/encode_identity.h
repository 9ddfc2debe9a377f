#pragma once
// What decides the bytes of an encoding run, as JSON: a killed run is gone on with, and a finished one recognised, where
// it is the same. Keys are flags where a flag decides.
//
// Journals (data/encode_journal.h) hold all of it, sidecars (mt-token-file(5), made_from) what tells finished files
// apart. Code: data/encode_identity.cc. Tests: tests/data/encode_resume_test.cc.

#include <optional>

#include "data/encode_corpus.h"

namespace mt::data {

// Of a run over files: inputs with size and time of change, options, tokenizer, the program's version.
//   fails  Error{io}: an input is not there
Json identity_of(const EncodeJob& job, TokenType type, const tokenizer::Tokenizer& tokenizer);

// The part that a sidecar keeps: no version, no --rejects and --stats, which leave the token files as they are; of more
// than 1000 inputs their number and a hash in place of the list.
Json kept_identity(const Json& identity);

// The report of a run whose token files are all there already and were made of this (identity_of).
//   gives  nothing: a token file is not there; or, with job.force, they are of something else, which is said
//   fails  Error{config} naming what differs; Error{io}: a sidecar does not say what it was made from; Error{corrupt}: the
//          files are not what their sidecars say
//   cost   opens each token file
std::optional<EncodeReport> finished_run(const EncodeJob& job, const Json& identity);

}  // namespace mt::data
