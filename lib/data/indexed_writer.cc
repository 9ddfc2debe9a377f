#include <array>
#include <cstring>
#include <fstream>
#include <limits>

#include "base/error.h"
#include "base/file_lock.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/log.h"
#include "data/encode_journal.h"
#include "data/indexed_dataset.h"
#include "data/spill_file.h"

namespace mt::data {

namespace {

constexpr std::size_t kBuffer = std::size_t{1} << 20;

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

fs::path lengths_path(const std::string& prefix) { return prefix + ".lengths.partial"; }
fs::path documents_path(const std::string& prefix) { return prefix + ".documents.partial"; }

// The first `bytes` of a file, a block at a time.   fails  Error{corrupt}: there are fewer
void read_blocks(const fs::path& path, std::uint64_t bytes, const std::function<void(std::span<const std::byte>)>& take) {
  std::ifstream file(path, std::ios::binary);
  std::vector<std::byte> block(kBuffer);
  while (bytes > 0) {
    const std::uint64_t n = std::min<std::uint64_t>(bytes, block.size());
    if (!file.read(reinterpret_cast<char*>(block.data()), static_cast<std::streamsize>(n))) {
      throw Error(Code::corrupt, fmt::format("ends {} bytes early", bytes - static_cast<std::uint64_t>(file.gcount())),
                  path.string());
    }
    take(std::span<const std::byte>(block).first(n));
    bytes -= n;
  }
}

bool same_content(const fs::path& a, const fs::path& b) {
  std::error_code error;
  if (fs::equivalent(a, b, error)) return true;
  const std::uintmax_t size = fs::file_size(a, error);
  if (error || fs::file_size(b, error) != size || error) return false;
  const auto hash = [size](const fs::path& path) {
    Xxh3Stream stream;
    read_blocks(path, size, [&](std::span<const std::byte> block) { stream.update(block.data(), block.size()); });
    return stream.digest();
  };
  return hash(a) == hash(b);
}

}  // namespace

std::vector<fs::path> leftover_paths(const std::string& prefix) {
  return {prefix + ".journal", partial_path(bin_path(prefix)), lengths_path(prefix), documents_path(prefix)};
}

struct IndexedWriter::State {
  std::optional<FileLock> lock;
  std::string prefix;
  TokenType type;
  bool force, committing = false, going_on = false;
  std::optional<OutputFile> bin;  // empty: has its name already
  std::optional<SpillFile> lengths, documents;
  Xxh3Stream bin_hash;
  std::vector<std::byte> buffer;
  std::int64_t num_sequences = 0, num_documents = 0, num_tokens = 0;

  State(std::string p, TokenType t, bool f) : prefix(std::move(p)), type(t), force(f) {}

  std::uint64_t bin_bytes() const { return static_cast<std::uint64_t>(num_tokens * bytes_of(type)); }
  // Where the tokens are now.
  fs::path bin_place() const { return bin ? bin->temporary_path() : bin_path(prefix); }
  void write(std::span<const std::byte> bytes) {
    bin_hash.update(bytes.data(), bytes.size());
    bin->write(bytes.data(), bytes.size());
  }
  void flush() {
    if (!buffer.empty()) write(buffer);
    buffer.clear();
  }
  void remove_leftovers() const;
  void take_up(const TokenFileMark& from);
  std::string write_index(OutputFile& idx);
  std::string sidecar_text(const std::optional<TokenFileOrigin>& origin, const std::string& idx_hash);
  void replace(OutputFile& idx, const std::string& sidecar);
  void add_new(const OutputFile& idx, const std::string& sidecar);
};

IndexedWriter::IndexedWriter(std::string prefix, TokenType type, bool force) {
  FileLock lock = lock_of(prefix);
  refuse_existing(prefix, force);
  refuse_resumable(prefix, force);
  state_ = std::make_unique<State>(std::move(prefix), type, force);
  State& s = *state_;
  s.lock.emplace(std::move(lock));
  s.remove_leftovers();
  s.bin.emplace(bin_path(s.prefix));
  s.lengths.emplace(idx_path(s.prefix));
  s.documents.emplace(idx_path(s.prefix));
}

IndexedWriter::IndexedWriter(std::string prefix, TokenType type, bool force, const TokenFileMark* from, bool committing) {
  FileLock lock = lock_of(prefix);
  if (!committing) refuse_existing(prefix, force);
  if (from == nullptr) refuse_resumable(prefix, force);
  state_ = std::make_unique<State>(std::move(prefix), type, force);
  State& s = *state_;
  s.lock.emplace(std::move(lock));
  s.committing = committing;
  s.going_on = from != nullptr;
  if (from == nullptr) s.remove_leftovers();
  s.take_up(from != nullptr ? *from : TokenFileMark());
}

IndexedWriter::~IndexedWriter() = default;

void IndexedWriter::State::remove_leftovers() const {
  for (const fs::path& path : leftover_paths(prefix)) {
    std::error_code error;
    if (fs::remove(path, error)) log::info("removed {}, left by a run that was killed", path.string());
  }
}

void IndexedWriter::State::take_up(const TokenFileMark& from) {
  num_sequences = from.sequences;
  num_documents = from.documents;
  num_tokens = from.tokens;
  const fs::path partial = partial_path(bin_path(prefix));
  const bool has_its_name = committing && !fs::exists(partial) && fs::exists(bin_path(prefix));
  const auto check = [&](bool right, const fs::path& path) {
    if (right) return;
    throw Error(Code::corrupt, "is not what the killed run wrote", path.string(), "--force without --resume begins anew");
  };
  if (num_tokens > 0) {
    const fs::path place = has_its_name ? bin_path(prefix) : partial;
    if (has_its_name) check(fs::file_size(place) == bin_bytes(), place);
    read_blocks(place, bin_bytes(), [&](std::span<const std::byte> block) { bin_hash.update(block.data(), block.size()); });
    check(hash_text(bin_hash.digest()) == from.bin_hash, place);
  }
  std::int64_t tokens = 0, last_boundary = 0;
  read_blocks(lengths_path(prefix), static_cast<std::uint64_t>(4 * num_sequences), [&](std::span<const std::byte> block) {
    for (std::size_t i = 0; i < block.size(); i += 4) {
      std::int32_t n = 0;
      std::memcpy(&n, block.data() + i, 4);
      tokens += n;
    }
  });
  read_blocks(documents_path(prefix), static_cast<std::uint64_t>(8 * num_documents), [&](std::span<const std::byte> block) {
    std::memcpy(&last_boundary, block.data() + block.size() - 8, 8);
  });
  check(tokens == num_tokens, lengths_path(prefix));
  check(last_boundary == num_sequences, documents_path(prefix));
  if (!has_its_name) {
    bin.emplace(OutputFile::partial(bin_path(prefix), bin_bytes()));
    bin->keep_temporary(going_on);
  }
  lengths.emplace(lengths_path(prefix), static_cast<std::uint64_t>(4 * num_sequences));
  lengths->keep(going_on);
  documents.emplace(documents_path(prefix), static_cast<std::uint64_t>(8 * num_documents));
  documents->keep(going_on);
}

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
  s.lengths->add(bytes_of_value(static_cast<std::int32_t>(ids.size())));
  ++s.num_sequences;
  s.num_tokens += static_cast<std::int64_t>(ids.size());
  if (s.buffer.size() >= kBuffer) s.flush();
}

void IndexedWriter::end_document() {
  state_->documents->add(bytes_of_value(state_->num_sequences));
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
  s.write(ids);
  s.lengths->add(std::as_bytes(lengths));
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
  if (static_cast<std::int64_t>(other.bin().size()) != other.num_tokens() * bytes_of(s.type)) {
    throw Error(Code::corrupt,
                fmt::format("{} bytes for {} tokens: its sequences do not follow each other without gaps", other.bin().size(),
                            other.num_tokens()),
                bin_path(other.prefix()).string(), "the file is cut or damaged; write it again");
  }
  const std::int64_t first = s.num_sequences;
  s.flush();
  read_blocks(bin_path(other.prefix()), other.bin().size(), [&](std::span<const std::byte> block) { s.write(block); });
  for (std::int64_t i = 0; i < other.num_sequences(); ++i) s.lengths->add(bytes_of_value(other.length(i)));
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

TokenFileMark IndexedWriter::mark() {
  State& s = *state_;
  s.flush();
  if (s.bin) s.bin->sync();
  s.lengths->sync();
  s.documents->sync();
  return {s.num_sequences, s.num_documents, s.num_tokens, hash_text(s.bin_hash.digest())};
}

void IndexedWriter::keep_leftovers(bool keep) {
  if (state_->bin) state_->bin->keep_temporary(keep);
  state_->lengths->keep(keep);
  state_->documents->keep(keep);
}

void IndexedWriter::replay_tokens(const std::function<void(std::span<const std::byte>)>& take) {
  state_->flush();
  read_blocks(state_->bin_place(), state_->bin_bytes(), take);
}

// Gives the hash of what it wrote.
std::string IndexedWriter::State::write_index(OutputFile& idx) {
  Xxh3Stream hash;
  const auto put = [&](const void* bytes, std::size_t size) {
    hash.update(bytes, size);
    idx.write(bytes, size);
  };
  std::array<std::byte, 34> header{};
  const std::uint64_t version = 1, sequences = static_cast<std::uint64_t>(num_sequences),
                      entries = static_cast<std::uint64_t>(num_documents) + 1;
  std::memcpy(header.data(), "MMIDIDX", 7);
  std::memcpy(header.data() + 9, &version, 8);
  header[17] = static_cast<std::byte>(type);
  std::memcpy(header.data() + 18, &sequences, 8);
  std::memcpy(header.data() + 26, &entries, 8);
  put(header.data(), header.size());
  lengths->replay([&](std::span<const std::byte> block) { put(block.data(), block.size()); });
  std::int64_t pointer = 0;
  std::vector<std::int64_t> pointers;
  lengths->replay([&](std::span<const std::byte> block) {
    MT_CHECK(block.size() % 4 == 0, "a block of {} bytes", block.size());
    pointers.resize(block.size() / 4);
    for (std::size_t i = 0; i < pointers.size(); ++i) {
      std::int32_t n = 0;
      std::memcpy(&n, block.data() + 4 * i, 4);
      pointers[i] = pointer;
      pointer += n * bytes_of(type);
    }
    put(pointers.data(), pointers.size() * 8);
  });
  const std::int64_t first_boundary = 0;
  put(&first_boundary, 8);
  documents->replay([&](std::span<const std::byte> block) { put(block.data(), block.size()); });
  return hash_text(hash.digest());
}

void IndexedWriter::State::replace(OutputFile& idx, const std::string& sidecar) {
  if (fs::exists(idx_path(prefix))) {  // no moment may pair the old index with the new tokens
    std::error_code error;
    fs::remove(idx_path(prefix), error);
    if (error) throw Error(Code::io, "cannot remove: " + error.message(), idx_path(prefix).string());
    fsync_directory(idx_path(prefix).has_parent_path() ? idx_path(prefix).parent_path() : fs::path("."));
  }
  if (bin) bin->publish();
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
  if (!committing) refuse_existing(prefix, false);
  std::vector<fs::path> ours;
  const auto name = [&](const OutputFile& file, const fs::path& path) {
    if (committing && fs::exists(path) && same_content(file.temporary_path(), path)) return;
    publish_new(file, path);
    ours.push_back(path);
  };
  try {
    if (bin) name(*bin, bin_path(prefix));
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

std::string IndexedWriter::State::sidecar_text(const std::optional<TokenFileOrigin>& origin, const std::string& idx_hash) {
  if (!origin) return "";
  Json j{{"tokenizer_type", origin->tokenizer_type},
         {"tokenizer_fingerprint", origin->fingerprint},
         {"vocab_size", origin->vocab_size},
         {"eod", nullptr},
         {"eod_appended", origin->eod_appended},
         {"documents", num_documents},
         {"sequences", num_sequences},
         {"tokens", num_tokens},
         {"bin_xxh3", hash_text(bin_hash.digest())},
         {"idx_xxh3", idx_hash}};
  if (origin->eod) j["eod"] = *origin->eod;
  if (origin->parse_special) j["parse_special"] = true;
  if (origin->sentences) j["sentences"] = true;
  if (!origin->before.empty()) j["before"] = origin->before;
  if (!origin->after.empty()) j["after"] = origin->after;
  if (!origin->made_from.empty()) j["made_from"] = Json::parse(origin->made_from);
  return j.dump(2) + "\n";
}

void IndexedWriter::commit(const std::optional<TokenFileOrigin>& origin) {
  State& s = *state_;
  s.flush();
  if (s.bin) s.bin->finish();
  OutputFile idx(idx_path(s.prefix));
  const std::string idx_hash = s.write_index(idx);
  idx.finish();
  const std::string sidecar = s.sidecar_text(origin, idx_hash);
  if (s.force) s.replace(idx, sidecar);
  else s.add_new(idx, sidecar);
}

}  // namespace mt::data
