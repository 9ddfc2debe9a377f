#include "data/text_source.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <utility>

#include "base/error.h"
#include "base/files.h"
#include "data/input_kind.h"
#include "data/input_reader.h"

namespace mt::data {

namespace {

constexpr std::size_t kPadding = 64;  // what simdjson may read past the end
constexpr std::size_t kBlock = std::size_t{64} << 10;

InputFormat format_of(const std::string& input, InputFormat asked) {
  if (asked != InputFormat::by_name) return asked;
  if (input == "-") return InputFormat::jsonl;
  if (const auto format = format_by_ending(input)) return *format;
  const std::string recipe = recipe_by_ending(input);
  throw Error(Code::usage, "unknown ending: wanted " + endings_text(asked) + ", packed or not", input,
              recipe.empty() ? "say --input-format jsonl or text" : recipe);
}

InputReader open_input(const std::string& name, const std::atomic<int>* stop) {
  const int fd = name == "-" ? STDIN_FILENO : ::open(name.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) throw Error(Code::io, "cannot open: " + errno_text(errno), name);
  return InputReader(fd, name == "-" ? "stdin" : name, stop);
}

// Up to `size` bytes, fewer only at the end.
std::string read_head(InputReader& reader, std::size_t size) {
  std::string head(size, '\0');
  std::size_t have = 0;
  while (have < size) {
    const std::size_t n = reader.read(head.data() + have, size - have);
    if (n == 0) break;
    have += n;
  }
  head.resize(have);
  return head;
}

// Records of an input whose first byte is in [begin, end) are read.
struct Window {
  std::int64_t begin = 0, end = -1;  // -1: no end
  bool whole() const { return begin == 0 && end < 0; }
};

// In stretches whose count fits a byte, which the compiler does sixteen at a time.
std::int64_t count_feeds(std::string_view text) {
  std::int64_t feeds = 0;
  while (!text.empty()) {
    const std::string_view some = text.substr(0, 255);
    std::uint8_t here = 0;
    for (const char c : some) here = static_cast<std::uint8_t>(here + (c == '\n' ? 1 : 0));
    feeds += here;
    text.remove_prefix(some.size());
  }
  return feeds;
}

}  // namespace

struct TextSource::State {
  TextSourceOptions options;
  std::vector<InputFormat> formats;
  std::vector<Window> windows;
  std::vector<std::uint64_t> used_before;  // stored bytes of the share in earlier inputs; the last is all of them
  bool all_regular = true;

  TextPosition here;
  std::optional<InputReader> reader;  // empty: not open
  bool end_of_file = false;
  std::int64_t number = 0;
  std::string rest;  // read, not yet handed out
  mutable std::map<std::int64_t, std::int64_t> lines_before;

  void cut_into_shares(const std::vector<bool>& divisible);
  bool open();
  bool skip_to_share();
  bool fill(std::string& into, std::size_t wanted);
  std::size_t whole_records(const std::string& text) const;
  std::string take_records(std::string text);
  void leave_input();
  std::uint64_t used() const;
};

TextSource::TextSource(TextSourceOptions options) : state_(std::make_unique<State>()) {
  State& s = *state_;
  s.options = std::move(options);
  if (s.options.inputs.empty()) throw Error(Code::usage, "no input given", "--input");
  const InputShare& share = s.options.share;
  if (share.count < 1 || share.index < 0 || share.index >= share.count) {
    throw Error(Code::usage, fmt::format("share {} of {}: shares count from 0 to {}", share.index, share.count, share.count - 1),
                "--shard");
  }
  if (s.options.deal < 1) throw Error(Code::usage, fmt::format("{} partitions: wanted 1 or more", s.options.deal), "--partitions");
  if (s.options.deal > 1 && share.count > 1) {
    throw Error(Code::usage, "a share of dealt lines is not defined", "--partitions", "add --keep-sequential-samples, or leave out --shard");
  }
  s.used_before.push_back(0);
  std::vector<bool> divisible;
  for (const std::string& input : s.options.inputs) {
    std::error_code error;
    const fs::file_status status = input == "-" ? fs::file_status(fs::file_type::fifo) : fs::status(input, error);
    if (!fs::exists(status)) throw Error(Code::io, "no such file", input);
    if (fs::is_directory(status)) throw Error(Code::io, "is a directory", input, "give the files in it");
    const InputFormat format = format_of(input, s.options.format);
    const bool regular = fs::is_regular_file(status);
    bool plain = false;
    if (regular) {
      InputReader reader = open_input(input, nullptr);
      refuse_foreign(read_head(reader, kHeadBytes), input, format, reader.packing());
      plain = reader.packing() == Packing::none;
    }
    if (s.options.deal > 1 && format == InputFormat::text) {
      throw Error(Code::usage, "text is not dealt into partitions, JSON lines are", input, "leave out --partitions");
    }
    s.formats.push_back(format);
    s.windows.emplace_back();
    s.all_regular = s.all_regular && regular;
    s.used_before.push_back(s.used_before.back() + (regular ? fs::file_size(input) : 0));
    divisible.push_back(plain && format == InputFormat::jsonl);
    if (!regular && (s.options.deal > 1 || s.options.share.count > 1)) {
      throw Error(Code::usage, "a pipe cannot be read again, as a share or --partitions needs it",
                  input == "-" ? "stdin" : input, "give files");
    }
  }
  if (s.options.share.count > 1) s.cut_into_shares(divisible);
}

TextSource::~TextSource() = default;

// Give each input its window of the share, and recount the bytes.
void TextSource::State::cut_into_shares(const std::vector<bool>& divisible) {
  const InputShare& share = options.share;
  const auto total = static_cast<__int128>(used_before.back());
  const auto border = [&](std::int64_t k) { return static_cast<std::int64_t>(total * k / share.count); };
  const std::int64_t begin = border(share.index), end = border(share.index + 1);
  std::vector<std::uint64_t> used(1, 0);
  for (std::size_t i = 0; i < windows.size(); ++i) {
    const auto first = static_cast<std::int64_t>(used_before[i]), last = static_cast<std::int64_t>(used_before[i + 1]);
    if (divisible[i]) {
      windows[i] = {std::max<std::int64_t>(begin - first, 0), std::clamp<std::int64_t>(end, first, last) - first};
      windows[i].begin = std::min(windows[i].begin, windows[i].end);
      if (windows[i].begin == 0 && windows[i].end == last - first) windows[i] = {};
    } else if (first < begin || first >= end) {
      windows[i] = {0, 0};
    }
    const std::int64_t bytes = windows[i].end < 0 ? last - first : windows[i].end - windows[i].begin;
    used.push_back(used.back() + static_cast<std::uint64_t>(bytes));
  }
  used_before = std::move(used);
}

std::uint64_t TextSource::total_bytes() const {
  return state_->all_regular ? state_->used_before.back() * static_cast<std::uint64_t>(state_->options.deal) : 0;
}

bool TextSource::again() const { return state_->all_regular; }

void TextSource::start_at(const TextPosition& position) {
  MT_CHECK(state_->number == 0 && !state_->reader && again(), "start_at after {} chunks", state_->number);
  state_->here = position;
}

std::uint64_t TextSource::State::used() const {
  const std::uint64_t passes = used_before.back() * static_cast<std::uint64_t>(here.pass);
  const auto i = static_cast<std::size_t>(here.input);
  const std::uint64_t before = passes + used_before[std::min(i, used_before.size() - 1)];
  if (!reader) return before;
  const std::int64_t in_file = reader->packing() == Packing::none ? here.byte : static_cast<std::int64_t>(reader->used());
  // A line that begins inside the share may end outside.
  const auto of_share = static_cast<std::uint64_t>(std::max<std::int64_t>(0, in_file - windows[i].begin));
  return before + std::min(of_share, used_before[i + 1] - used_before[i]);
}

std::int64_t TextSource::lines_before(std::int64_t input) const {
  const State& s = *state_;
  const Window& window = s.windows.at(static_cast<std::size_t>(input));
  if (window.begin == 0) return 0;
  const auto known = s.lines_before.find(input);
  if (known != s.lines_before.end()) return known->second;
  InputReader reader = open_input(s.options.inputs[static_cast<std::size_t>(input)], nullptr);
  std::int64_t lines = 0, at = 0;
  for (std::string block; !(block = read_head(reader, kBlock)).empty(); at += std::ssize(block)) {
    // All line feeds before the share's range, and the first one from its last byte on.
    const auto inside = static_cast<std::size_t>(std::clamp<std::int64_t>(window.begin - 1 - at, 0, std::ssize(block)));
    lines += std::count(block.begin(), block.begin() + static_cast<std::ptrdiff_t>(inside), '\n');
    if (inside < block.size() && block.find('\n', inside) != std::string::npos) {
      ++lines;
      break;
    }
  }
  return s.lines_before[input] = lines;
}

// Open the input at hand where reading goes on.   gives  false: nothing of it is wanted
bool TextSource::State::open() {
  const auto i = static_cast<std::size_t>(here.input);
  if (windows[i].end == windows[i].begin && !windows[i].whole()) return false;
  reader.emplace(open_input(options.inputs[i], options.stop));
  end_of_file = false;
  rest.clear();
  if (here.byte > 0) {
    if (!reader->skip(static_cast<std::uint64_t>(here.byte))) {
      throw Error(Code::data, fmt::format("ends before byte {}, up to which it was read", here.byte), options.inputs[i],
                  "it is not the file it was");
    }
    return true;
  }
  return windows[i].begin == 0 || skip_to_share();
}

// To the first line that begins at the window's begin or later.
bool TextSource::State::skip_to_share() {
  const Window& window = windows[static_cast<std::size_t>(here.input)];
  here.byte = window.begin - 1;
  if (!reader->skip(static_cast<std::uint64_t>(here.byte))) return false;
  for (;;) {
    rest.clear();
    if (!fill(rest, kBlock) && rest.empty()) return false;
    const std::size_t feed = rest.find('\n');
    const std::size_t passed = feed == std::string::npos ? rest.size() : feed + 1;
    here.byte += static_cast<std::int64_t>(passed);
    if (here.byte >= window.end) return false;
    if (feed != std::string::npos) {
      rest.erase(0, passed);
      return true;
    }
  }
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
  if (formats[static_cast<std::size_t>(here.input)] == InputFormat::jsonl) {
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

// The next whole records of the input at hand, in the memory of `text`; what is read beyond them goes to `rest`.
// end_of_file: there are no more.
std::string TextSource::State::take_records(std::string text) {
  const auto i = static_cast<std::size_t>(here.input);
  text.assign(rest);
  rest.clear();
  text.reserve(options.chunk_bytes + kPadding);
  for (std::size_t wanted = options.chunk_bytes;; wanted = std::max(wanted, text.size()) * 2) {
    fill(text, wanted);
    if (here.byte == 0 && (end_of_file || text.size() >= kHeadBytes)) {
      refuse_foreign(std::string_view(text).substr(0, kHeadBytes), options.inputs[i], formats[i], reader->packing());
    }
    if (here.byte == 0 && text.starts_with("\xEF\xBB\xBF")) {
      text.erase(0, 3);
      here.byte = 3;
    }
    std::size_t cut = end_of_file ? text.size() : whole_records(text);
    if (windows[i].end >= 0 && windows[i].end - here.byte <= std::ssize(text)) {  // the line that holds the last byte ends it
      const auto last = static_cast<std::size_t>(std::max<std::int64_t>(windows[i].end - here.byte, 1) - 1);
      if (const std::size_t feed = text.find('\n', last); feed != std::string::npos) {
        cut = feed + 1;
        end_of_file = true;
      }
    }
    if (cut == 0 && !end_of_file) continue;
    if (!end_of_file) rest.assign(text, cut, std::string::npos);
    text.resize(cut);
    return text;
  }
}

void TextSource::State::leave_input() {
  reader.reset();
  rest.clear();
  ++here.input;
  here.byte = 0;
  here.line = 1;
  if (here.input < std::ssize(options.inputs) || here.pass + 1 >= options.deal) return;
  const std::int64_t next_pass = here.pass + 1;
  here = {};
  here.pass = next_pass;
}

std::optional<TextChunk> TextSource::next(std::string room) {
  State& s = *state_;
  while (s.here.input < std::ssize(s.options.inputs)) {
    if (!s.reader && !s.open()) {
      s.leave_input();
      continue;
    }
    const TextPosition from = s.here;
    const auto i = static_cast<std::size_t>(from.input);
    std::string text = s.take_records(std::move(room));
    TextChunk chunk;
    chunk.number = s.number;
    chunk.format = s.formats[i];
    chunk.file = s.options.inputs[i] == "-" ? "stdin" : s.options.inputs[i];
    chunk.input = from.input;
    chunk.first_line = from.line;
    chunk.deal = s.options.deal;
    chunk.pass = from.pass;
    chunk.first_dealt = from.lines;
    chunk.separator = s.options.document_separator;
    chunk.size = text.size();
    const std::int64_t feeds = count_feeds(text);
    s.here.byte += std::ssize(text);
    s.here.line += feeds;
    s.here.lines += feeds + (s.end_of_file && !text.empty() && text.back() != '\n' ? 1 : 0);
    chunk.storage = std::move(text);
    chunk.storage.resize(chunk.size + kPadding, ' ');
    chunk.used = s.used();
    if (s.end_of_file) s.leave_input();
    chunk.after = s.here;
    if (chunk.size == 0) continue;
    ++s.number;
    return chunk;
  }
  return std::nullopt;
}

}  // namespace mt::data
