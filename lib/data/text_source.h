#pragma once
// Documents out of files and pipes: JSON lines or plain text, in order, with the place of every fault.
//
// Packed input (gzip, zstd, xz, bzip2) is unpacked on the way, by one thread (data/input_reader.h).
// Line rules: only LF ends a line (CR before it is white space, U+2028 and U+0085 are text); the last line needs none;
// a byte order mark at the start of a file is dropped, elsewhere it is text, or a fault of JSON in front of a record;
// lines of white space are skipped and counted. A TextSource hands out
// numbered chunks of whole records; a RecordReader walks one chunk. Chunks may be read by any number of threads; the
// order of chunks and of records in them is the order of the input. Code: data/text_source.cc, data/json_record.cc.
// Tests: tests/data/encode_corpus_test.cc.

#include <atomic>
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

// One of `count` shares of the input, index from 0. The inputs, end to end, are cut in `count` ranges of equal bytes: a
// line of a plain JSON lines file, a packed file or a text belongs to the range that holds its first byte. So the shares
// in order are the whole input in order.
struct InputShare {
  std::int64_t index = 0, count = 1;
};

struct TextSourceOptions {
  std::vector<std::string> inputs;            // files; "-" is stdin
  InputFormat format = InputFormat::by_name;  // .jsonl .json .ndjson: JSON lines; .txt .text: text; "-": JSON lines
  // Text only. Empty: a file is one document. Else documents end at this string, which is dropped; empty ones are too.
  std::string document_separator;
  // Longer only if one record is. Several, and their ids, are in the 128 MiB of a worker.
  std::size_t chunk_bytes = std::size_t{2} << 20;
  InputShare share;
  // JSON lines only: the input is read this often, and in pass p every line whose number over all inputs, from 0, is p
  // modulo `deal` counts: the order in which Megatron's --partitions leaves its lines.
  std::int64_t deal = 1;
  const std::atomic<int>* stop = nullptr;  // as InputReader takes it
};

// Where reading stands: the record that comes next.
struct TextPosition {
  std::int64_t pass = 0, input = 0;  // of `deal`; into `inputs`
  std::int64_t byte = 0;             // unpacked, in that input
  std::int64_t line = 1;             // from 1, of the lines read of that input; in a share of a file its first is 1
  std::int64_t lines = 0;            // read in this pass over all inputs
  friend bool operator==(const TextPosition&, const TextPosition&) = default;
};

// Whole records and where they come from. `text` is followed by readable padding for the JSON reader.
struct TextChunk {
  std::int64_t number = 0;  // 0, 1, 2 ... over all inputs
  InputFormat format = InputFormat::jsonl;
  std::string file;             // as given; "-" is "stdin"
  std::int64_t first_line = 1;  // of the first record, as TextPosition::line
  std::string separator;        // text: what ends a document
  std::int64_t deal = 1, pass = 0, first_dealt = 0;  // the lines that count; the first line's number over all inputs
  std::int64_t input = 0;                            // which one, for TextSource::lines_before
  TextPosition after;                                // where the next chunk begins
  std::uint64_t used = 0;                            // bytes of total_bytes() up to there
  std::string storage;                               // records, then padding
  std::size_t size = 0;                              // bytes of records
  std::string_view text() const { return {storage.data(), size}; }
};

class TextSource {
 public:
  // Checks every input before anything is read: names, endings, and the first bytes of files (data/input_kind.h).
  //   fails  Error{io}: missing or a directory; Error{usage}: no input, an unknown ending, a share or a deal of what
  //          cannot be read again (a pipe) or of text (deal), a share out of range; Error{data}, Error{corrupt}: no text
  explicit TextSource(TextSourceOptions options);
  ~TextSource();
  TextSource(const TextSource&) = delete;
  TextSource& operator=(const TextSource&) = delete;

  // Go on from a position that an earlier source over the same inputs gave, before the first next().
  //   needs  again()   fails  next() does: Error{data}: an input ends before it
  void start_at(const TextPosition& position);

  // The next chunk, or nothing at the end. One thread at a time. `room`: memory to use again, TextChunk::storage of a chunk
  // that is done.   fails  Error{io}; Error{corrupt}: a packed file is damaged or cut off
  std::optional<TextChunk> next(std::string room = {});

  // Bytes of all regular files as they are stored (of the share; once a pass), 0 if others are among them; for progress.
  std::uint64_t total_bytes() const;
  // True if every input is a file that can be read again.
  bool again() const;
  // Lines of an input before the one that counts as its line 1: those of earlier shares. Counted when first asked.
  std::int64_t lines_before(std::int64_t input) const;

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

// What happens to records that are nearly right: nothing, or data/mend_text.h.
enum class Mend { no, yes };

// A document: for each wanted key the strings of its value (a string is one, a list of strings is several).
class RecordReader {
 public:
  // `keys`: wanted fields of JSON records; text records have one value whatever the keys are.
  explicit RecordReader(std::vector<std::string> keys, Mend mend = Mend::no);
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
  // Of the record at hand: its line, its bytes without what ends it, and how many characters were mended in it.
  std::int64_t line() const { return fault_.line; }
  std::string_view raw() const { return raw_; }
  std::int64_t mended() const { return mended_; }
  std::int64_t blank_lines() const { return blank_lines_; }
  // Records so far with numbers that only Python's reader has (data/mend_text.h).
  std::int64_t odd_numbers() const { return odd_numbers_; }

 private:
  Step next_line();
  Step next_text();
  Step bad(std::string reason, std::int64_t column, std::string_view raw);
  Step take_json(std::string_view line);
  Step refuse_json(std::string_view line, const char* reason);
  bool parses_otherwise(std::string_view line);
  Step take_text(std::string_view document);

  struct Parser;
  std::unique_ptr<Parser> parser_;
  std::vector<std::string> keys_;
  std::vector<std::vector<std::string_view>> values_;
  Mend mend_;
  BadRecord fault_;
  std::string_view raw_;
  std::string mended_text_;  // the record at hand, and padding
  const TextChunk* chunk_ = nullptr;
  std::size_t at_ = 0;
  std::int64_t line_ = 0, dealt_ = 0, blank_lines_ = 0, mended_ = 0, odd_numbers_ = 0;
};

}  // namespace mt::data
