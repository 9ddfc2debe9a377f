// Documents out of files: the same records whatever the size of a chunk, valid UTF-8 in each, and every line told.

#include <optional>
#include <tuple>

#include "base/error.h"
#include "data/text_source.h"
#include "tokenizer/unicode.h"
#include "fuzz/fuzz_scratch.h"

namespace mt::fuzz {

namespace {

using data::RecordReader;

// What came out: the strings of all records, with the number and the reason of the bad ones; nothing after an Error.
struct Told {
  std::vector<std::string> records;
  std::int64_t blank = 0;
  friend bool operator==(const Told&, const Told&) = default;
};

std::optional<Told> read_all(const data::TextSourceOptions& options) {
  Told told;
  try {
    data::TextSource source(options);
    RecordReader reader({"text", "b"});
    while (const std::optional<data::TextChunk> chunk = source.next()) {
      reader.start(*chunk);
      for (auto step = reader.next(); step != RecordReader::Step::end; step = reader.next()) {
        if (step == RecordReader::Step::bad) {
          MT_CHECK(!reader.fault().reason.empty(), "a bad record without a reason");
          told.records.push_back(fmt::format("bad {}", reader.fault().line));
          continue;
        }
        std::string all;
        for (const auto& list : reader.values()) {
          for (const std::string_view value : list) {
            MT_CHECK(tokenizer::find_invalid_utf8(value) == std::string_view::npos, "a value that is no valid UTF-8");
            all += std::string(value) + "|";
          }
        }
        told.records.push_back(all);
      }
    }
    told.blank = reader.blank_lines();
  } catch (const Error& error) {
    MT_CHECK(!error.message().empty(), "an error without words");
    return std::nullopt;
  }
  return told;
}

}  // namespace

void text_lines(Bytes input) {
  static const ScratchDirectory dir;
  if (input.empty()) return;
  data::TextSourceOptions options;
  options.format = input[0] & 1 ? data::InputFormat::text : data::InputFormat::jsonl;
  if (input[0] & 2) options.document_separator = "\n\n";
  options.inputs = {put(dir, "x", input.subspan(1))};
  options.chunk_bytes = std::size_t{16} << (input[0] >> 2 & 7);
  const std::optional<Told> small = read_all(options);
  options.chunk_bytes = std::size_t{1} << 13;
  MT_CHECK(small == read_all(options), "other records in chunks of another size");
}

}  // namespace mt::fuzz
