#include "data/text_source.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/files.h"

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
struct Packed {
  std::string_view suffix, reader;
};
constexpr Packed kPacked[] = {{".gz", "zcat"}, {".zst", "zstdcat"}, {".xz", "xzcat"}, {".bz2", "bzcat"}};

InputFormat format_of(const std::string& input, InputFormat asked) {
  for (const Packed& packed : kPacked) {
    if (input.ends_with(packed.suffix)) {
      throw Error(Code::usage, "compressed input is not read", input,
                  fmt::format("{} {} | ... --input - --input-format ...", packed.reader, input));
    }
  }
  if (asked != InputFormat::by_name) return asked;
  if (input == "-") return InputFormat::jsonl;
  for (const Ending& ending : kEndings) {
    if (input.ends_with(ending.suffix)) return ending.format;
  }
  throw Error(Code::usage, "unknown ending: wanted .jsonl, .json, .ndjson, .txt or .text", input,
              "say --input-format jsonl or text");
}

}  // namespace

struct TextSource::State {
  TextSourceOptions options;
  std::vector<InputFormat> formats;
  std::uint64_t total = 0;

  std::size_t input = 0;  // the one being read
  int fd = -1;            // -1: not open
  bool end_of_file = false, first_chunk = true;
  std::int64_t number = 0, line = 1;
  std::string rest;  // read, not yet handed out

  void open();
  void close();
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
    if (fs::is_regular_file(status)) {
      s.total += fs::file_size(input);
    } else {
      any_pipe = true;
    }
  }
  if (any_pipe) s.total = 0;
}

TextSource::~TextSource() { state_->close(); }

std::uint64_t TextSource::total_bytes() const { return state_->total; }

void TextSource::State::open() {
  const std::string& name = options.inputs[input];
  fd = name == "-" ? STDIN_FILENO : ::open(name.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) throw Error(Code::io, "cannot open: " + errno_text(errno), name);
  end_of_file = false;
  first_chunk = true;
  line = 1;
  rest.clear();
}

void TextSource::State::close() {
  if (fd > STDIN_FILENO) ::close(fd);
  fd = -1;
}

// Read until `into` holds `wanted` bytes or the file ends.
bool TextSource::State::fill(std::string& into, std::size_t wanted) {
  std::size_t have = into.size();
  if (have >= wanted) return true;
  into.resize(wanted);
  while (have < wanted && !end_of_file) {
    const ssize_t n = ::read(fd, into.data() + have, wanted - have);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw Error(Code::io, "cannot read: " + errno_text(errno), options.inputs[input]);
    end_of_file = n == 0;
    have += static_cast<std::size_t>(n);
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
    if (s.fd < 0) s.open();
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
      s.close();
      ++s.input;
    }
    if (chunk.size == 0) continue;
    ++s.number;
    return chunk;
  }
  return std::nullopt;
}

}  // namespace mt::data
