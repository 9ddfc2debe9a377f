#pragma once
// Documents out of files and pipes: JSON lines or plain text, in order, with the place of every fault.
//
// Packed input (gzip, zstd, xz, bzip2) is unpacked on the way, by one thread (data/input_reader.h).
// Line rules: only LF ends a line (CR before it is white space, U+2028 and U+0085 are text); the last line needs none;
// a byte order mark at the start is dropped; lines of white space are skipped and counted. A TextSource hands out
// numbered chunks of whole records; a RecordReader walks one chunk. Chunks may be read by any number of threads; the
// order of chunks and of records in them is the order of the input. Code: data/text_source.cc, data/json_record.cc.
// Tests: tests/data/encode_corpus_test.cc.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace mt::data {

enum class InputFormat { by_name, jsonl, text };

struct TextSourceOptions {
  std::vector<std::string> inputs;            // files; "-" is stdin
  InputFormat format = InputFormat::by_name;  // .jsonl .json .ndjson: JSON lines; .txt .text: text; "-": JSON lines
  // Text only. Empty: a file is one document. Else documents end at this string, which is dropped; empty ones are too.
  std::string document_separator;
  std::size_t chunk_bytes = std::size_t{4} << 20;  // a chunk is longer only if one record is
};

// Whole records and where they come from. `text` is followed by readable padding for the JSON reader.
struct TextChunk {
  std::int64_t number = 0;  // 0, 1, 2 ... over all inputs
  InputFormat format = InputFormat::jsonl;
  std::string file;             // as given; "-" is "stdin"
  std::int64_t first_line = 1;  // of the first record
  std::string separator;        // text: what ends a document
  std::string storage;          // records, then padding
  std::size_t size = 0;         // bytes of records
  std::string_view text() const { return {storage.data(), size}; }
};

class TextSource {
 public:
  // Checks every input before anything is read.
  //   fails  Error{io}: missing or a directory; Error{usage}: no input, an unknown ending
  explicit TextSource(TextSourceOptions options);
  ~TextSource();
  TextSource(const TextSource&) = delete;
  TextSource& operator=(const TextSource&) = delete;

  // The next chunk, or nothing at the end. One thread at a time.   fails  Error{io}; Error{corrupt}: a packed file is
  // damaged or cut off
  std::optional<TextChunk> next();

  // Bytes of all regular files, 0 if stdin or packed files are among them; for progress.
  std::uint64_t total_bytes() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Why a record cannot be taken.
struct BadRecord {
  std::string reason;
  std::int64_t line = 0;
  std::int64_t column = 0;  // byte in the line, from 1; 0: the whole line
  std::string_view raw;     // the line without its LF
  enum class Likely { nothing, plain_text, other_key } likely = Likely::nothing;

  // What to do about it, "" where nothing is likely.   key_flag  the tool's flag for the field, "--json-keys"
  std::string hint(const std::string& key_flag) const;
};

// A document: for each wanted key the strings of its value (a string is one, a list of strings is several).
class RecordReader {
 public:
  // `keys`: wanted fields of JSON records; text records have one value whatever the keys are.
  explicit RecordReader(std::vector<std::string> keys);
  ~RecordReader();
  RecordReader(const RecordReader&) = delete;
  RecordReader& operator=(const RecordReader&) = delete;

  // Begin a chunk.   needs  the chunk outlives the reading
  void start(const TextChunk& chunk);

  enum class Step { record, bad, end };
  // The next record. Blank lines are passed over and counted.
  //   gives  record: values() holds one list a key, valid until the next call; bad: fault() says why
  //   cost   one pass of simdjson, over 1 GB/s
  Step next();

  std::span<const std::vector<std::string_view>> values() const { return values_; }
  const BadRecord& fault() const { return fault_; }
  std::int64_t blank_lines() const { return blank_lines_; }

 private:
  Step next_line();
  Step next_text();
  Step bad(std::string reason, std::int64_t column, std::string_view raw);
  Step take_json(std::string_view line);

  struct Parser;
  std::unique_ptr<Parser> parser_;
  std::vector<std::string> keys_;
  std::vector<std::vector<std::string_view>> values_;
  BadRecord fault_;
  const TextChunk* chunk_ = nullptr;
  std::size_t at_ = 0;
  std::int64_t line_ = 0, blank_lines_ = 0;
};

}  // namespace mt::data
