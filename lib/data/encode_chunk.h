#pragma once
// One chunk of records into the tokens of every key: what a worker of mt-preprocess does, whatever the order of chunks.
//
// Code: data/encode_chunk.cc. Tests: tests/data/encode_corpus_test.cc.

#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <vector>

#include "data/encode_stats.h"
#include "data/indexed_dataset.h"
#include "data/text_source.h"
#include "tokenizer/tokenizer.h"

namespace mt::data {

using tokenizer::Id;

// How records are encoded, the same for all chunks of a run.
struct ChunkOptions {
  std::vector<std::string> keys;
  TokenType type = TokenType::i32;
  bool append_eod = false;
  Mend mend = Mend::no;
  bool stop_at_fault = true;  // the rest of a chunk behind a bad record is not wanted
  bool keep_raw = false;      // faults carry the record's bytes
  // Each sentence of a text becomes a sequence (data/sentence_splitter.h), with or without the space behind it.
  bool split_sentences = false, keep_newlines = false;
  bool stats = false;  // ChunkResult::stats is wanted
};

// What one chunk gives one key's token file.
struct EncodedKey {
  std::vector<std::byte> ids;  // at the width of the type
  std::vector<std::int32_t> lengths, document_sequences;
  std::int64_t empty_documents = 0;
  void clear() {
    ids.clear();
    lengths.clear();
    document_sequences.clear();
    empty_documents = 0;
  }
};

// A record that could not be taken.
struct RecordFault {
  std::string reason, hint;
  std::int64_t line = 0, column = 0;  // as BadRecord; line as TextPosition::line
  std::string raw;
};

struct ChunkResult {
  std::vector<EncodedKey> keys;
  std::vector<RecordFault> faults;
  std::int64_t documents = 0, blank_lines = 0, odd_numbers = 0, specials_as_text = 0, bytes = 0;
  std::int64_t mended_records = 0, mended_characters = 0, first_mended_line = 0;
  std::string file, separator;
  std::int64_t input = 0;
  LengthStats stats;  // of the first key; places without the file
  TextPosition after;      // of the chunk
  std::uint64_t used = 0;  // of the chunk
  std::exception_ptr failure;
};

// One worker's state, kept from chunk to chunk.
class ChunkEncoder {
 public:
  //   needs  tokenizer outlives it   fails  Error{data}: append_eod and no end token
  ChunkEncoder(const ChunkOptions& options, const tokenizer::Tokenizer& tokenizer);

  // Every document of the chunk: what stands around texts (Tokenizer::surround), the end token on documents that are
  // not empty. Texts of no token give no sequence.
  //   room   ChunkResult::keys of a result that is done, whose memory is used again
  //   gives  faults for records that cannot be taken, nothing of which is kept
  //   cost   the tokenizer's
  ChunkResult encode(const TextChunk& chunk, std::vector<EncodedKey> room = {});

 private:
  bool encode_record();
  bool encode_texts(std::string_view text);
  bool encode_text(std::string_view text);
  void keep_record(ChunkResult& result);
  RecordFault fault_of(RecordReader::Step step) const;

  ChunkOptions options_;
  const tokenizer::Tokenizer& tokenizer_;
  const tokenizer::Surround& around_;
  RecordReader reader_;
  std::optional<Id> eod_;
  tokenizer::EncodeScratch scratch_;
  // The record at hand: ids of all keys, lengths of sequences, sequences a key.
  std::vector<Id> ids_;
  std::vector<std::int32_t> lengths_, per_key_;
  std::vector<std::string_view> sentences_;
  std::string token_fault_;
};

}  // namespace mt::data
