#include "data/indexed_dataset.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include <sys/stat.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/json.h"

namespace mt::data {

namespace {

constexpr std::array<char, 9> kMagic{'M', 'M', 'I', 'D', 'I', 'D', 'X', '\0', '\0'};
constexpr std::size_t kHeaderBytes = 34;

// The arrays of .idx follow a 34-byte header, so nothing is aligned.
template <class T>
T load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

struct CodeRow {
  int code;
  std::int64_t bytes;
  const char* name;
};
constexpr CodeRow kCodes[] = {{1, 1, "uint8"}, {2, 1, "int8"},  {3, 2, "int16"},
                              {4, 4, "int32"}, {5, 8, "int64"}, {8, 2, "uint16"}};

const CodeRow* row_of(int code) {
  for (const CodeRow& row : kCodes) {
    if (row.code == code) return &row;
  }
  return nullptr;
}

}  // namespace

const char* token_type_name(TokenType type) { return row_of(static_cast<int>(type))->name; }
TokenType token_type_for(std::int64_t vocab_size) { return vocab_size < 65500 ? TokenType::u16 : TokenType::i32; }

fs::path bin_path(const std::string& prefix) { return prefix + ".bin"; }
fs::path idx_path(const std::string& prefix) { return prefix + ".idx"; }
fs::path sidecar_path(const std::string& prefix) { return prefix + ".json"; }

std::string token_file_prefix(const std::string& name) {
  if (fs::path(name).extension() != ".bin" && fs::path(name).extension() != ".idx") return name;
  std::error_code error;
  return fs::exists(idx_path(name), error) ? name : name.substr(0, name.size() - 4);
}

IndexedDataset::IndexedDataset(const std::string& name)
    : prefix_(token_file_prefix(name)), bin_(bin_path(prefix_)), idx_(idx_path(prefix_)) {
  const std::string where = idx_path(prefix_).string();
  const std::byte* p = idx_.data();
  if (idx_.size() < kHeaderBytes || std::memcmp(p, kMagic.data(), kMagic.size()) != 0) {
    throw Error(Code::corrupt, "not an index of a token file: wanted the magic bytes MMIDIDX", where);
  }
  const auto version = load<std::uint64_t>(p + 9);
  if (version != 1) throw Error(Code::corrupt, fmt::format("index version {}: wanted 1", version), where);
  code_ = std::to_integer<int>(p[17]);
  const CodeRow* row = row_of(code_);
  if (row == nullptr) {
    throw Error(Code::corrupt, fmt::format("type code {}: wanted an integer type (1-5 or 8)", code_), where);
  }
  item_bytes_ = row->bytes;
  const auto sequences = load<std::uint64_t>(p + 18), entries = load<std::uint64_t>(p + 26);
  // With a byte an entry or more the sum below cannot overflow; without, the header is all that is worth saying.
  if (sequences > idx_.size() || entries > idx_.size() || entries < 1) {
    throw Error(Code::corrupt,
                fmt::format("the header says {} sequences and {} document boundaries, the file has {} bytes", sequences,
                            entries, idx_.size()),
                where, "the file is cut or damaged; write it again");
  }
  const std::uint64_t plain = kHeaderBytes + 12 * sequences + 8 * entries;
  if (idx_.size() != plain && idx_.size() != plain + sequences) {
    throw Error(Code::corrupt,
                fmt::format("{} bytes for {} sequences and {} boundaries: wanted {} (or {} with modes)", idx_.size(),
                            sequences, entries, plain, plain + sequences),
                where, "the file is cut or damaged; write it again");
  }
  num_sequences_ = static_cast<std::int64_t>(sequences);
  num_documents_ = static_cast<std::int64_t>(entries) - 1;
  lengths_ = p + kHeaderBytes;
  pointers_ = lengths_ + 4 * sequences;
  documents_ = pointers_ + 8 * sequences;
  check_arrays();
  for (std::int64_t i = 0; i < num_sequences_; ++i) num_tokens_ += length(i);
}

void IndexedDataset::check_arrays() const {
  const std::string where = idx_path(prefix_).string();
  std::int64_t previous = 0;
  for (std::int64_t d = 0; d <= num_documents_; ++d) {
    const std::int64_t begin = document_begin(d);
    if (begin < previous || begin > num_sequences_ || (d == 0 && begin != 0)) {
      throw Error(
          Code::corrupt,
          fmt::format("document boundary {} is {}: wanted {} to {}", d, begin, previous, d == 0 ? 0 : num_sequences_),
          where);
    }
    previous = begin;
  }
  if (previous != num_sequences_) {
    throw Error(Code::corrupt, fmt::format("the last document ends at sequence {} of {}", previous, num_sequences_),
                where);
  }
  const auto bin_bytes = static_cast<std::int64_t>(bin_.size());
  for (std::int64_t i = 0; i < num_sequences_; ++i) {
    const auto pointer = load<std::int64_t>(pointers_ + 8 * i);
    const std::int32_t n = length(i);
    if (n < 0 || pointer < 0 || pointer > bin_bytes || n > (bin_bytes - pointer) / item_bytes_) {
      throw Error(Code::corrupt,
                  fmt::format("sequence {} is {} tokens at byte {}: outside {} of {} bytes", i, n, pointer,
                              bin_path(prefix_).string(), bin_bytes),
                  where, ".bin and .idx are not of one run, or .bin is cut");
    }
  }
}

const char* IndexedDataset::type_name() const { return row_of(code_)->name; }

std::int32_t IndexedDataset::length(std::int64_t i) const {
  MT_CHECK(i >= 0 && i < num_sequences_, "sequence {} of {}", i, num_sequences_);
  return load<std::int32_t>(lengths_ + 4 * i);
}

std::int64_t IndexedDataset::document_begin(std::int64_t d) const {
  MT_CHECK(d >= 0 && d <= num_documents_, "document {} of {}", d, num_documents_);
  return load<std::int64_t>(documents_ + 8 * d);
}

namespace {

template <class T>
void copy_ids(const std::byte* from, std::span<std::int32_t> out) {
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<std::int32_t>(load<T>(from + sizeof(T) * i));
}

}  // namespace

void IndexedDataset::read(std::int64_t i, std::int64_t offset, std::span<std::int32_t> out) const {
  MT_CHECK(offset >= 0 && offset + static_cast<std::int64_t>(out.size()) <= length(i), "tokens {} to {} of {}", offset,
           offset + static_cast<std::int64_t>(out.size()), length(i));
  if (out.empty()) return;
  const std::byte* from = bin_.data() + load<std::int64_t>(pointers_ + 8 * i) + offset * item_bytes_;
  switch (code_) {
    case 1: return copy_ids<std::uint8_t>(from, out);
    case 2: return copy_ids<std::int8_t>(from, out);
    case 3: return copy_ids<std::int16_t>(from, out);
    case 4: std::memcpy(out.data(), from, out.size_bytes()); return;
    case 8: return copy_ids<std::uint16_t>(from, out);
    default: break;
  }
  for (std::size_t k = 0; k < out.size(); ++k) {
    const auto id = load<std::int64_t>(from + 8 * k);
    out[k] = static_cast<std::int32_t>(id);
    if (out[k] != id) throw Error(Code::data, fmt::format("id {} in sequence {} does not fit 32 bits", id, i), prefix_);
  }
}

namespace {

TokenFileOrigin read_sidecar(const fs::path& path) {
  const Json j = read_json(path);
  const std::string where = path.string();
  TokenFileOrigin origin;
  origin.tokenizer_type = json_field<std::string>(j, "tokenizer_type", where);
  origin.fingerprint = json_field<std::string>(j, "tokenizer_fingerprint", where);
  origin.vocab_size = json_field<std::int64_t>(j, "vocab_size", where);
  if (origin.vocab_size < 1) {
    throw Error(Code::corrupt, fmt::format("vocab_size {}: wanted 1 or more", origin.vocab_size), where);
  }
  origin.eod_appended = json_field<bool>(j, "eod_appended", where);
  if (j.contains("eod") && !j.at("eod").is_null()) origin.eod = json_field<std::int32_t>(j, "eod", where);
  if (origin.eod && (*origin.eod < 0 || *origin.eod >= origin.vocab_size)) {
    throw Error(Code::corrupt, fmt::format("eod {}: wanted 0 to {}", *origin.eod, origin.vocab_size - 1), where);
  }
  if (j.contains("parse_special")) origin.parse_special = json_field<bool>(j, "parse_special", where);
  if (j.contains("sentences")) origin.sentences = json_field<bool>(j, "sentences", where);
  if (j.contains("before")) origin.before = json_field<std::vector<std::int32_t>>(j, "before", where);
  if (j.contains("after")) origin.after = json_field<std::vector<std::int32_t>>(j, "after", where);
  return origin;
}

}  // namespace

std::optional<TokenFileOrigin> IndexedDataset::origin() const {
  const fs::path path = sidecar_path(prefix_);
  if (!fs::exists(path)) return std::nullopt;
  return read_sidecar(path);
}

std::optional<TokenFileOrigin> origin_of(const std::string& name) {
  const fs::path path = sidecar_path(token_file_prefix(name));
  if (fs::exists(path)) return read_sidecar(path);
  return IndexedDataset(name).origin();
}

std::string IndexedDataset::content_text() const {
  constexpr std::size_t kBlock = 4096, kBlocks = 4;
  const std::span<const std::byte> bin = bin_.bytes();
  Xxh3Stream blocks;
  for (std::size_t i = 0; i < kBlocks; ++i) {
    const std::size_t n = std::min(kBlock, bin.size()), at = (bin.size() - n) / (kBlocks - 1) * i;
    blocks.update(bin.data() + at, n);
  }
  struct stat st {};
  const fs::path path = bin_path(prefix_);
  if (::stat(path.c_str(), &st) != 0) throw Error(Code::io, "cannot stat: " + errno_text(errno), path.string());
  const Json j{{"idx_bytes", idx_.size()},
               {"idx_xxh3", hash_text(xxh3(idx_.data(), idx_.size()))},
               {"bin_bytes", bin.size()},
               {"bin_blocks_xxh3", hash_text(blocks.digest())},
               {"bin_mtime_ns", std::int64_t{st.st_mtim.tv_sec} * 1000000000 + st.st_mtim.tv_nsec}};
  return json_line(j);
}

TokenFileHashes IndexedDataset::hashes() const {
  const fs::path path = sidecar_path(prefix_);
  if (!fs::exists(path)) return {};
  const Json j = read_json(path);
  TokenFileHashes hashes;
  if (j.contains("bin_xxh3")) hashes.bin = json_field<std::string>(j, "bin_xxh3", path.string());
  if (j.contains("idx_xxh3")) hashes.idx = json_field<std::string>(j, "idx_xxh3", path.string());
  return hashes;
}

bool IndexedDataset::verify() const {
  const TokenFileHashes wanted = hashes();
  if (wanted.bin.empty() && wanted.idx.empty()) return false;
  const auto check = [this](const MappedFile& file, const std::string& hash, const fs::path& path) {
    const std::string found = hash_text(xxh3(file.data(), file.size()));
    if (hash.empty() || found == hash) return;
    throw Error(Code::corrupt, fmt::format("its hash is {}, wanted {} as {} says", found, hash, sidecar_path(prefix_).string()),
                path.string(), "the file was changed or damaged; get it again");
  };
  check(idx_, wanted.idx, idx_path(prefix_));
  check(bin_, wanted.bin, bin_path(prefix_));
  return true;
}

}  // namespace mt::data
