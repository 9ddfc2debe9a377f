#pragma once
// Text files into token files with several workers: the whole of `mt-preprocess encode` behind one call.
//
// One thread reads chunks, workers parse and encode them, the caller's thread writes them in order; so the output is
// the same bytes for any number of workers, and memory is bounded by (2 workers + 2) chunks whatever the input's size.
// Code: data/encode_corpus.cc. Tests: tests/data/encode_corpus_test.cc.

#include <cstdint>
#include <string>
#include <vector>

#include "data/indexed_dataset.h"
#include "data/text_source.h"
#include "data/tokenizer.h"

namespace mt::data {

enum class OnBadRecord { stop, skip };

constexpr int kMaxWorkers = 256;

struct EncodeJob {
  TextSourceOptions source;
  std::vector<std::string> also_reads;       // tokenizer, registry: no output may be one of them
  std::vector<std::string> keys = {"text"};  // one token file a key
  std::string output_prefix;                 // PREFIX_KEY_document.{bin,idx,json}
  std::string tokenizer_type;                // for the sidecar
  bool append_eod = false;
  int workers = 1;  // 1 to kMaxWorkers
  bool force = false;
  OnBadRecord on_bad = OnBadRecord::stop;
  std::string rejects;        // skip: file that receives the raw bad lines; empty: none
  std::int64_t max_bad = -1;  // skip: more bad records than this is an error; -1: no limit
  // Width of an id in the output; by default token_type_for(vocab_size).
  std::optional<TokenType> type;
};

struct EncodeReport {
  std::int64_t documents = 0, sequences = 0, tokens = 0;   // of the first key
  std::int64_t empty_documents = 0, specials_as_text = 0;  // over all keys
  std::int64_t skipped_records = 0, blank_lines = 0;
  std::int64_t input_bytes = 0;
  double elapsed_s = 0;
  std::vector<std::string> prefixes;  // what was written, one a key
};

// The output prefix of a key: PREFIX_KEY_document.
std::string key_prefix(const std::string& output_prefix, const std::string& key);

// Encode everything.
// First the temporaries of killed runs with the same outputs go (data/output_check.h).
//   fails  before anything is touched: Error{usage}: a number out of range, a key given twice, an output that is an
//          input or another output; Error{io}: inputs, outputs that exist, no output directory; Error{data}: no end
//          token, a width too small for the vocabulary. Then Error{device}: no more threads.
//          during: Error{data} "file:line:column"; zero documents; Error{io}: disk full. Nothing is left at the final
//          paths
//   cost   100 MB/s a core or more for English with GPT-2's tokenizer (tests/bench/encode_bench.cc)
EncodeReport encode_corpus(const EncodeJob& job, const Tokenizer& tokenizer);

}  // namespace mt::data
