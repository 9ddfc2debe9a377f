#include "tokenizer/tokenizer_models.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/error.h"
#include "tokenizer/unicode.h"

namespace mt::tokenizer {

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
  const Json json = fields_of(model);
  const JsonFields fields(json, "model");
  parts.unknown = fields.text_or_null("unk_token", "");
  parts.prefix = fields.text_or_null("continuing_subword_prefix", "");
  parts.suffix = fields.text_or_null("end_of_word_suffix", "");
  parts.byte_fallback = fields.flag_or_null("byte_fallback", false);
  parts.fuse_unknown = fields.flag_or_null("fuse_unk", false);
  parts.ignore_merges = fields.flag_or_null("ignore_merges", false);
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

double power_of_ten(int exponent) {
  double power = 1;
  const std::string text = fmt::format("1e{}", exponent);
  std::from_chars(text.data(), text.data() + text.size(), power);
  return power;
}

// The number that the reference's JSON reader (serde_json) makes of these digits: they are rounded as a whole number and
// then divided by a power of ten, which is rounded again. The last bit decides between ways of equal score.
//   needs  a number that the file writes with no more digits than tell it from others, as writers of JSON do
double as_reference(double exact) {
  const std::string text = fmt::format("{}", exact);
  std::uint64_t digits = 0;
  int exponent = 0;
  bool behind_point = false;
  for (std::size_t i = exact < 0 ? 1 : 0; i < text.size(); ++i) {
    if (text[i] == '.') {
      behind_point = true;
    } else if (text[i] == 'e') {
      exponent += std::stoi(text.substr(i + 1));
      break;
    } else {
      digits = digits * 10 + static_cast<std::uint64_t>(text[i] - '0');
      exponent -= behind_point ? 1 : 0;
    }
  }
  auto value = static_cast<double>(digits);
  for (; exponent < -308; exponent += 308) value /= 1e308;
  value = exponent >= 0 ? value * power_of_ten(exponent) : value / power_of_ten(-exponent);
  return exact < 0 ? -value : value;
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
    if (std::isfinite(piece.score)) piece.score = as_reference(piece.score);
    parts.min_score = parts.pieces.empty() ? piece.score : std::min(parts.min_score, piece.score);
    parts.pieces.push_back(std::move(piece));
  }
  if (parts.pieces.empty()) file.broken("model.vocab: no piece");
  for (std::size_t id = parts.pieces.size(); id-- > 0;) tokens.add(parts.pieces[id].text, static_cast<Id>(id));
  tokens.seal();  // from the back: of equal pieces the last is found
  const Json json = fields_of(model);
  const JsonFields fields(json, "model");
  if (const std::optional<std::uint64_t> unknown = fields.count_or_null("unk_id")) {
    if (*unknown >= parts.pieces.size()) fields.broken("unk_id", fmt::format("no piece {}", *unknown));
    parts.unknown = static_cast<Id>(*unknown);
  }
  parts.byte_fallback = fields.flag("byte_fallback", false);
  for (int b = 0; b < 256; ++b) parts.byte_ids[b] = tokens.find(fmt::format("<0x{:02X}>", b)).value_or(-1);
  return Unigram(std::move(parts));
}

WordPiece read_word_piece(const JsonFile& file, const dom::element& model, TokenTable& tokens) {
  dom::element vocab;
  if (!member(model, "vocab", vocab)) file.broken("model.vocab: wanted an object");
  read_vocab(file, vocab, as_spelled, tokens);
  tokens.seal();
  WordPieceParts parts;
  const Json json = fields_of(model);
  const JsonFields fields(json, "model");
  parts.unknown = fields.text("unk_token");
  parts.prefix = fields.text("continuing_subword_prefix");
  parts.max_characters = fields.needed_count("max_input_chars_per_word");
  return WordPiece(tokens, std::move(parts));
}

WordLevel read_word_level(const JsonFile& file, const dom::element& model, TokenTable& tokens) {
  dom::element vocab;
  if (!member(model, "vocab", vocab)) file.broken("model.vocab: wanted an object");
  read_vocab(file, vocab, as_spelled, tokens);
  tokens.seal();
  const Json json = fields_of(model);
  return WordLevel(tokens, JsonFields(json, "model").text("unk_token"));
}

}  // namespace

std::string model_type(const dom::element& model) {
  const Json json = fields_of(model);
  const JsonFields fields(json, "model");
  if (json.contains("type")) return fields.text("type");
  dom::element part;
  if (member(model, "merges", part)) return "BPE";
  if (member(model, "vocab", part) && part.is_array()) return "Unigram";
  return member(model, "continuing_subword_prefix", part) ? "WordPiece" : "WordLevel";
}

void refuse_dropout(const JsonFile& file, const dom::element& model) {
  dom::element dropout;
  if (!member(model, "dropout", dropout)) return;
  double rate = 0;
  if (dropout.get(rate) != simdjson::SUCCESS) {
    file.broken(fmt::format("model.dropout: wanted a number, found {}", type_words(fields_of(dropout))));
  }
  if (rate != 0) file.unknown(fmt::format("BPE dropout {} (ids would differ from run to run)", rate));
}

PieceModel read_piece_model(const JsonFile& file, const dom::element& model, TokenTable& tokens) {
  const std::string type = model_type(model);
  if (type == "BPE") return read_bpe(file, model, tokens);
  if (type == "Unigram") return read_unigram(file, model, tokens);
  if (type == "WordPiece") return read_word_piece(file, model, tokens);
  if (type == "WordLevel") return read_word_level(file, model, tokens);
  file.unknown(fmt::format("model {}", type));
}

}  // namespace mt::tokenizer
