#include "data/text_source.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/files.h"
#include "data/input_reader.h"

namespace mt::data {

namespace {

constexpr std::size_t kPadding = 64;  // what simdjson may read past the end

struct Ending {
  std::string_view suffix;
  InputFormat format;
};
constexpr Ending kEndings[] = {{".jsonl", InputFormat::jsonl},
                               {".json", InputFormat::jsonl},
                               {".ndjson", InputFormat::jsonl},
                               {".txt", InputFormat::text},
                               {".text", InputFormat::text}};
constexpr std::string_view kPackedEndings[] = {".gz", ".zst", ".xz", ".bz2"};

// A name without the ending of a packed file.
std::string_view unpacked_name(std::string_view name) {
  for (const std::string_view ending : kPackedEndings) {
    if (name.ends_with(ending)) return name.substr(0, name.size() - ending.size());
  }
  return name;
}

InputFormat format_of(const std::string& input, InputFormat asked) {
  if (asked != InputFormat::by_name) return asked;
  if (input == "-") return InputFormat::jsonl;
  for (const Ending& ending : kEndings) {
    if (unpacked_name(input).ends_with(ending.suffix)) return ending.format;
  }
  throw Error(Code::usage, "unknown ending: wanted .jsonl, .json, .ndjson, .txt or .text, packed or not", input,
              "say --input-format jsonl or text");
}

}  // namespace

struct TextSource::State {
  TextSourceOptions options;
  std::vector<InputFormat> formats;
  std::uint64_t total = 0;

  std::size_t input = 0;  // the one being read
  std::optional<InputReader> reader;  // empty: not open
  bool end_of_file = false, first_chunk = true;
  std::int64_t number = 0, line = 1;
  std::string rest;  // read, not yet handed out

  void open();
  bool fill(std::string& into, std::size_t wanted);
  std::size_t whole_records(const std::string& text) const;
};

TextSource::TextSource(TextSourceOptions options) : state_(std::make_unique<State>()) {
  State& s = *state_;
  s.options = std::move(options);
  if (s.options.inputs.empty()) throw Error(Code::usage, "no input given", "--input");
  bool any_pipe = false;
  for (const std::string& input : s.options.inputs) {
    std::error_code error;
    const fs::file_status status = input == "-" ? fs::file_status(fs::file_type::fifo) : fs::status(input, error);
    if (!fs::exists(status)) throw Error(Code::io, "no such file", input);
    if (fs::is_directory(status)) throw Error(Code::io, "is a directory", input, "give the files in it");
    s.formats.push_back(format_of(input, s.options.format));
    if (fs::is_regular_file(status) && unpacked_name(input) == input) {
      s.total += fs::file_size(input);
    } else {
      any_pipe = true;
    }
  }
  if (any_pipe) s.total = 0;
}

TextSource::~TextSource() = default;

std::uint64_t TextSource::total_bytes() const { return state_->total; }

void TextSource::State::open() {
  const std::string& name = options.inputs[input];
  const int fd = name == "-" ? STDIN_FILENO : ::open(name.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) throw Error(Code::io, "cannot open: " + errno_text(errno), name);
  reader.emplace(fd, name == "-" ? "stdin" : name);
  end_of_file = false;
  first_chunk = true;
  line = 1;
  rest.clear();
}

// Read until `into` holds `wanted` bytes or the file ends.
bool TextSource::State::fill(std::string& into, std::size_t wanted) {
  std::size_t have = into.size();
  if (have >= wanted) return true;
  into.resize(wanted);
  while (have < wanted && !end_of_file) {
    const std::size_t n = reader->read(into.data() + have, wanted - have);
    end_of_file = n == 0;
    have += n;
  }
  into.resize(have);
  return have == wanted;
}

// Bytes up to the end of the last whole record, or 0.
std::size_t TextSource::State::whole_records(const std::string& text) const {
  if (formats[input] == InputFormat::jsonl) {
    const void* last = ::memrchr(text.data(), '\n', text.size());
    return last == nullptr ? 0 : static_cast<std::size_t>(static_cast<const char*>(last) - text.data()) + 1;
  }
  if (options.document_separator.empty()) return 0;
  std::size_t end = 0;  // from the front: a separator may overlap itself, and the reader matches from the front too
  for (std::size_t hit; (hit = text.find(options.document_separator, end)) != std::string::npos;) {
    end = hit + options.document_separator.size();
  }
  return end;
}

std::optional<TextChunk> TextSource::next() {
  State& s = *state_;
  while (s.input < s.options.inputs.size()) {
    if (!s.reader) s.open();
    std::string text = std::move(s.rest);
    s.rest.clear();
    std::size_t cut = 0;
    for (std::size_t wanted = s.options.chunk_bytes;; wanted = std::max(wanted, text.size()) * 2) {
      s.fill(text, wanted);
      if (s.first_chunk && text.starts_with("\xEF\xBB\xBF")) text.erase(0, 3);
      s.first_chunk = false;
      cut = s.end_of_file ? text.size() : s.whole_records(text);
      if (cut > 0 || s.end_of_file) break;
    }
    s.rest.assign(text, cut, std::string::npos);
    text.resize(cut);
    TextChunk chunk;
    chunk.number = s.number;
    chunk.format = s.formats[s.input];
    chunk.file = s.options.inputs[s.input] == "-" ? "stdin" : s.options.inputs[s.input];
    chunk.first_line = s.line;
    chunk.separator = s.options.document_separator;
    chunk.size = text.size();
    s.line += std::count(text.begin(), text.end(), '\n');
    chunk.storage = std::move(text);
    chunk.storage.resize(chunk.size + kPadding, ' ');
    if (s.end_of_file) {
      s.reader.reset();
      ++s.input;
    }
    if (chunk.size == 0) continue;
    ++s.number;
    return chunk;
  }
  return std::nullopt;
}

}  // namespace mt::data
