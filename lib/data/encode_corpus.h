#pragma once
// Text files into token files with several workers: the whole of `mt-preprocess encode` behind one call.
//
// Workers take turns to read a chunk, parse and encode it (data/encode_pool.h), the caller's thread writes chunks in
// order; so the output is the same bytes for any number of workers, and memory is bounded by (2 workers + 2) chunks
// whatever the input's size. Of files a journal is kept (data/encode_journal.h), so that a killed run can be gone on with.
// Code: data/encode_corpus.cc, data/encode_commit.cc. Tests: tests/data/encode_corpus_test.cc, encode_resume_test.cc.

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "data/indexed_dataset.h"
#include "data/text_source.h"
#include "tokenizer/tokenizer.h"

namespace mt::data {

// What becomes of a record that cannot be taken. replace: U+FFFD in place of bytes that are no UTF-8 and of lone
// surrogates, byte order marks in front of a record dropped (data/mend_text.h); what is bad for another reason is left
// out as with skip.
enum class OnBadRecord { stop, skip, replace };

constexpr int kMaxWorkers = 256;
constexpr std::size_t kSkippedNamed = 5;

struct EncodeJob {
  TextSourceOptions source;
  std::vector<std::string> also_reads;       // tokenizer, registry: no output may be one of them
  std::vector<std::string> keys = {"text"};  // one token file a key
  std::string output_prefix;                 // PREFIX_KEY_document.{bin,idx,json}, or PREFIX_KEY_sentence
  std::string tokenizer_type;                // for the sidecar
  bool append_eod = false;
  bool split_sentences = false, keep_newlines = false;  // a sequence a sentence (data/sentence_splitter.h)
  int workers = 1;  // 1 to kMaxWorkers
  bool force = false;
  OnBadRecord on_bad = OnBadRecord::stop;
  std::string rejects;        // skip, replace: file that receives the raw records left out; empty: none
  std::int64_t max_bad = -1;  // skip, replace: more records left out than this is an error; -1: no limit
  bool stats = false;              // EncodeReport::stats is wanted
  bool parse_special = false;      // as the tokenizer was made
  bool resume = false;             // go on with a killed run, if there is one
  double journal_every_s = 30;     // how often the journal is written; 0: after every chunk
  // Width of an id in the output; by default token_type_for(vocab_size).
  std::optional<TokenType> type;
};

struct EncodeReport {
  std::int64_t documents = 0, sequences = 0, tokens = 0;   // of the first key
  std::int64_t empty_documents = 0, specials_as_text = 0;  // over all keys
  std::int64_t skipped_records = 0, blank_lines = 0;
  std::int64_t odd_number_records = 0;  // taken, with a number that only Python's reader has
  std::vector<std::string> first_skipped;  // "FILE:LINE:BYTE: reason", at most kSkippedNamed
  std::int64_t replaced_records = 0, replaced_characters = 0;  // mended and taken
  std::string first_replaced;                                  // FILE:LINE
  std::int64_t resumed_documents = 0, resumed_bytes = 0;       // of documents and input_bytes, taken over from a killed run
  std::int64_t input_bytes = 0;
  double elapsed_s = 0;
  Json stats;  // EncodeStats::to_json, where asked for
  std::vector<std::string> prefixes;  // what was written, one a key
  bool already_complete = false;      // by an earlier run: documents, sequences, tokens and prefixes are of it
  int stopped_by = 0;                 // a signal: nothing has its name
  std::string stopped_at;             // FILE:LINE that comes next; "": nothing is kept, a next run begins at the start
};

// The output prefix of a key: PREFIX_KEY_document, or PREFIX_KEY_sentence where sentences are split.
std::string key_prefix(const EncodeJob& job, const std::string& key);

// Encode everything.
// First the temporaries of killed runs with the same outputs go (data/output_check.h), but with `resume` those of a run
// over the same inputs with the same options and tokenizer are gone on with, to the same bytes as if it had never ended;
// workers, max_bad and force may be others.
// A finished run is recognised by what its sidecars say it was made from; then nothing is written.
// Where source.stop becomes other than 0 the run ends behind the chunk at hand, with a journal if it has got anywhere.
//   fails  before anything is touched: Error{usage}: a number out of range, a key given twice, an output that is an
//          input or another output, resume of what is no file; Error{config}: resume with another input, option or
//          tokenizer, named, than the killed or the finished run had; Error{io}: work of a killed run without resume and
//          without force; inputs, outputs that exist, no output directory; Error{data}: no end token, a
//          width too small for the vocabulary. Then Error{device}: no more threads.
//          during: Error{data} "file:line:column"; zero documents; Error{io}: disk full. Nothing is left at the final
//          paths nor beside them, unless a killed run was gone on with: what it left stays, to go on from again
//   cost   100 MB/s a core or more for English with GPT-2's tokenizer (tests/bench/encode_bench.cc)
EncodeReport encode_corpus(const EncodeJob& job, const tokenizer::Tokenizer& tokenizer);

}  // namespace mt::data
