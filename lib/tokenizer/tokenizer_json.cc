#include "tokenizer/tokenizer_json.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "tokenizer/byte_level_bpe.h"
#include "tokenizer/pipeline_tokenizer.h"
#include "tokenizer/post_processor.h"
#include "tokenizer/tokenizer_file.h"
#include "tokenizer/tokenizer_models.h"

namespace mt::tokenizer {

namespace {

// Whether the normalizer is nothing more than NFC; sets parts.nfc where it is that.
bool fits_byte_level(const Json& normalizer, ByteLevelBpeParts& parts) {
  if (normalizer.is_null()) return true;
  const std::string type = normalizer.value("type", "");
  if (type == "NFC") return parts.nfc = true;
  if (type != "Sequence") return false;
  return std::all_of(normalizer.at("normalizers").begin(), normalizer.at("normalizers").end(),
                     [&parts](const Json& one) { return fits_byte_level(one, parts); });
}

// What the pre-tokenizers of a byte-level BPE come to: patterns in order, and whether bytes are mapped at all.
struct BytePatterns {
  std::vector<std::string> patterns;
  bool byte_level = false, add_prefix_space = false, falcon = false;
};

// Falcon's four: runs of punctuation, GPT-2's pattern over bytes, runs of digits, and these by threes.
bool is_falcon(const Json& steps) {
  if (steps.size() != 4) return false;
  const char* const types[] = {"Punctuation", "ByteLevel", "Digits", "Split"};
  for (std::size_t i = 0; i < 4; ++i) {
    if (steps[i].value("type", "") != types[i]) return false;
  }
  return steps[0].value("behavior", "") == "Contiguous" && !steps[1].value("add_prefix_space", true) &&
         steps[1].value("use_regex", true) && !steps[2].value("individual_digits", false) &&
         steps[3].value("pattern", Json()) == Json{{"Regex", "[0-9][0-9][0-9]"}} &&
         steps[3].value("behavior", "") == "Isolated" && !steps[3].value("invert", false);
}

bool add_split(const Json& e, BytePatterns& pre) {
  if (pre.byte_level || e.value("behavior", "") != "Isolated" || e.value("invert", false)) return false;
  const Json pattern = e.value("pattern", Json());
  const std::string literal = pattern.is_object() ? pattern.value("String", "") : "";
  const std::string regex = pattern.is_object() ? pattern.value("Regex", "") : "";
  if (literal.empty() && regex.empty()) return false;
  pre.patterns.push_back(literal.empty() ? regex : fmt::format("\\Q{}\\E", literal));
  return true;
}

// Whether the pre-tokenizers only cut, and map bytes last.
bool read_byte_patterns(const Json& e, BytePatterns& pre) {
  const std::string type = e.is_object() ? e.value("type", "") : "";
  if (type == "Split") return add_split(e, pre);
  if (type == "Sequence") {
    if (pre.patterns.empty() && !pre.byte_level && is_falcon(e.at("pretokenizers"))) {
      return pre.falcon = pre.byte_level = true;
    }
    return std::all_of(e.at("pretokenizers").begin(), e.at("pretokenizers").end(),
                       [&pre](const Json& one) { return read_byte_patterns(one, pre); });
  }
  if (pre.byte_level) return false;
  if (type == "Digits" && e.value("individual_digits", false)) {
    pre.patterns.emplace_back("\\p{N}");
    return true;
  }
  if (type != "ByteLevel") return false;
  pre.byte_level = true;
  pre.add_prefix_space = e.value("add_prefix_space", true);
  if (e.value("use_regex", true)) pre.patterns.emplace_back(kGpt2Pattern);
  return !pre.add_prefix_space || pre.patterns.size() <= (e.value("use_regex", true) ? 1u : 0u);
}

// merges name tokens by their file spelling; true bytes are what TokenTable holds.
void add_merge(const std::string& where, const ByteLevelBpeParts& parts, std::string_view left, std::string_view right,
               std::vector<Merge>& merges) {
  const std::string a = bytes_of_token(left), b = bytes_of_token(right);
  const std::optional<Id> l = parts.tokens.find(a), r = parts.tokens.find(b), made = parts.tokens.find(a + b);
  if (!l || !r || !made) {
    const std::string missing = !l   ? std::string(left)
                                : !r ? std::string(right)
                                     : std::string(left) + std::string(right);
    throw Error(Code::corrupt, fmt::format("merge {} '{} {}': no token '{}'", merges.size(), left, right, missing),
                where);
  }
  merges.push_back({*l, *r, *made});
}

// The fast kind, where the file asks for no more than it does.
std::optional<ByteLevelBpeParts> read_byte_level(const JsonFile& file, const dom::element& model,
                                                 const Json& normalizer, const Json& pre_tokenizer) {
  ByteLevelBpeParts parts;
  BytePatterns pre;
  if (model_type(model) != "BPE") return std::nullopt;
  const Json json = fields_of(model);
  const JsonFields fields(json, "model");
  const bool byte_fallback = fields.flag_or_null("byte_fallback", false);
  fields.flag_or_null("fuse_unk", false);
  const std::string unknown = fields.text_or_null("unk_token", "");
  const std::string around =
      fields.text_or_null("continuing_subword_prefix", "") + fields.text_or_null("end_of_word_suffix", "");
  if (byte_fallback || !around.empty()) return std::nullopt;
  if (!fits_byte_level(normalizer, parts) || !read_byte_patterns(pre_tokenizer, pre) || !pre.byte_level) {
    return std::nullopt;
  }
  refuse_dropout(file, model);
  std::vector<SplitPattern> patterns;
  for (const std::string& regex : pre.patterns) patterns.push_back(SplitPattern::from_regex(regex));
  if (pre.falcon) parts.pattern = SplitPattern::falcon();
  if (!patterns.empty()) parts.pattern = SplitPattern::sequence(std::move(patterns));
  parts.add_prefix_space = pre.add_prefix_space;
  parts.ignore_merges = fields.flag_or_null("ignore_merges", false);
  dom::element vocab;
  if (!member(model, "vocab", vocab)) file.broken("model.vocab: wanted an object");
  read_vocab(file, vocab, bytes_of_token, parts.tokens);
  parts.tokens.seal();
  for_each_merge(file, model, [&](std::string_view left, std::string_view right) {
    add_merge(file.where, parts, left, right, parts.merges);
  });
  if (!unknown.empty()) parts.unknown = parts.tokens.find(bytes_of_token(unknown));
  parts.added = read_added_tokens(file, bytes_of_token, parts.tokens, &parts.added_only);
  return parts;
}

// "Replace ' ' by X", with or without "Prepend X" before it, as LLaMA's and Gemma's files have it.   gives  X, or empty
std::string space_character(const Json& normalizer, bool& prepends) {
  std::vector<Json> steps;
  if (normalizer.is_object() && normalizer.value("type", "") == "Sequence") {
    for (const Json& one : normalizer.at("normalizers")) steps.push_back(one);
  } else {
    steps.push_back(normalizer);
  }
  const Json& last = steps.empty() ? normalizer : steps.back();
  if (steps.empty() || steps.size() > 2 || !last.is_object() || last.value("type", "") != "Replace") return "";
  if (last.value("pattern", Json()) != Json{{"String", " "}}) return "";
  const std::string character = last.value("content", "");
  prepends = steps.size() == 2;
  const bool same = !prepends || (steps[0].is_object() && steps[0].value("type", "") == "Prepend" &&
                                  steps[0].value("prepend", "") == character);
  return same ? character : "";
}

// Whether the pre-tokenizer finds nothing to do in text without spaces.
bool cuts_at_spaces_only(const Json& pre_tokenizer) {
  if (pre_tokenizer.is_null()) return true;
  return pre_tokenizer.is_object() && pre_tokenizer.value("type", "") == "Split" &&
         pre_tokenizer.value("pattern", Json()) == Json{{"String", " "}} && !pre_tokenizer.value("invert", false);
}

// Where spaces only become another character, leave them as they are and let the model see them so.
void keep_spaces(const Json& normalizer, const Json& pre_tokenizer, PipelineParts& parts) {
  const auto* bpe = std::get_if<CharacterBpe>(&parts.model);
  bool prepends = false;
  const std::string character = space_character(normalizer, prepends);
  if (bpe == nullptr || character.empty() || !cuts_at_spaces_only(pre_tokenizer)) return;
  std::optional<CharacterBpeParts> spaced = CharacterBpe::with_spaces_for(bpe->parts(), character);
  if (!spaced) return;
  Json steps = Json::array();
  if (prepends) steps.push_back({{"type", "Prepend"}, {"prepend", " "}});
  steps.push_back({{"type", "Replace"}, {"pattern", {{"String", character}}}, {"content", " "}});
  parts.normalizer = Normalizer(Json{{"type", "Sequence"}, {"normalizers", steps}});
  parts.pre_tokenizer = PreTokenizer();
  parts.space_character = character;
  parts.prepends_space = prepends;
  parts.model = CharacterBpe(std::move(*spaced));
}

template <class Parts>
void check_surround(const JsonFile& file, const Parts& parts) {
  for (const std::vector<Id>* side : {&parts.surround.before, &parts.surround.after}) {
    for (const Id id : *side) {
      if (!parts.tokens.has(id)) file.broken(fmt::format("post_processor: id {} is no token", id));
    }
  }
}

template <class Parts>
Parts with_settings(Parts parts, const TokenizerSpec& spec, const fs::path& config) {
  parts.parse_special = spec.parse_special;
  if (!spec.include_special) parts.surround = {};
  parts.eod = find_eod(parts.tokens, spec, config);
  return parts;
}

// Special tokens that stand in the vocabulary too are spelled by plain text; unless they are asked for, they are not
// to come of it. (Merges do not make them.)
void hide_specials(const TokenTable& tokens, const std::vector<AddedToken>& added, PieceModel& model) {
  std::vector<Id> ids;
  for (const AddedToken& token : added)
    if (token.special) ids.push_back(token.id);
  if (ids.empty()) return;
  std::sort(ids.begin(), ids.end());
  if (auto* words = std::get_if<WordPiece>(&model)) words->hide(tokens, ids);
  if (auto* words = std::get_if<WordLevel>(&model)) words->hide(tokens, ids);
  if (auto* unigram = std::get_if<Unigram>(&model)) {
    UnigramParts parts = unigram->parts();
    for (const Id id : ids)
      if (static_cast<std::size_t>(id) < parts.pieces.size()) parts.pieces[static_cast<std::size_t>(id)].text.clear();
    *unigram = Unigram(std::move(parts));
  }
}

// The version, and what is read but not done.
void check_head(const JsonFile& file) {
  constexpr std::pair<std::string_view, const char*> kNeeded[] = {  // by the library too
      {"padding", "strategy"}, {"padding", "direction"}, {"padding", "pad_id"}, {"padding", "pad_type_id"}, {"padding", "pad_token"},
      {"truncation", "max_length"}, {"truncation", "strategy"}, {"truncation", "stride"}};
  dom::element e, part;
  if (file.root["version"].get(e) == simdjson::SUCCESS) {
    std::string_view version;
    if (e.get(version) != simdjson::SUCCESS) {
      file.broken(fmt::format("version: wanted a string, found {}", type_words(fields_of(e))));
    }
    if (version != "1.0") file.unknown(fmt::format("version {}", version));
  }
  for (const char* key : {"truncation", "padding"}) {
    if (!member(file.root, key, e)) continue;
    if (!e.is_object()) file.broken(fmt::format("{}: wanted an object, found {}", key, type_words(fields_of(e))));
    for (const auto& [where, needed] : kNeeded)
      if (where == key && e[needed].get(part) != simdjson::SUCCESS) file.broken(fmt::format("{}.{}: there is none", key, needed));
    log::warn("{}: '{}' is set in the file and not applied", file.where, key);
  }
}

std::unique_ptr<Tokenizer> read_tokenizer(const JsonFile& file, const TokenizerSpec& spec, const fs::path& config) {
  dom::element model;
  if (!member(file.root, "model", model)) file.broken("no 'model': not a tokenizer.json");
  check_head(file);
  Surround surround = read_post_processor(part_of(file.root, "post_processor"));
  const Json normalizer = part_of(file.root, "normalizer"), pre_tokenizer = part_of(file.root, "pre_tokenizer");
  // Every part is read, needed or not: what is wrong in it is said.
  Normalizer normalize(normalizer);
  PreTokenizer pre_tokenize(pre_tokenizer);
  TokenDecoder decoder(part_of(file.root, "decoder"));
  if (auto parts = read_byte_level(file, model, normalizer, pre_tokenizer)) {
    parts->surround = std::move(surround);
    check_surround(file, *parts);
    return std::make_unique<ByteLevelBpe>(with_settings(std::move(*parts), spec, config));
  }
  TokenTable tokens;
  PieceModel piece_model = read_piece_model(file, model, tokens);
  std::vector<AddedToken> added =
      read_added_tokens(file, [](std::string_view s) { return std::string(s); }, tokens, nullptr);
  if (!spec.parse_special) hide_specials(tokens, added, piece_model);
  PipelineParts parts{std::move(tokens),
                      std::move(normalize),
                      std::move(pre_tokenize),
                      std::move(piece_model),
                      "",
                      false,
                      std::move(decoder),
                      std::move(added),
                      std::nullopt,
                      std::move(surround),
                      false};
  check_surround(file, parts);
  keep_spaces(normalizer, pre_tokenizer, parts);
  return std::make_unique<PipelineTokenizer>(with_settings(std::move(parts), spec, config));
}

// Lines without the white space at their ends.
std::vector<std::string_view> vocabulary_lines(std::string_view text) {
  std::vector<std::string_view> lines;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = text.substr(begin, end - begin);
    begin = end + 1;
    const std::size_t last = line.find_last_not_of(" \t\r\v\f");
    lines.push_back(line.substr(0, last == std::string_view::npos ? 0 : last + 1));
  }
  return lines;
}

}  // namespace

std::unique_ptr<Tokenizer> load_tokenizer_json(const TokenizerSpec& spec) {
  const fs::path path = fs::is_directory(spec.model) ? spec.model / "tokenizer.json" : spec.model;
  const JsonFile file(path);
  try {
    return read_tokenizer(file, spec, path.parent_path() / "tokenizer_config.json");
  } catch (const simdjson::simdjson_error& error) {
    file.broken(fmt::format("not laid out as a tokenizer.json: {}", error.what()));
  } catch (const Json::exception& error) {
    file.broken(fmt::format("not laid out as a tokenizer.json: {}", error.what()));
  } catch (const Error& error) {
    if (!error.where().empty()) throw;
    throw Error(error.code(), error.message(), file.where, error.hint());
  }
}

std::unique_ptr<Tokenizer> load_gpt2_bpe(const TokenizerSpec& spec) {
  const JsonFile file(spec.vocab_file);
  ByteLevelBpeParts parts;
  read_vocab(file, file.root, bytes_of_token, parts.tokens);
  parts.tokens.seal();
  const std::string merges = read_file(spec.merge_file), where = spec.merge_file.string();
  for (std::size_t begin = 0; begin < merges.size();) {
    const std::size_t end = std::min(merges.find('\n', begin), merges.size());
    std::string_view line(merges.data() + begin, end - begin);
    begin = end + 1;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || line.starts_with("#version")) continue;
    const auto [left, right] = split_merge(where, line);
    add_merge(where, parts, left, right, parts.merges);
  }
  parts.pattern = SplitPattern::from_regex(std::string(kGpt2Pattern));
  if (const std::optional<Id> id = parts.tokens.find("<|endoftext|>")) {
    parts.added.push_back({"<|endoftext|>", *id, true, true, false, false, false});
  }
  return std::make_unique<ByteLevelBpe>(with_settings(std::move(parts), spec, {}));
}

std::unique_ptr<Tokenizer> load_bert_vocab(const TokenizerSpec& spec, bool lower_case) {
  const std::string text = read_file(spec.vocab_file), where = spec.vocab_file.string();
  const std::vector<std::string_view> lines = vocabulary_lines(text);
  TokenTable tokens;
  for (std::size_t id = lines.size(); id-- > 0;) tokens.add(lines[id], static_cast<Id>(id));
  tokens.seal();  // from the back: of equal lines the last is found, as in Megatron's dictionary
  std::size_t again = 0;
  std::string_view example;
  for (std::size_t id = 0; id < lines.size(); ++id) {
    if (tokens.find(lines[id]) == static_cast<Id>(id)) continue;
    if (again++ == 0) example = lines[id];
  }
  if (again > 0) {
    log::warn("{}: {} lines whose token stands again further down, '{}' among them; the last one counts", where, again,
              example);
  }
  WordPiece model(tokens, {});
  std::vector<AddedToken> added;
  for (const char* name : {"[UNK]", "[SEP]", "[PAD]", "[CLS]", "[MASK]"}) {
    const std::optional<Id> id = tokens.find(name);
    if (id) added.push_back({name, *id, true, false, false, false, false});
    const std::string_view needed = name;
    if (!id && needed != "[PAD]" && needed != "[MASK]") {
      throw Error(Code::data, fmt::format("no token {} among {} lines", name, lines.size()), where, "a vocab.txt of BERT");
    }
  }
  TokenizerSpec with_end = spec;
  if (!with_end.eod_token) with_end.eod_token = "[SEP]";
  PipelineParts parts{std::move(tokens),
                      Normalizer(Json{{"type", "BertNormalizer"}, {"clean_text", true}, {"handle_chinese_chars", true}, {"lowercase", lower_case}}),
                      PreTokenizer(Json{{"type", "BertPreTokenizer"}}),
                      std::move(model),
                      "",
                      false,
                      TokenDecoder(Json{{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}}),
                      std::move(added),
                      std::nullopt,
                      {},
                      false};
  return std::make_unique<PipelineTokenizer>(with_settings(std::move(parts), with_end, {}));
}

}  // namespace mt::tokenizer
