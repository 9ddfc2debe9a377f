#include "tokenizer/character_bpe.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/error.h"
#include "tokenizer/ascii_block.h"
#include "tokenizer/unicode.h"

namespace mt::tokenizer {

CharacterBpe::CharacterBpe(CharacterBpeParts parts) : parts_(std::move(parts)), merges_(parts_.merges, parts_.order) {
  for (std::int32_t id = 0; id < parts_.tokens.size(); ++id) {
    if (!parts_.tokens.has(id)) continue;
    const std::string_view token = parts_.tokens.token(id);
    if (token.empty() || find_invalid_utf8(token) != std::string_view::npos) continue;
    const Decoded d = decode_utf8(token.data());
    if (d.size != token.size() || parts_.tokens.find(token) != id) continue;
    if (d.code_point >= char_ids_.size()) char_ids_.resize(d.code_point + 1, -1);
    char_ids_[d.code_point] = id;
  }
  for (int b = 0; b < 256; ++b) byte_ids_[b] = parts_.tokens.find(fmt::format("<0x{:02X}>", b)).value_or(-1);
  if (!parts_.unknown.empty()) {
    unknown_ = parts_.tokens.find(parts_.unknown).value_or(-1);
    if (unknown_ < 0) {
      throw Error(Code::corrupt, fmt::format("the unknown token '{}' is not in the vocabulary", parts_.unknown));
    }
  }
  if (merges_stay_inside()) find_neighbours();
}

// Whether what a piece becomes can be told from its parts: no rule looks at the whole piece, no unknown characters are
// joined over a border, and no merge starts from the token of a byte or of an unknown character.
bool CharacterBpe::merges_stay_inside() const {
  const bool all_bytes = parts_.byte_fallback && *std::min_element(byte_ids_, byte_ids_ + 256) >= 0;
  if (parts_.ignore_merges || !parts_.prefix.empty() || !parts_.suffix.empty()) return false;
  if (!all_bytes && parts_.fuse_unknown) return false;
  std::vector<bool> apart(static_cast<std::size_t>(parts_.tokens.size()), false);
  for (const std::int32_t id : byte_ids_) {
    if (parts_.byte_fallback && id >= 0) apart[static_cast<std::size_t>(id)] = true;
  }
  if (unknown_ >= 0) apart[static_cast<std::size_t>(unknown_)] = true;
  return std::none_of(parts_.merges.begin(), parts_.merges.end(), [&](const Merge& m) {
    return apart[static_cast<std::size_t>(m.left)] || apart[static_cast<std::size_t>(m.right)];
  });
}

// Only results of merges count: a token that no merge makes joins nothing.
void CharacterBpe::find_neighbours() {
  pairs_.assign((std::size_t{1} << kPairBits) / 64, 0);
  for (const Merge& m : parts_.merges) {
    const std::string_view token = parts_.tokens.token(m.result);
    if (token.empty() || find_invalid_utf8(token) != std::string_view::npos) {
      pairs_.clear();
      return;
    }
    Decoded left = decode_utf8(token.data());
    for (std::size_t i = left.size; i < token.size(); i += left.size) {
      const Decoded right = decode_utf8(token.data() + i);
      const std::uint32_t bit =
          (left.code_point * 0x9E3779B1u ^ right.code_point * 0x85EBCA77u) >> (32 - kPairBits);
      pairs_[bit >> 6] |= std::uint64_t{1} << (bit & 63);
      if ((left.code_point | right.code_point) < 0x80) {
        ascii_pairs_[left.code_point * 2 + (right.code_point >> 6)] |= std::uint64_t{1} << (right.code_point & 63);
      }
      left = right;
    }
  }
}

std::optional<CharacterBpeParts> CharacterBpe::with_spaces_for(const CharacterBpeParts& parts,
                                                               std::string_view character) {
  if (character.empty() || !parts.tokens.find(character)) return std::nullopt;
  const auto spaced = [character](std::string_view text) {
    std::string out;
    for (std::size_t hit; (hit = text.find(character)) != std::string_view::npos;) {
      out += text.substr(0, hit);
      out += ' ';
      text.remove_prefix(hit + character.size());
    }
    return out += text;
  };
  CharacterBpeParts made = parts;
  made.tokens = TokenTable();
  for (std::int32_t id = 0; id < parts.tokens.size(); ++id) {
    if (!parts.tokens.has(id)) continue;
    if (parts.tokens.token(id).find(' ') != std::string_view::npos) return std::nullopt;
    made.tokens.add(spaced(parts.tokens.token(id)), id);
  }
  made.tokens.seal();
  made.unknown = spaced(parts.unknown);
  return made;
}

std::size_t CharacterBpe::next(std::string_view piece, std::size_t& position, std::span<std::uint32_t> lengths) const {
  const char* s = piece.data();
  const std::size_t size = piece.size();
  if (position >= size) return 0;
  std::size_t n = 0, begin = position;
  const Decoded first = decode_utf8(s + begin);
  std::uint32_t left = first.code_point;  // the character before `i`
  std::size_t i = begin + first.size;
  // No branch on whether a place is one to cut at: that is hard to foretell.
  const auto look = [&](std::size_t at, std::uint32_t before, std::uint32_t behind) {
    const bool apart = !may_join(before, behind);
    lengths[n] = static_cast<std::uint32_t>(at - begin);
    n += apart ? 1 : 0;
    begin = apart ? at : begin;
  };
  while (i < size) {
    if (lengths.size() - n <= kBlockBytes) break;
    const auto byte = static_cast<unsigned char>(s[i]);
    if (byte < 0x80 && size - i >= kBlockBytes) {
      // Letters beside letters are taken to join: a cut left out changes nothing.
      const AsciiBlock block = classify_block(s + i);
      const int end = block.high != 0 ? std::countr_zero(block.high) : 64;
      std::uint64_t places = ~(block.letter & (block.letter << 1));
      if (end < 64) places &= (std::uint64_t{1} << end) - 1;
      if ((places & 1) != 0) look(i, left, byte);
      for (places &= ~std::uint64_t{1}; places != 0; places &= places - 1) {
        const std::size_t at = i + static_cast<std::size_t>(std::countr_zero(places));
        look(at, static_cast<unsigned char>(s[at - 1]), static_cast<unsigned char>(s[at]));
      }
      i += static_cast<std::size_t>(end);
      left = static_cast<unsigned char>(s[i - 1]);
      continue;
    }
    const Decoded right = decode_utf8(s + i);
    look(i, left, right.code_point);
    left = right.code_point;
    i += right.size;
  }
  if (i >= size) {
    lengths[n++] = static_cast<std::uint32_t>(size - begin);
    begin = size;
  }
  position = begin;
  return n;
}

void CharacterBpe::cut(std::string_view text, std::vector<TextSpan>& pieces) const {
  if (!cuts()) return;
  std::vector<TextSpan> all;
  std::uint32_t lengths[256];
  for (const TextSpan& piece : pieces) {
    const std::string_view own = text.substr(piece.begin, piece.end - piece.begin);
    std::size_t position = 0;
    std::uint32_t begin = piece.begin;
    while (const std::size_t n = next(own, position, lengths)) {
      for (std::size_t k = 0; k < n; begin += lengths[k++]) all.push_back({begin, begin + lengths[k]});
    }
  }
  pieces.swap(all);
}

std::int32_t CharacterBpe::id_of(std::string_view piece, std::size_t begin, std::size_t end) const {
  if (parts_.prefix.empty() && parts_.suffix.empty()) {
    const std::uint32_t c = decode_utf8(piece.data() + begin).code_point;
    return c < char_ids_.size() ? char_ids_[c] : -1;
  }
  const std::string token = fmt::format("{}{}{}", begin > 0 ? parts_.prefix : "", piece.substr(begin, end - begin),
                                        end == piece.size() ? parts_.suffix : "");
  return parts_.tokens.find(token).value_or(-1);
}

bool CharacterBpe::add_bytes(std::string_view bytes, std::vector<std::int32_t>& ids) const {
  for (const char b : bytes) {
    if (byte_ids_[static_cast<unsigned char>(b)] < 0) return false;
  }
  for (const char b : bytes) ids.push_back(byte_ids_[static_cast<unsigned char>(b)]);
  return true;
}

// As the reference does it, down to bytes that go before an unknown character which was waiting to be joined.
void CharacterBpe::first_symbols(std::string_view piece, std::vector<std::int32_t>& ids) const {
  bool waiting = false;
  for (std::size_t i = 0; i < piece.size();) {
    const std::size_t end = i + decode_utf8(piece.data() + i).size;
    const std::int32_t id = id_of(piece, i, end);
    if (id >= 0) {
      if (waiting) ids.push_back(unknown_);
      waiting = false;
      ids.push_back(id);
    } else if (parts_.byte_fallback && parts_.prefix.empty() && parts_.suffix.empty() &&
               add_bytes(piece.substr(i, end - i), ids)) {
      // nothing more
    } else if (unknown_ < 0) {
      throw Error(Code::data, fmt::format("'{}' has no token, and the tokenizer no unknown token",
                                          piece.substr(i, end - i)));
    } else {
      if (waiting && !parts_.fuse_unknown) ids.push_back(unknown_);
      waiting = true;
    }
    i = end;
  }
  if (waiting) ids.push_back(unknown_);
}

void CharacterBpe::encode(std::span<const std::string_view> pieces, WordsOfSymbols& first, WordsOfSymbols& ids) const {
  first.clear();
  for (const std::string_view piece : pieces) {
    const std::optional<std::int32_t> whole = parts_.ignore_merges ? parts_.tokens.find(piece) : std::nullopt;
    if (whole) {
      first.symbols.push_back(*whole);
    } else {
      first_symbols(piece, first.symbols);
    }
    first.end_word();
  }
  merges_.merge_all(first, ids);
}

std::string CharacterBpe::description() const {
  return fmt::format("character-bpe\n{}\n{}\n{}\n{}{}{}", parts_.unknown, parts_.prefix, parts_.suffix,
                     parts_.byte_fallback, parts_.fuse_unknown, parts_.ignore_merges);
}

}  // namespace mt::tokenizer
