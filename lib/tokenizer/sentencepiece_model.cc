#include "tokenizer/sentencepiece_model.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <unordered_set>
#include <utility>

#include "base/error.h"
#include "base/files.h"
#include "tokenizer/protobuf_reader.h"
#include "tokenizer/unicode.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace mt::tokenizer {

namespace {

constexpr std::string_view kBlock = "\xE2\x96\x81";

SentencePieceModel::Piece read_piece(std::string_view message) {
  SentencePieceModel::Piece piece;
  for (ProtobufReader field(message); field.next();) {
    if (field.number() == 1) piece.text = field.bytes();
    if (field.number() == 2) piece.score = field.single();
    if (field.number() == 3) {
      const std::uint64_t type = field.varint();
      if (type < 1 || type > 6) throw Error(Code::corrupt, fmt::format("piece '{}' of type {}", piece.text, type));
      piece.type = static_cast<PieceType>(type);
    }
  }
  return piece;
}

void read_trainer(std::string_view message, SentencePieceModel& model) {
  for (ProtobufReader field(message); field.next();) {
    switch (field.number()) {
      case 3: model.model_type = static_cast<int>(field.varint() & 0xFF); break;
      case 24: model.space_is_suffix = field.varint() != 0; break;
      case 35: model.byte_fallback = field.varint() != 0; break;
      case 44: model.unknown_surface = field.bytes(); break;
      case 46: model.bos_piece = field.bytes(); break;
      case 47: model.eos_piece = field.bytes(); break;
      default: break;
    }
  }
}

void read_normalizer(std::string_view message, SentencePieceModel& model) {
  for (ProtobufReader field(message); field.next();) {
    switch (field.number()) {
      case 2: model.chars_map = field.bytes(); break;
      case 3: model.add_dummy_prefix = field.varint() != 0; break;
      case 4: model.remove_extra_spaces = field.varint() != 0; break;
      case 5: model.escape_spaces = field.varint() != 0; break;
      default: break;
    }
  }
}

void read_denormalizer(std::string_view message, SentencePieceModel& model) {
  for (ProtobufReader field(message); field.next();) {
    if (field.number() == 2 && !field.bytes().empty()) model.denormalizes = true;
  }
}

// Byte pieces are there all 256, or none; a lone one would spell a byte that its neighbours cannot.
void check_bytes(const SentencePieceModel& model) {
  int found = 0;
  for (const SentencePieceModel::Piece& piece : model.pieces) {
    if (piece.type != PieceType::byte) continue;
    if (byte_of_piece(piece.text) < 0) {
      throw Error(Code::corrupt, fmt::format("byte piece '{}': wanted <0x00> to <0xFF>", piece.text));
    }
    if (!model.byte_fallback) {
      throw Error(Code::corrupt, fmt::format("byte piece '{}' in a model without byte_fallback", piece.text));
    }
    ++found;
  }
  if (model.byte_fallback && found != 256) {
    throw Error(Code::corrupt, fmt::format("byte_fallback with {} byte pieces: wanted 256", found));
  }
}

void check(const SentencePieceModel& model) {
  if (model.pieces.empty()) throw Error(Code::corrupt, "no pieces: not a SentencePiece model");
  std::unordered_set<std::string_view> seen;
  for (const SentencePieceModel::Piece& piece : model.pieces) {
    if (piece.text.empty() || !std::isfinite(piece.score) || !seen.insert(piece.text).second ||
        find_invalid_utf8(piece.text) != std::string_view::npos) {
      throw Error(Code::corrupt,
                  fmt::format("piece '{}' is empty, there twice, no valid UTF-8, or has no score", piece.text));
    }
  }
  const auto unknown = std::count_if(model.pieces.begin(), model.pieces.end(), [](const SentencePieceModel::Piece& p) {
    return p.type == PieceType::unknown;
  });
  if (unknown != 1) throw Error(Code::corrupt, fmt::format("wanted one unknown piece, found {}", unknown));
  check_bytes(model);
}

}  // namespace

std::int32_t SentencePieceModel::first_of(PieceType type) const {
  for (std::size_t id = 0; id < pieces.size(); ++id) {
    if (pieces[id].type == type) return static_cast<std::int32_t>(id);
  }
  return -1;
}

std::int32_t SentencePieceModel::control(std::string_view name) const {
  for (std::size_t id = 0; id < pieces.size(); ++id) {
    if (pieces[id].type == PieceType::control && pieces[id].text == name) return static_cast<std::int32_t>(id);
  }
  return -1;
}

int byte_of_piece(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  if (text.size() != 6 || !text.starts_with("<0x") || text.back() != '>') return -1;
  const std::size_t high = kDigits.find(text[3]), low = kDigits.find(text[4]);
  return high == kDigits.npos || low == kDigits.npos ? -1 : static_cast<int>(high * 16 + low);
}

SentencePieceModel read_sentencepiece_model(const std::filesystem::path& path) {
  const std::string file = read_file(path);
  SentencePieceModel model;
  try {
    for (ProtobufReader field(file); field.next();) {
      switch (field.number()) {
        case 1: model.pieces.push_back(read_piece(field.bytes())); break;
        case 2: read_trainer(field.bytes(), model); break;
        case 3: read_normalizer(field.bytes(), model); break;
        case 5: read_denormalizer(field.bytes(), model); break;
        default: break;
      }
    }
    check(model);
  } catch (const Error& error) {
    throw Error(error.code(), error.message(), path.string(), error.hint());
  }
  return model;
}

namespace {
constexpr std::size_t kCopied = 16;  // bytes that are copied at a time
}  // namespace

SentencePieceNormalizer::SentencePieceNormalizer(const SentencePieceModel& model)
    : map_(model.chars_map),
      dummy_prefix_(model.add_dummy_prefix),
      suffix_(model.space_is_suffix),
      remove_extra_(model.remove_extra_spaces),
      escape_(model.escape_spaces) {
  std::vector<PrefixTrie::Key> keys;
  for (std::size_t id = 0; id < model.pieces.size(); ++id) {
    if (model.pieces[id].type != PieceType::user_defined) continue;
    keys.emplace_back(model.pieces[id].text, static_cast<std::int32_t>(id));
  }
  has_user_defined_ = !keys.empty();
  for (int b = 0; b < 256; ++b) plain_[b] = b < 0x80 && b != ' ' && !map_.starts_with(static_cast<char>(b));
  for (int b = 0; b < 0x80; ++b) {
    before_ascii_[b] = b != ' ' && (map_.empty() || !map_.maps_alone(static_cast<char>(b)));
    for (int next = 0; next < 0x80 && before_ascii_[b]; ++next) {
      const char two[2] = {static_cast<char>(b), static_cast<char>(next)};
      before_ascii_[b] = !map_.starts_with({two, 2});
    }
  }
  for (const PrefixTrie::Key& key : keys) before_ascii_[static_cast<unsigned char>(key.first.front())] = false;
  const bool own_space =
      std::any_of(keys.begin(), keys.end(), [](const PrefixTrie::Key& key) { return key.first.front() == ' '; });
  for (int b = 0; b < 256; ++b) {
    const char two[2] = {' ', static_cast<char>(b)};
    alone_[b] = !own_space && (map_.empty() || !(map_.maps_alone(' ') || map_.starts_with({two, 2})));
  }
  for (const PrefixTrie::Key& key : keys) plain_[static_cast<unsigned char>(key.first.front())] = false;
  ascii_is_plain_ = std::all_of(before_ascii_ + 0x21, before_ascii_ + 0x7F, [](bool plain) { return plain; });
  user_defined_ = PrefixTrie(std::move(keys));
}

SentencePieceNormalizer::Mapped SentencePieceNormalizer::next(std::string_view text) const {
  if (has_user_defined_) {
    const PrefixTrie::Match own = user_defined_.longest(text);
    if (own.size > 0) return {text.substr(0, own.size), own.size};
  }
  const CharsMap::Match match = map_.longest(text);
  const bool whole = match.size == text.size() || (static_cast<unsigned char>(text[match.size]) & 0xC0) != 0x80;
  if (match.size > 0 && whole) return {match.replacement, match.size};
  const std::size_t size = decode_utf8(text.data()).size;
  return {text.substr(0, size), size};
}

// Copy bytes that stay as they are; a block behind them is overwritten.   gives  how many
std::size_t SentencePieceNormalizer::copy_plain(const char* from, std::size_t size, char* to) const {
  std::size_t done = 0;
#if defined(__SSE2__)
  for (; ascii_is_plain_ && size - done > kCopied; done += kCopied) {
    const auto load = [&](std::size_t k) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + done + k)); };
    const __m128i v = load(0);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + done), v);
    const __m128i prints = _mm_and_si128(_mm_cmpgt_epi8(v, _mm_set1_epi8(0x20)), _mm_cmplt_epi8(v, _mm_set1_epi8(0x7F)));
    const auto others = (~static_cast<std::uint32_t>(_mm_movemask_epi8(prints)) & 0xFFFF) |
                        static_cast<std::uint32_t>(_mm_movemask_epi8(load(1)));
    if (others != 0) return done + static_cast<std::size_t>(std::countr_zero(others));
  }
#endif
  const auto is_plain = [&](std::size_t i) {
    const auto byte = static_cast<unsigned char>(from[i]);
    return plain_[byte] || (before_ascii_[byte] && (i + 1 == size || static_cast<unsigned char>(from[i + 1]) < 0x80));
  };
  for (; done < size && is_plain(done); ++done) to[done] = from[done];
  return done;
}

void SentencePieceNormalizer::append(std::string_view text, std::string& out) const {
  if (map_.empty() && !has_user_defined_ && !remove_extra_ && !escape_) {  // nothing but the space in front or behind
    if (text.empty()) return;
    if (dummy_prefix_ && !suffix_) out += ' ';
    out += text;
    if (dummy_prefix_ && suffix_) out += ' ';
    return;
  }
  while (remove_extra_ && !text.empty()) {
    const Mapped first = next(text);
    if (first.text != " ") break;
    text.remove_prefix(first.size);
  }
  if (text.empty()) return;
  const std::string_view space = escape_ ? kBlock : " ";
  const std::size_t begin = out.size();
  // Room for every byte to become a space and for blocks that are written whole; replacements ask for more.
  out.resize(begin + 3 * text.size() + 2 * kCopied);
  char* to = out.data() + begin;
  const auto put = [&to](std::string_view bytes) { to = std::copy(bytes.begin(), bytes.end(), to); };
  if (dummy_prefix_ && !suffix_) put(space);
  bool after_space = remove_extra_;
  while (!text.empty()) {
    const std::size_t run = copy_plain(text.data(), text.size(), to);
    if (run > 0) {
      to += run;
      text.remove_prefix(run);
      after_space = false;
      continue;
    }
    if (text.size() >= 2 && text.front() == ' ' && alone_[static_cast<unsigned char>(text[1])]) {
      if (!after_space) put(space);
      after_space = remove_extra_;
      text.remove_prefix(1);
      continue;
    }
    const Mapped mapped = next(text);
    std::string_view part = mapped.text;
    while (after_space && part.starts_with(' ')) part.remove_prefix(1);
    const auto written = static_cast<std::size_t>(to - out.data());
    if (out.size() - written < 3 * (part.size() + text.size()) + 2 * kCopied) {
      out.resize(written + 3 * (part.size() + text.size()) + 2 * kCopied);
      to = out.data() + written;
    }
    for (const char c : part) {
      if (c == ' ') put(space);
      else *to++ = c;
    }
    if (!part.empty()) after_space = part.ends_with(' ');
    text.remove_prefix(mapped.size);
    if (!remove_extra_) after_space = false;
  }
  out.resize(static_cast<std::size_t>(to - out.data()));
  while (remove_extra_ && out.size() - begin >= space.size() && std::string_view(out).substr(begin).ends_with(space)) {
    out.resize(out.size() - space.size());
  }
  if (dummy_prefix_ && suffix_) out += space;
}

}  // namespace mt::tokenizer
