#pragma once
// Token files in Megatron's indexed format: PREFIX.bin (ids back to back) and PREFIX.idx (where each sequence starts).
//
// A document is a run of sequences (usually one); an empty document is a boundary with no sequence. Byte layout of both
// files and of the sidecar PREFIX.json: man/mt-token-file.5.
// Code: data/indexed_dataset.cc (reader), data/indexed_writer.cc. Tests: tests/data/indexed_dataset_test.cc.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/files.h"

namespace mt::data {

// Width of an id in .bin, by the format's type codes.
enum class TokenType : std::uint8_t { u16 = 8, i32 = 4 };

constexpr std::int64_t bytes_of(TokenType type) { return type == TokenType::u16 ? 2 : 4; }
// "uint16" or "int32".
const char* token_type_name(TokenType type);

// u16 where the vocabulary (largest id + 1) is below 65,500, else i32: Megatron's rule.
TokenType token_type_for(std::int64_t vocab_size);

// PREFIX.bin, PREFIX.idx, PREFIX.json.
std::filesystem::path bin_path(const std::string& prefix);
std::filesystem::path idx_path(const std::string& prefix);
std::filesystem::path sidecar_path(const std::string& prefix);

// The prefix of a token file as people name it: the prefix itself, or its .bin or .idx. A prefix that ends so itself
// (NAME.bin.idx exists) is left as it is.
std::string token_file_prefix(const std::string& name);

// What the files themselves cannot say: which tokenizer made them. Files from elsewhere have none.
struct TokenFileOrigin {
  std::string tokenizer_type;
  std::string fingerprint;  // sixteen hex digits
  std::int64_t vocab_size = 0;
  std::optional<std::int32_t> eod;
  bool eod_appended = false;
  std::vector<std::int32_t> before, after;  // ids that stand around every text, as the tokenizer puts them
  bool parse_special = false;               // special strings in texts became control tokens
  bool sentences = false;                   // a sequence is a sentence, not a text
  std::string made_from;                    // written, not read back: JSON, what decided the content; "": not known
};

// What the sidecar says of the bytes: XXH3 of both files, sixteen hex digits each; "" where it does not say.
struct TokenFileHashes {
  std::string bin, idx;
};

// The sidecar of a token file, without opening the file where there is one; nothing where there is none.
//   fails  as IndexedDataset and origin()
std::optional<TokenFileOrigin> origin_of(const std::string& name);

// A token file opened for reading, both files memory-mapped. It holds no descriptor.
class IndexedDataset {
 public:
  // Open the file of this prefix (or of a name token_file_prefix takes) and check: magic, version, type code (1-5 and
  // 8: u8 i8 i16 i32 i64 u16), sizes of the arrays, document boundaries ascending from 0 to the number of sequences,
  // every sequence inside .bin.
  //   fails  Error{io}: a file is missing; Error{corrupt} naming the file, the wanted and found value
  //   cost   reads .idx once (20 bytes a sequence); .bin is not touched
  explicit IndexedDataset(const std::string& name);

  const std::string& prefix() const { return prefix_; }
  std::int64_t num_sequences() const { return num_sequences_; }
  std::int64_t num_documents() const { return num_documents_; }
  std::int64_t num_tokens() const { return num_tokens_; }
  // Name of the type in .bin: "uint16", "int32", ...
  const char* type_name() const;
  int type_code() const { return code_; }

  // Tokens of sequence i.
  std::int32_t length(std::int64_t i) const;
  // The lengths of all sequences as they stand in .idx, 32 bits each, not aligned.
  const std::byte* length_bytes() const { return lengths_; }
  // Sequences [first, last) of document d; equal for an empty document.
  std::int64_t document_begin(std::int64_t d) const;
  std::int64_t document_end(std::int64_t d) const { return document_begin(d + 1); }

  // Copy tokens [offset, offset + out.size()) of sequence i into `out`.
  //   needs  the range inside the sequence (MT_CHECK)
  //   fails  Error{data}: an 8-byte id that does not fit 32 bits
  void read(std::int64_t i, std::int64_t offset, std::span<std::int32_t> out) const;

  // The sidecar, if there is one.   fails  Error{corrupt}: a vocabulary below 1, an end token outside it
  std::optional<TokenFileOrigin> origin() const;
  // What the sidecar says, and what is true.   cost  verify reads both files once
  TokenFileHashes hashes() const;
  //   gives  false: the sidecar holds no hashes, or there is none
  //   fails  Error{corrupt} naming the file whose hash is another
  bool verify() const;

  // What says that this is the token file an index was made of: sizes, a hash of .idx, hashes of some blocks of .bin and
  // when it was last written. JSON in one line.
  //   cost  reads .idx once (over 10 GB/s from memory) and 16 KiB of .bin
  //   fails  Error{io}
  std::string content_text() const;

  // Raw content of .bin, for merging.
  std::span<const std::byte> bin() const { return bin_.bytes(); }

 private:
  void check_arrays() const;
  std::string prefix_;
  MappedFile bin_, idx_;
  int code_ = 0;
  std::int64_t item_bytes_ = 0, num_sequences_ = 0, num_documents_ = 0, num_tokens_ = 0;
  const std::byte *lengths_ = nullptr, *pointers_ = nullptr, *documents_ = nullptr;
};

// How far a token file is written, on the disk.
struct TokenFileMark {
  std::int64_t sequences = 0, documents = 0, tokens = 0;
  std::string bin_hash;  // of the tokens up to there
};

// What a killed run leaves for another to go on from: PREFIX.bin.partial, PREFIX.lengths.partial, PREFIX.documents.partial
// and PREFIX.journal (data/encode_journal.h).
std::vector<std::filesystem::path> leftover_paths(const std::string& prefix);

// Writes a token file. Nothing appears at the final paths before commit(); dropped without it, the temporaries go.
//
//   IndexedWriter writer(prefix, token_type_for(vocab_size), force);
//   writer.add_sequence(ids); writer.end_document();   // an empty document: end_document() alone
//   writer.commit(origin);
class IndexedWriter {
 public:
  // Opens the temporaries beside the final paths. Index entries are spilled to unlinked files: memory does not grow
  // with the number of documents.
  //   fails  Error{io}: the directory is missing or not writable, or, where `force` is false, a file of the prefix exists
  //          or a killed run left work that can be gone on with (data/encode_journal.h)
  IndexedWriter(std::string prefix, TokenType type, bool force);
  // The same in temporaries that outlive a kill (leftover_paths), going on from `from`; null: begun anew, and what a
  // killed run left goes.
  //   committing  the killed run may have been inside commit(): files at the final paths that hold what this one is to
  //               hold are taken for ours
  //   fails  Error{corrupt}: the temporaries are not what `from` says; Error{io}. Those of `from` stay, then and later, until
  //          keep_leftovers(false)
  //   cost   reads what is there once
  IndexedWriter(std::string prefix, TokenType type, bool force, const TokenFileMark* from, bool committing);
  ~IndexedWriter();
  IndexedWriter(const IndexedWriter&) = delete;
  IndexedWriter& operator=(const IndexedWriter&) = delete;

  // Append a sequence of one or more ids to the document at hand.
  //   fails  Error{data}: an id the width cannot hold, or over 2^31-1 ids; Error{io}
  void add_sequence(std::span<const std::int32_t> ids);
  void end_document();

  // The same from ids already packed at this width, many documents at once.
  //   needs  sum of lengths == bytes / width; `document_sequences[k]` sequences belong to document k
  void add_packed(std::span<const std::byte> ids, std::span<const std::int32_t> lengths,
                  std::span<const std::int32_t> document_sequences);

  // Append another file as Megatron's merge does: its sequences, then its boundaries shifted.
  //   fails  Error{data}: another width; Error{corrupt}: .bin is not its sequences end to end
  void add_file(const IndexedDataset& other);

  std::int64_t num_sequences() const;
  std::int64_t num_documents() const;
  std::int64_t num_tokens() const;
  TokenType type() const;
  // Bring all of it to the disk and say how far that is.   fails  Error{io}
  TokenFileMark mark();
  // Whether the temporaries of leftover_paths stay where this object ends without commit(), or a write fails.
  void keep_leftovers(bool keep);
  // Hand the tokens written so far to `take` in blocks of whole ids.
  void replay_tokens(const std::function<void(std::span<const std::byte>)>& take);

  // Write .idx, fsync all, then publish .bin, the sidecar, and .idx last: a reader that finds .idx finds all three
  // whole. With `force`, an old .idx is removed before the new .bin appears.
  //   fails  Error{io}; the final paths then hold no pair that looks complete
  void commit(const std::optional<TokenFileOrigin>& origin);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace mt::data
