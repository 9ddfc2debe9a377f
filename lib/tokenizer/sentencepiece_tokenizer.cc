#include "tokenizer/sentencepiece_tokenizer.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "base/files.h"
#include "base/hash.h"
#include "tokenizer/cached_pieces.h"
#include "tokenizer/unicode.h"

namespace mt::tokenizer {

namespace {

constexpr std::size_t kMaxText = std::size_t{1} << 30;
constexpr std::string_view kBlock = "\xE2\x96\x81";

bool can_merge(PieceType type) { return type == PieceType::normal || type == PieceType::user_defined; }

// Pieces of a BPE as symbols and merges: every way to make a piece of two symbols is a merge, ranked by its score.
struct ScoredMerges {
  CharacterBpeParts parts;
  std::vector<std::string> outside;
};

ScoredMerges merges_of(const SentencePieceModel& model) {
  ScoredMerges made;
  std::unordered_map<std::string_view, std::int32_t> symbols;
  std::vector<float> scores;
  auto next = static_cast<std::int32_t>(model.pieces.size());
  for (std::int32_t id = 0; id < next; ++id) {
    const SentencePieceModel::Piece& piece = model.pieces[static_cast<std::size_t>(id)];
    if (piece.type == PieceType::control) continue;
    if (piece.type == PieceType::unused) {
      throw Error(Code::data, fmt::format("unused pieces in a BPE ('{}') are not supported", piece.text));
    }
    made.parts.tokens.add(piece.text, id);
    if (!can_merge(piece.type)) continue;
    symbols.emplace(piece.text, id);
    scores.push_back(piece.score);
  }
  std::vector<std::string_view> outside;
  for (const SentencePieceModel::Piece& piece : model.pieces) {
    if (!can_merge(piece.type)) continue;
    for (std::size_t i = 0; i < piece.text.size();) {
      const std::size_t size = decode_utf8(piece.text.data() + i).size;
      const std::string_view character = std::string_view(piece.text).substr(i, size);
      if (size < piece.text.size() && symbols.emplace(character, next).second) {
        outside.push_back(character);
        made.parts.tokens.add(character, next++);
      }
      i += size;
    }
  }
  made.outside.assign(outside.begin(), outside.end());
  made.parts.tokens.seal();
  std::sort(scores.begin(), scores.end(), std::greater<>());
  scores.erase(std::unique(scores.begin(), scores.end()), scores.end());
  for (std::size_t id = 0; id < model.pieces.size(); ++id) {
    const SentencePieceModel::Piece& piece = model.pieces[id];
    const std::string_view text = piece.text;
    if (!can_merge(piece.type)) continue;
    const auto rank = std::lower_bound(scores.begin(), scores.end(), piece.score, std::greater<>()) - scores.begin();
    for (std::size_t i = decode_utf8(text.data()).size; i < text.size(); i += decode_utf8(text.data() + i).size) {
      const auto left = symbols.find(text.substr(0, i)), right = symbols.find(text.substr(i));
      if (left == symbols.end() || right == symbols.end()) continue;
      made.parts.merges.push_back({left->second, right->second, static_cast<std::int32_t>(id)});
      made.parts.order.push_back(static_cast<std::uint32_t>(rank));
    }
  }
  made.parts.unknown = model.pieces[static_cast<std::size_t>(model.first_of(PieceType::unknown))].text;
  made.parts.byte_fallback = model.byte_fallback;
  return made;
}

Unigram unigram_of(const SentencePieceModel& model) {
  UnigramParts parts;
  parts.rounding = UnigramRounding::sentencepiece;
  bool first = true;
  for (const SentencePieceModel::Piece& piece : model.pieces) {
    const bool in_text = can_merge(piece.type);
    parts.pieces.push_back({in_text ? piece.text : "", static_cast<double>(piece.score),
                            piece.type == PieceType::user_defined});
    if (piece.type != PieceType::normal) continue;
    const auto score = static_cast<double>(piece.score);
    parts.min_score = first ? score : std::min(parts.min_score, score);
    first = false;
  }
  parts.unknown = model.first_of(PieceType::unknown);
  parts.byte_fallback = model.byte_fallback;
  std::fill(std::begin(parts.byte_ids), std::end(parts.byte_ids), -1);
  for (std::size_t id = 0; id < model.pieces.size(); ++id) {
    if (model.pieces[id].type != PieceType::byte) continue;
    const int byte = byte_of_piece(model.pieces[id].text);
    if (byte >= 0) parts.byte_ids[byte] = static_cast<std::int32_t>(id);
  }
  return Unigram(std::move(parts));
}

// U+2581 in the text is the same as a space from here on.   gives  whether there was one
bool blocks_to_spaces(std::string& text) {
  const std::size_t hit = text.find(kBlock);
  if (hit == std::string::npos) return false;
  std::size_t out = hit;
  for (std::size_t i = hit; i < text.size();) {
    const bool block = text.compare(i, kBlock.size(), kBlock) == 0;
    text[out++] = block ? ' ' : text[i];
    i += block ? kBlock.size() : 1;
  }
  text.resize(out);
  return true;
}

}  // namespace

SentencePieceTokenizer::SentencePieceTokenizer(SentencePieceModel model, const std::optional<std::string>& eod_token,
                                               bool parse_special)
    : model_(std::move(model)), normalizer_(model_), parse_special_(parse_special) {
  if (model_.denormalizes) throw Error(Code::data, "a model with a denormalizer is not supported");
  unknown_ = model_.first_of(PieceType::unknown);
  if (model_.model_type == 2) {
    ScoredMerges made = merges_of(model_);
    outside_ = std::move(made.outside);
    if (model_.escape_spaces && !model_.space_is_suffix && !normalizer_.has_user_defined()) {
      if (auto spaced = CharacterBpe::with_spaces_for(made.parts, kBlock)) {
        bpe_.emplace(std::move(*spaced));
        keeps_spaces_ = true;
        SentencePieceModel plain = model_;
        plain.escape_spaces = false;
        normalizer_ = SentencePieceNormalizer(plain);
      }
    }
    if (!bpe_) bpe_.emplace(std::move(made.parts));
  } else if (model_.model_type == 1) {
    unigram_.emplace(unigram_of(model_));
  } else {
    throw Error(Code::data, fmt::format("a SentencePiece model of {} is not supported",
                                        model_.model_type == 3   ? "words"
                                        : model_.model_type == 4 ? "characters"
                                                                 : "an unknown type"));
  }
  std::fill(std::begin(byte_ids_), std::end(byte_ids_), -1);
  std::vector<AddedToken> controls;
  for (std::size_t i = 0; i < model_.pieces.size(); ++i) {
    const SentencePieceModel::Piece& piece = model_.pieces[i];
    const auto id = static_cast<Id>(i);
    const int byte = piece.type == PieceType::byte ? byte_of_piece(piece.text) : -1;
    if (byte >= 0) byte_ids_[byte] = id;
    if (piece.type == PieceType::control) controls.push_back({piece.text, id, true, false, false, false, false});
    if (eod_token && piece.text == *eod_token) eod_ = id;
  }
  controls_ = AddedTokenMatcher(std::move(controls));
  if (eod_token && !eod_) {
    throw Error(Code::data, fmt::format("the tokenizer has no token '{}'", *eod_token), "--eod-token");
  }
  if (const Id end = model_.control(model_.eos_piece); !eod_token && end >= 0) eod_ = end;
  fingerprint_ = hash_parts();
}

std::optional<Id> SentencePieceTokenizer::find(std::string_view token) const {
  for (std::size_t i = 0; i < model_.pieces.size(); ++i)
    if (model_.pieces[i].text == token) return static_cast<Id>(i);
  return std::nullopt;
}

std::string_view SentencePieceTokenizer::spelling(Id id) const {
  const auto i = static_cast<std::size_t>(id);
  return id >= 0 && i < model_.pieces.size() ? std::string_view(model_.pieces[i].text) : std::string_view();
}

std::vector<Id> SentencePieceTokenizer::special_ids() const {
  std::vector<Id> ids;
  for (std::size_t i = 0; i < model_.pieces.size(); ++i)
    if (model_.pieces[i].type == PieceType::control) ids.push_back(static_cast<Id>(i));
  return ids;
}

std::uint64_t SentencePieceTokenizer::hash_parts() const {
  Xxh3Stream hash;
  const auto text = [&hash](std::string_view s) {
    const std::uint64_t size = s.size();
    hash.update(&size, sizeof size);
    hash.update(s.data(), s.size());
  };
  text(fmt::format("sentencepiece {} {} {} {} {} {}", model_.model_type, model_.byte_fallback, model_.space_is_suffix,
                   model_.add_dummy_prefix, model_.remove_extra_spaces, model_.escape_spaces));
  text(model_.chars_map);
  for (const SentencePieceModel::Piece& piece : model_.pieces) {
    text(piece.text);
    hash.update(&piece.score, sizeof piece.score);
    hash.update(&piece.type, sizeof piece.type);
  }
  return hash.digest();
}

void SentencePieceTokenizer::encode(std::string_view text, EncodeScratch& scratch, std::vector<Id>& out) const {
  if (text.size() > kMaxText / 4) {
    throw Error(Code::data, fmt::format("a document of {} bytes: wanted up to 256 MiB", text.size()));
  }
  for_each_segment(
      controls_, text,
      [&](std::string_view segment) {
        scratch.normalized.clear();
        normalizer_.append(segment, scratch.normalized);
        if (keeps_spaces_ && blocks_to_spaces(scratch.normalized) && model_.remove_extra_spaces) {
          while (scratch.normalized.ends_with(' ')) scratch.normalized.pop_back();
        }
        if (!scratch.normalized.empty()) encode_normalized(scratch.normalized, scratch, out);
      },
      TakeAdded{parse_special_, scratch.specials_as_text, out});
}

void SentencePieceTokenizer::encode_normalized(std::string_view text, EncodeScratch& scratch,
                                               std::vector<Id>& out) const {
  if (unigram_ && unigram_->words_stand_apart()) {
    return unigram_->encode_words(text, {scratch.words, scratch.long_words, scratch.unigram}, out);
  }
  if (unigram_) return unigram_->encode(text, scratch.unigram, out);
  const std::size_t old = out.size();
  std::size_t done = 0;
  for (std::size_t i = 0; normalizer_.has_user_defined() && i < text.size();) {
    const PrefixTrie::Match own = normalizer_.user_defined(text.substr(i));
    if (own.size == 0) {
      i += decode_utf8(text.data() + i).size;
      continue;
    }
    encode_mergeable(text.substr(done, i - done), scratch, out);
    out.push_back(own.value);
    done = i += own.size;
  }
  encode_mergeable(text.substr(done), scratch, out);
  // Unknown pieces in a row are one, over the borders of cached words too.
  const auto begin = out.begin() + static_cast<std::ptrdiff_t>(old);
  if (std::find(begin, out.end(), unknown_) == out.end()) return;
  out.erase(std::unique(begin, out.end(), [this](Id a, Id b) { return a == unknown_ && b == unknown_; }), out.end());
}

void SentencePieceTokenizer::encode_mergeable(std::string_view text, EncodeScratch& scratch,
                                              std::vector<Id>& out) const {
  if (text.empty()) return;
  CachedPieces pieces(scratch, out, [&](std::span<const std::string_view> some, WordsOfSymbols& ids) {
    bpe_->encode(some, scratch.misses.first, ids);
    settle_unknown(ids);
  });
  const char* end = text.data() + text.size();
  std::uint32_t lengths[kPieceBatch];
  if (!bpe_->cuts()) {
    lengths[0] = static_cast<std::uint32_t>(text.size());
    pieces.add(TouchingPieces(text.data(), {lengths, 1}, end), 1);
    return pieces.finish();
  }
  std::size_t position = 0, done = 0;
  while (const std::size_t n = bpe_->next(text, position, lengths)) {
    pieces.add(TouchingPieces(text.data() + done, {lengths, n}, end), n);
    done = position;
  }
  pieces.finish();
}

// Characters that are no piece and merged into none become bytes, or unknown.
void SentencePieceTokenizer::settle_unknown(WordsOfSymbols& words) const {
  const Id size = vocab_size();
  if (std::none_of(words.symbols.begin(), words.symbols.end(), [size](Id id) { return id >= size; })) return;
  WordsOfSymbols settled;
  for (std::size_t k = 0; k < words.ends.size(); ++k) {
    for (const Id id : words.word(k)) {
      if (id < size) {
        settled.symbols.push_back(id);
        continue;
      }
      const std::string& character = outside_[static_cast<std::size_t>(id - size)];
      const bool has_bytes = model_.byte_fallback && std::all_of(character.begin(), character.end(), [this](char b) {
                               return byte_ids_[static_cast<unsigned char>(b)] >= 0;
                             });
      if (!has_bytes) {
        settled.symbols.push_back(unknown_);
        continue;
      }
      for (const char b : character) settled.symbols.push_back(byte_ids_[static_cast<unsigned char>(b)]);
    }
    settled.end_word();
  }
  words = std::move(settled);
}

void SentencePieceTokenizer::decode(std::span<const Id> ids, std::string& out) const {
  const std::size_t begin = out.size();
  const bool drops_space = model_.add_dummy_prefix || model_.remove_extra_spaces;
  bool at_start = true, space_dropped = false;
  for (const Id id : ids) {
    if (id < 0 || id >= vocab_size()) {
      throw Error(Code::data,
                  fmt::format("id {} is no token of this tokenizer (vocabulary size {})", id, vocab_size()), "",
                  "use the tokenizer that wrote the file");
    }
    const SentencePieceModel::Piece& piece = model_.pieces[static_cast<std::size_t>(id)];
    if (piece.type == PieceType::byte) {
      const auto byte = std::find(std::begin(byte_ids_), std::end(byte_ids_), id);
      if (byte != std::end(byte_ids_)) out.push_back(static_cast<char>(byte - std::begin(byte_ids_)));
      continue;
    }
    if (space_dropped || out.size() > begin) at_start = false;
    space_dropped = false;
    if (piece.type == PieceType::control) continue;
    std::string_view text = piece.type == PieceType::unknown ? std::string_view(model_.unknown_surface) : piece.text;
    if (piece.type != PieceType::unknown && at_start && drops_space && text.starts_with(kBlock)) {
      text.remove_prefix(kBlock.size());
      space_dropped = !model_.remove_extra_spaces;
    }
    for (std::size_t hit; (hit = text.find(kBlock)) != std::string_view::npos;) {
      out += text.substr(0, hit);
      out += ' ';
      text.remove_prefix(hit + kBlock.size());
    }
    out += text;
  }
}

std::unique_ptr<Tokenizer> load_sentencepiece(const TokenizerSpec& spec) {
  const fs::path path = fs::is_directory(spec.model) ? spec.model / "tokenizer.model" : spec.model;
  SentencePieceModel model = read_sentencepiece_model(path);
  try {
    return std::make_unique<SentencePieceTokenizer>(std::move(model), spec.eod_token, spec.parse_special);
  } catch (const Error& error) {
    if (!error.where().empty()) throw;
    throw Error(error.code(), error.message(), path.string(), error.hint());
  }
}

}  // namespace mt::tokenizer
