#include "data/tokenizer_models.h"

#include <algorithm>

#include "base/error.h"
#include "data/unicode.h"

namespace mt::data {

namespace {

std::string as_spelled(std::string_view token) { return std::string(token); }

CharacterBpe read_bpe(const JsonFile& file, const dom::element& model, TokenTable& tokens) {
  refuse_dropout(file, model);
  dom::element vocab;
  if (!member(model, "vocab", vocab)) file.broken("model.vocab: wanted an object");
  read_vocab(file, vocab, as_spelled, tokens);
  tokens.seal();
  CharacterBpeParts parts;
  parts.tokens = tokens;
  parts.unknown = text_or(model, "unk_token", "");
  parts.prefix = text_or(model, "continuing_subword_prefix", "");
  parts.suffix = text_or(model, "end_of_word_suffix", "");
  parts.byte_fallback = flag_or(model, "byte_fallback", false);
  parts.fuse_unknown = flag_or(model, "fuse_unk", false);
  parts.ignore_merges = flag_or(model, "ignore_merges", false);
  for_each_merge(file, model, [&](std::string_view left, std::string_view right) {
    std::string made(left);
    made += right.size() >= parts.prefix.size() ? right.substr(parts.prefix.size()) : std::string_view();
    const std::optional<Id> l = tokens.find(left), r = tokens.find(right), m = tokens.find(made);
    if (!l || !r || !m) {
      file.broken(fmt::format("merge {} '{} {}': no token '{}'", parts.merges.size(), left, right,
                              !l   ? left
                              : !r ? right
                                   : std::string_view(made)));
    }
    parts.merges.push_back({*l, *r, *m});
  });
  return CharacterBpe(std::move(parts));
}

Unigram read_unigram(const JsonFile& file, const dom::element& model, TokenTable& tokens) {
  dom::array vocab;
  if (model["vocab"].get(vocab) != simdjson::SUCCESS) file.broken("model.vocab: wanted an array of [piece, score]");
  UnigramParts parts;
  for (const dom::element& e : vocab) {
    UnigramParts::Piece piece;
    dom::array pair;
    std::string_view text;
    if (e.get(pair) != simdjson::SUCCESS || pair.size() != 2 || pair.at(0).get(text) != simdjson::SUCCESS ||
        pair.at(1).get(piece.score) != simdjson::SUCCESS) {
      file.broken(fmt::format("model.vocab[{}]: wanted [piece, score]", parts.pieces.size()));
    }
    piece.text = text;
    parts.min_score = parts.pieces.empty() ? piece.score : std::min(parts.min_score, piece.score);
    parts.pieces.push_back(std::move(piece));
  }
  if (parts.pieces.empty()) file.broken("model.vocab: no piece");
  for (std::size_t id = parts.pieces.size(); id-- > 0;) tokens.add(parts.pieces[id].text, static_cast<Id>(id));
  tokens.seal();  // from the back: of equal pieces the last is found
  std::int64_t unknown = -1;
  if (model["unk_id"].get(unknown) == simdjson::SUCCESS) {
    if (unknown < 0 || unknown >= tokens.size()) file.broken(fmt::format("model.unk_id {}: no such piece", unknown));
    parts.unknown = static_cast<Id>(unknown);
  }
  parts.byte_fallback = flag_or(model, "byte_fallback", false);
  for (int b = 0; b < 256; ++b) parts.byte_ids[b] = tokens.find(fmt::format("<0x{:02X}>", b)).value_or(-1);
  return Unigram(std::move(parts));
}

WordPiece read_word_piece(const JsonFile& file, const dom::element& model, TokenTable& tokens) {
  dom::element vocab;
  if (!member(model, "vocab", vocab)) file.broken("model.vocab: wanted an object");
  read_vocab(file, vocab, as_spelled, tokens);
  tokens.seal();
  WordPieceParts parts;
  parts.unknown = text_or(model, "unk_token", parts.unknown);
  parts.prefix = text_or(model, "continuing_subword_prefix", parts.prefix);
  std::int64_t most = 100;
  if (model["max_input_chars_per_word"].get(most) == simdjson::SUCCESS && most < 0) {
    file.broken(fmt::format("model.max_input_chars_per_word {}", most));
  }
  parts.max_characters = static_cast<std::size_t>(most);
  return WordPiece(tokens, std::move(parts));
}

WordLevel read_word_level(const JsonFile& file, const dom::element& model, TokenTable& tokens) {
  dom::element vocab;
  if (!member(model, "vocab", vocab)) file.broken("model.vocab: wanted an object");
  read_vocab(file, vocab, as_spelled, tokens);
  tokens.seal();
  return WordLevel(tokens, std::string(text_or(model, "unk_token", "<unk>")));
}

}  // namespace

std::string model_type(const dom::element& model) {
  const std::string_view type = text_or(model, "type", "");
  if (!type.empty()) return std::string(type);
  dom::element part;
  if (member(model, "merges", part)) return "BPE";
  if (member(model, "vocab", part) && part.is_array()) return "Unigram";
  return member(model, "continuing_subword_prefix", part) ? "WordPiece" : "WordLevel";
}

void refuse_dropout(const JsonFile& file, const dom::element& model) {
  double dropout = 0;
  if (model["dropout"].get(dropout) == simdjson::SUCCESS && dropout != 0) {
    file.unknown(fmt::format("BPE dropout {} (ids would differ from run to run)", dropout));
  }
}

PieceModel read_piece_model(const JsonFile& file, const dom::element& model, TokenTable& tokens) {
  const std::string type = model_type(model);
  if (type == "BPE") return read_bpe(file, model, tokens);
  if (type == "Unigram") return read_unigram(file, model, tokens);
  if (type == "WordPiece") return read_word_piece(file, model, tokens);
  if (type == "WordLevel") return read_word_level(file, model, tokens);
  file.unknown(fmt::format("model {}", type));
}

}  // namespace mt::data
