#include "tokenizer/byte_level_bpe.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/hash.h"
#include "tokenizer/cached_pieces.h"
#include "tokenizer/nfc.h"
#include "tokenizer/unicode.h"

namespace mt::tokenizer {

namespace {

constexpr std::size_t kMaxText = (std::size_t{1} << 32) - 16;

bool prints_as_itself(std::uint32_t b) { return (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174; }

std::array<std::uint16_t, 256> build_byte_chars() {
  std::array<std::uint16_t, 256> chars{};
  std::uint16_t other = 256;
  for (std::uint32_t b = 0; b < 256; ++b) chars[b] = prints_as_itself(b) ? static_cast<std::uint16_t>(b) : other++;
  return chars;
}

std::array<std::int16_t, 512> build_char_bytes() {
  std::array<std::int16_t, 512> bytes{};
  bytes.fill(-1);
  for (std::uint32_t b = 0; b < 256; ++b) {
    bytes[byte_to_char(static_cast<std::uint8_t>(b))] = static_cast<std::int16_t>(b);
  }
  return bytes;
}

}  // namespace

std::uint32_t byte_to_char(std::uint8_t byte) {
  static const std::array<std::uint16_t, 256> chars = build_byte_chars();
  return chars[byte];
}

std::string token_of_bytes(std::string_view bytes) {
  std::string token;
  for (const char b : bytes) append_utf8(byte_to_char(static_cast<std::uint8_t>(b)), token);
  return token;
}

std::string bytes_of_token(std::string_view token) {
  static const std::array<std::int16_t, 512> char_bytes = build_char_bytes();
  std::string bytes;
  for (std::size_t i = 0; i < token.size();) {
    const Decoded d = decode_utf8(token.data() + i);
    if (d.code_point >= char_bytes.size() || char_bytes[d.code_point] < 0) return std::string(token);
    bytes.push_back(static_cast<char>(char_bytes[d.code_point]));
    i += d.size;
  }
  return bytes;
}

ByteLevelBpe::ByteLevelBpe(ByteLevelBpeParts parts) : parts_(std::move(parts)), merges_(parts_.merges, parts_.order) {
  bool own = true;  // every byte has a token of its own, so that a token's bytes are the text's
  for (int b = 0; b < 256; ++b) {
    const char byte = static_cast<char>(b);
    const std::optional<Id> id = parts_.tokens.find({&byte, 1});
    own &= id.has_value();
    byte_ids_[static_cast<std::size_t>(b)] = id.value_or(parts_.unknown.value_or(-1));
  }
  merges_.set_bytes(byte_ids_);
  if (own) {
    borders_.emplace();
    for (const Merge& m : parts_.merges) borders_->add(parts_.tokens.token(m.result));
  }
  all_bytes_ = *std::min_element(byte_ids_.begin(), byte_ids_.end()) >= 0;
  std::sort(parts_.added_only.begin(), parts_.added_only.end());
  added_ = AddedTokens(parts_.added, [this](const std::string& content) {
    std::string buffer;
    return parts_.nfc ? std::string(to_nfc(content, buffer)) : content;
  });
  fingerprint_ = hash_parts();
}

std::uint64_t ByteLevelBpe::hash_parts() const {
  Xxh3Stream hash;
  const auto number = [&hash](std::uint64_t n) { hash.update(&n, sizeof n); };
  const auto text = [&](std::string_view s) {
    number(s.size());
    hash.update(s.data(), s.size());
  };
  text("byte-level-bpe");
  for (Id id = 0; id < parts_.tokens.size(); ++id) text(parts_.tokens.has(id) ? parts_.tokens.token(id) : "\xFF(gap)");
  for (const Merge& m : parts_.merges) {
    const std::int32_t row[3] = {m.left, m.right, m.result};
    hash.update(row, sizeof row);
  }
  hash.update(parts_.order.data(), parts_.order.size() * sizeof(std::uint32_t));
  text(parts_.pattern.description());
  number((parts_.nfc ? 1u : 0u) | (parts_.ignore_merges ? 2u : 0u) | (parts_.add_prefix_space ? 4u : 0u));
  for (const AddedToken& t : parts_.added) {
    text(t.content);
    number(static_cast<std::uint64_t>(t.id));
    number((t.special ? 1u : 0u) | (t.lstrip ? 4u : 0u) | (t.rstrip ? 8u : 0u) | (t.single_word ? 16u : 0u));
  }
  return hash.digest();
}

void ByteLevelBpe::encode(std::string_view text, EncodeScratch& scratch, std::vector<Id>& out) const {
  if (text.size() > kMaxText) {
    throw Error(Code::data, fmt::format("a document of {} bytes: wanted below 4 GiB", text.size()));
  }
  added_.walk(
      text, {parts_.parse_special, scratch.specials_as_text, out},
      [&](std::string_view segment) { return parts_.nfc ? to_nfc(segment, scratch.normalized) : segment; },
      [&](std::string_view s, bool) { encode_plain(s, scratch, out); });
}

void ByteLevelBpe::encode_plain(std::string_view text, EncodeScratch& scratch, std::vector<Id>& out) const {
  if (text.empty()) return;
  std::string spaced;
  if (parts_.add_prefix_space && text.front() != ' ') {
    spaced = " ";
    spaced += text;
    text = spaced;
  }
  CachedPieces pieces(scratch, out, [&](std::span<const std::string_view> some, WordsOfSymbols& ids) {
    encode_new(some, scratch, ids);
  });
  const char* const end = text.data() + text.size();
  if (parts_.pattern.batched()) {
    std::uint32_t lengths[kPieceBatch];
    std::size_t position = 0, done = 0;
    while (const std::size_t n = parts_.pattern.next(text, position, lengths)) {
      pieces.add(TouchingPieces(text.data() + done, {lengths, n}, end), n);
      done = position;
    }
    return pieces.finish();
  }
  scratch.lengths.clear();
  parts_.pattern.split(text, scratch.lengths);
  const char* at = text.data();
  const std::span<const std::uint32_t> all = scratch.lengths;
  for (std::size_t i = 0; i < all.size(); i += kPieceBatch) {
    const auto some = all.subspan(i, std::min(kPieceBatch, all.size() - i));
    pieces.add(TouchingPieces(at, some, end), some.size());
    for (const std::uint32_t n : some) at += n;
  }
  pieces.finish();
}

// A piece that is a token whatever the merges say.
std::optional<Id> ByteLevelBpe::whole_token(std::string_view piece) const {
  if (!parts_.ignore_merges) return std::nullopt;
  const std::optional<Id> id = parts_.tokens.find(piece);
  const bool own = id && !std::binary_search(parts_.added_only.begin(), parts_.added_only.end(), *id);
  return own ? id : std::nullopt;
}

// Pieces as parts no merge crosses, some hundred at a time.
void ByteLevelBpe::encode_new(std::span<const std::string_view> pieces, EncodeScratch& scratch, WordsOfSymbols& ids) const {
  constexpr std::size_t kParts = 512;
  std::vector<MissScratch::Part>& parts = scratch.misses.parts;
  parts.clear();
  for (const std::string_view piece : pieces) {
    if (parts_.ignore_merges) parts_.tokens.prefetch(piece);
  }
  for (const std::string_view piece : pieces) {
    const std::optional<Id> whole = whole_token(piece);
    if (!whole && !all_bytes_) check_bytes(piece);
    if (whole || piece.size() <= WordCache::kMaxKeyBytes || !borders_) {
      parts.push_back({piece, {}, 0, whole.value_or(-1), false, true});
    } else {
      for (std::string_view rest = piece; !rest.empty();) {
        const std::size_t size = borders_->part(rest);
        const bool cached = size < piece.size() && size <= WordCache::kMaxKeyBytes;
        parts.push_back({rest.substr(0, size), {}, 0, -1, cached, size == rest.size()});
        if (cached) look_for(parts.back(), scratch);
        rest.remove_prefix(size);
        if (parts.size() >= kParts) encode_parts(scratch, ids);
      }
    }
    if (parts.size() >= kParts) encode_parts(scratch, ids);
  }
  encode_parts(scratch, ids);
}

// Such a part is no piece: its being a token counts for nothing.
void ByteLevelBpe::look_for(MissScratch::Part& part, const EncodeScratch& scratch) const {
  part.key = WordCache::key_of(part.text.data(), part.text.size());
  if (parts_.ignore_merges) part.key = WordCache::part_key(part.key);
  part.hash = WordCache::hash_of(part.key);
  scratch.words.prefetch(part.hash);
}

// Append the ids of the parts at hand, known ones and those that are merged now.
void ByteLevelBpe::encode_parts(EncodeScratch& scratch, WordsOfSymbols& ids) const {
  MissScratch& misses = scratch.misses;
  misses.words.clear();
  misses.merged.clear();
  for (MissScratch::Part& part : misses.parts) {
    const WordCache::Entry* entry = part.cached ? scratch.words.find(part.key, part.hash) : nullptr;
    if (entry != nullptr && !entry->pending()) continue;
    part.cached = false;
    if (part.id < 0) misses.words.push_back(part.text);
  }
  merges_.merge_bytes_all(misses.words, misses.merged);
  std::size_t word = 0;
  for (const MissScratch::Part& part : misses.parts) {
    std::vector<Id>& out = ids.symbols;
    if (part.id >= 0) {
      out.push_back(part.id);
    } else {
      const WordCache::Entry* entry = part.cached ? scratch.words.find(part.key, part.hash) : nullptr;
      const std::span<const Id> some = entry != nullptr ? scratch.words.ids(*entry) : misses.merged.word(word++);
      out.insert(out.end(), some.begin(), some.end());
    }
    if (part.last) ids.end_word();
  }
  word = 0;
  for (const MissScratch::Part& part : misses.parts) {
    if (part.cached || part.id >= 0) continue;
    const std::span<const Id> some = misses.merged.word(word++);
    if (part.hash != 0 && scratch.words.find(part.key, part.hash) == nullptr) scratch.words.insert(part.key, part.hash, some);
  }
  misses.parts.clear();
}

void ByteLevelBpe::check_bytes(std::string_view piece) const {
  for (const char c : piece) {
    if (byte_ids_[static_cast<unsigned char>(c)] >= 0) continue;
    throw Error(Code::data, fmt::format("byte 0x{:02x} has no token in this tokenizer", static_cast<unsigned char>(c)),
                "", "use a tokenizer whose vocabulary holds all 256 bytes");
  }
}

}  // namespace mt::tokenizer
