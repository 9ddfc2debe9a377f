#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "base/file_lock.h"
#include "base/json.h"
#include "data/indexed_dataset.h"

namespace mt::data {

namespace {

constexpr std::size_t kBuffer = std::size_t{1} << 20;

// Values written now and read back once, in a file without a name: gone whatever kills the process.
class Spill {
 public:
  explicit Spill(const fs::path& beside) {
    std::string name = beside.string() + ".spill.XXXXXX";
    fd_ = ::mkostemp(name.data(), O_CLOEXEC);
    if (fd_ < 0) throw Error(Code::io, "cannot create a temporary file: " + errno_text(errno), name);
    ::unlink(name.c_str());
    where_ = name;
  }
  ~Spill() { ::close(fd_); }
  Spill(const Spill&) = delete;
  Spill& operator=(const Spill&) = delete;

  void add(std::span<const std::byte> bytes) {
    buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
    if (buffer_.size() >= kBuffer) flush();
  }
  // Hand every byte, in order and in blocks of a multiple of 8 bytes, to `take`.
  template <class Take>
  void replay(Take take) {
    flush();
    std::vector<std::byte> block(kBuffer);
    for (off_t at = 0;;) {
      const ssize_t n = ::pread(fd_, block.data(), block.size(), at);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) throw Error(Code::io, "cannot read back: " + errno_text(errno), where_);
      if (n == 0) return;
      take(std::span<const std::byte>(block.data(), static_cast<std::size_t>(n)));
      at += n;
    }
  }

 private:
  void flush() {
    for (std::size_t done = 0; done < buffer_.size();) {
      const ssize_t n = ::write(fd_, buffer_.data() + done, buffer_.size() - done);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) throw Error(Code::io, "cannot write: " + errno_text(errno), where_);
      done += static_cast<std::size_t>(n);
    }
    buffer_.clear();
  }
  int fd_;
  std::string where_;
  std::vector<std::byte> buffer_;
};

template <class T>
std::span<const std::byte> bytes_of_value(const T& value) {
  return std::as_bytes(std::span<const T, 1>(&value, 1));
}

// Two writers of one prefix would pair the tokens of one with the index of the other.
FileLock lock_of(const std::string& prefix) {
  const fs::path path = prefix + ".lock";
  const fs::path parent = path.has_parent_path() ? path.parent_path() : fs::path(".");
  if (!fs::is_directory(parent)) throw Error(Code::io, "no such directory for the output", parent.string());
  auto lock = FileLock::try_lock(path, true);
  if (!lock)
    throw Error(Code::io, "another process is writing this token file", prefix, "wait for it, or choose another --output-prefix");
  return std::move(*lock);
}

void refuse_existing(const std::string& prefix, bool force) {
  for (const fs::path& path : {bin_path(prefix), idx_path(prefix), sidecar_path(prefix)}) {
    if (!force && fs::exists(path)) {
      throw Error(Code::io, "exists already", path.string(), "--force overwrites, or choose another --output-prefix");
    }
  }
}

}  // namespace

struct IndexedWriter::State {
  std::optional<FileLock> lock;
  std::string prefix;
  TokenType type;
  bool force;
  OutputFile bin;
  Spill lengths, documents;
  std::vector<std::byte> buffer;
  std::int64_t num_sequences = 0, num_documents = 0, num_tokens = 0;

  State(std::string p, TokenType t, bool f)
      : prefix(std::move(p)),
        type(t),
        force(f),
        bin(bin_path(prefix)),
        lengths(idx_path(prefix)),
        documents(idx_path(prefix)) {}

  void flush() {
    bin.write(buffer.data(), buffer.size());
    buffer.clear();
  }
  void write_index(OutputFile& idx);
  void replace(OutputFile& idx, const std::string& sidecar);
  void add_new(const OutputFile& idx, const std::string& sidecar);
};

IndexedWriter::IndexedWriter(std::string prefix, TokenType type, bool force) {
  FileLock lock = lock_of(prefix);
  refuse_existing(prefix, force);
  state_ = std::make_unique<State>(std::move(prefix), type, force);
  state_->lock.emplace(std::move(lock));
}

IndexedWriter::~IndexedWriter() = default;

void IndexedWriter::add_sequence(std::span<const std::int32_t> ids) {
  State& s = *state_;
  if (ids.empty() || ids.size() > static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max())) {
    throw Error(Code::data, fmt::format("a sequence of {} tokens: wanted 1 to 2^31-1", ids.size()), s.prefix);
  }
  const std::size_t old = s.buffer.size(), width = static_cast<std::size_t>(bytes_of(s.type));
  const std::int64_t limit = s.type == TokenType::u16 ? 65535 : std::numeric_limits<std::int32_t>::max();
  s.buffer.resize(old + ids.size() * width);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 || ids[i] > limit) {
      s.buffer.resize(old);
      throw Error(Code::data, fmt::format("id {} does not fit {}", ids[i], token_type_name(s.type)), s.prefix);
    }
    std::memcpy(s.buffer.data() + old + i * width, &ids[i], width);  // little-endian, as the format wants
  }
  s.lengths.add(bytes_of_value(static_cast<std::int32_t>(ids.size())));
  ++s.num_sequences;
  s.num_tokens += static_cast<std::int64_t>(ids.size());
  if (s.buffer.size() >= kBuffer) s.flush();
}

void IndexedWriter::end_document() {
  state_->documents.add(bytes_of_value(state_->num_sequences));
  ++state_->num_documents;
}

void IndexedWriter::add_packed(std::span<const std::byte> ids, std::span<const std::int32_t> lengths,
                               std::span<const std::int32_t> document_sequences) {
  State& s = *state_;
  std::int64_t tokens = 0, sequences = 0;
  for (const std::int32_t n : lengths) tokens += n;
  for (const std::int32_t n : document_sequences) sequences += n;
  MT_CHECK(tokens * bytes_of(s.type) == static_cast<std::int64_t>(ids.size()) &&
               sequences == static_cast<std::int64_t>(lengths.size()),
           "{} tokens in {} bytes, {} of {} sequences", tokens, ids.size(), sequences, lengths.size());
  s.flush();
  s.bin.write(ids.data(), ids.size());
  s.lengths.add(std::as_bytes(lengths));
  for (const std::int32_t n : document_sequences) {
    s.num_sequences += n;
    end_document();
  }
  s.num_tokens += tokens;
}

void IndexedWriter::add_file(const IndexedDataset& other) {
  State& s = *state_;
  if (other.type_code() != static_cast<int>(s.type)) {
    throw Error(
        Code::data,
        fmt::format("tokens are {}: wanted {} as in the first file", other.type_name(), token_type_name(s.type)),
        other.prefix());
  }
  const std::int64_t first = s.num_sequences;
  s.flush();
  s.bin.write(other.bin().data(), other.bin().size());
  for (std::int64_t i = 0; i < other.num_sequences(); ++i) s.lengths.add(bytes_of_value(other.length(i)));
  for (std::int64_t d = 0; d < other.num_documents(); ++d) {
    s.num_sequences = first + other.document_end(d);
    end_document();
  }
  s.num_tokens += other.num_tokens();
}

std::int64_t IndexedWriter::num_sequences() const { return state_->num_sequences; }
std::int64_t IndexedWriter::num_documents() const { return state_->num_documents; }
std::int64_t IndexedWriter::num_tokens() const { return state_->num_tokens; }
TokenType IndexedWriter::type() const { return state_->type; }

void IndexedWriter::State::write_index(OutputFile& idx) {
  std::array<std::byte, 34> header{};
  const std::uint64_t version = 1, sequences = static_cast<std::uint64_t>(num_sequences),
                      entries = static_cast<std::uint64_t>(num_documents) + 1;
  std::memcpy(header.data(), "MMIDIDX", 7);
  std::memcpy(header.data() + 9, &version, 8);
  header[17] = static_cast<std::byte>(type);
  std::memcpy(header.data() + 18, &sequences, 8);
  std::memcpy(header.data() + 26, &entries, 8);
  idx.write(header.data(), header.size());
  lengths.replay([&](std::span<const std::byte> block) { idx.write(block.data(), block.size()); });
  std::int64_t pointer = 0;
  std::vector<std::int64_t> pointers;
  lengths.replay([&](std::span<const std::byte> block) {
    MT_CHECK(block.size() % 4 == 0, "a block of {} bytes", block.size());
    pointers.resize(block.size() / 4);
    for (std::size_t i = 0; i < pointers.size(); ++i) {
      std::int32_t n = 0;
      std::memcpy(&n, block.data() + 4 * i, 4);
      pointers[i] = pointer;
      pointer += n * bytes_of(type);
    }
    idx.write(pointers.data(), pointers.size() * 8);
  });
  const std::int64_t first_boundary = 0;
  idx.write(&first_boundary, 8);
  documents.replay([&](std::span<const std::byte> block) { idx.write(block.data(), block.size()); });
}

void IndexedWriter::State::replace(OutputFile& idx, const std::string& sidecar) {
  if (fs::exists(idx_path(prefix))) {  // no moment may pair the old index with the new tokens
    std::error_code error;
    fs::remove(idx_path(prefix), error);
    if (error) throw Error(Code::io, "cannot remove: " + error.message(), idx_path(prefix).string());
    fsync_directory(idx_path(prefix).has_parent_path() ? idx_path(prefix).parent_path() : fs::path("."));
  }
  bin.publish();
  if (!sidecar.empty()) {
    write_file_atomic(sidecar_path(prefix), sidecar);
  } else {
    std::error_code error;
    fs::remove(sidecar_path(prefix), error);
  }
  idx.publish();
}

// Files of these names that appeared meanwhile stay as they are; what of ours had its name already goes again.
void IndexedWriter::State::add_new(const OutputFile& idx, const std::string& sidecar) {
  refuse_existing(prefix, false);
  std::vector<fs::path> ours;
  const auto name = [&ours](const OutputFile& file, const fs::path& path) {
    publish_new(file, path);
    ours.push_back(path);
  };
  try {
    name(bin, bin_path(prefix));
    if (!sidecar.empty()) {
      OutputFile file(sidecar_path(prefix));
      file.write(sidecar.data(), sidecar.size());
      file.finish();
      name(file, sidecar_path(prefix));
    }
    name(idx, idx_path(prefix));
  } catch (...) {
    std::error_code error;
    for (const fs::path& path : ours) fs::remove(path, error);
    throw;
  }
}

void IndexedWriter::commit(const std::optional<TokenFileOrigin>& origin) {
  State& s = *state_;
  s.flush();
  s.bin.finish();
  OutputFile idx(idx_path(s.prefix));
  s.write_index(idx);
  idx.finish();
  std::string sidecar;
  if (origin) {
    Json j{{"tokenizer_type", origin->tokenizer_type},
           {"tokenizer_fingerprint", origin->fingerprint},
           {"vocab_size", origin->vocab_size},
           {"eod", nullptr},
           {"eod_appended", origin->eod_appended},
           {"documents", s.num_documents},
           {"sequences", s.num_sequences},
           {"tokens", s.num_tokens}};
    if (origin->eod) j["eod"] = *origin->eod;
    if (!origin->before.empty()) j["before"] = origin->before;
    if (!origin->after.empty()) j["after"] = origin->after;
    sidecar = j.dump(2) + "\n";
  }
  if (s.force) s.replace(idx, sidecar);
  else s.add_new(idx, sidecar);
}

}  // namespace mt::data
