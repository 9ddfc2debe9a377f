#include "tokenizer/tokenizer_file.h"

#include <set>

#include "base/error.h"
#include "base/log.h"

namespace mt::tokenizer {

JsonFile::JsonFile(const fs::path& path) : where(path.string()), text(read_file(path)) {
  try {
    root = parser.parse(text);
  } catch (const simdjson::simdjson_error& e) {
    throw Error(Code::corrupt, fmt::format("not JSON: {}", e.what()), where);
  }
}

void JsonFile::unknown(const std::string& what) const { throw Error(Code::data, what + " is not supported", where); }
void JsonFile::broken(const std::string& what) const { throw Error(Code::corrupt, what, where); }

std::string_view text_or(const dom::element& e, const char* key, std::string_view fallback) {
  std::string_view value;
  return e[key].get(value) == simdjson::SUCCESS ? value : fallback;
}

bool member(const dom::element& e, const char* key, dom::element& value) {
  return e[key].get(value) == simdjson::SUCCESS && !value.is_null();
}

Json fields_of(const dom::element& e) {
  switch (e.type()) {
    case dom::element_type::ARRAY: return Json::array();
    case dom::element_type::BOOL: return bool(e);
    case dom::element_type::STRING: return std::string(std::string_view(e));
    case dom::element_type::INT64: return std::int64_t(e);
    case dom::element_type::UINT64: return std::uint64_t(e);
    case dom::element_type::DOUBLE: return double(e);
    case dom::element_type::NULL_VALUE: return nullptr;
    case dom::element_type::OBJECT: break;
  }
  Json fields = Json::object();
  for (const auto& [key, value] : dom::object(e)) {
    const bool large = value.is_object() || value.is_array();
    fields[std::string(key)] = !large ? fields_of(value) : value.is_array() ? Json::array() : Json::object();
  }
  return fields;
}

Json part_of(const dom::element& e, const char* key) {
  dom::element value;
  if (!member(e, key, value)) return nullptr;
  return parse_json(simdjson::minify(value), key);
}

std::pair<std::string_view, std::string_view> split_merge(const std::string& where, std::string_view line) {
  const std::size_t space = line.find(' ');
  if (space == std::string_view::npos || line.find(' ', space + 1) != std::string_view::npos) {
    throw Error(Code::corrupt, fmt::format("merge '{}': wanted two tokens and one space", line), where);
  }
  return {line.substr(0, space), line.substr(space + 1)};
}

void read_vocab(const JsonFile& file, const dom::element& vocab, Spelling spelling, TokenTable& tokens) {
  dom::object object;
  if (vocab.get(object) != simdjson::SUCCESS) file.broken("vocab: wanted an object of token: id");
  for (const auto& [token, value] : object) {
    std::int64_t id = 0;
    if (value.get(id) != simdjson::SUCCESS || id < 0 || id > kMaxTokenId) {
      file.broken(fmt::format("vocab['{}']: wanted an id", token));
    }
    tokens.add(spelling(token), static_cast<Id>(id));
  }
}

std::vector<AddedToken> read_added_tokens(const JsonFile& file, Spelling spelling, TokenTable& tokens,
                                          std::vector<Id>* only) {
  std::vector<AddedToken> all;
  dom::element list;
  if (file.root["added_tokens"].get(list) != simdjson::SUCCESS) return all;
  dom::array added;
  if (list.get(added) != simdjson::SUCCESS) {
    file.broken(fmt::format("added_tokens: wanted an array, found {}", type_words(fields_of(list))));
  }
  std::set<std::string> seen;
  std::size_t place = 0;
  for (const dom::element& e : added) {
    AddedToken token;
    const Json json = fields_of(e);
    const JsonFields fields(json, fmt::format("added_tokens[{}]", place++));
    token.content = fields.text("content");
    const std::optional<std::uint64_t> id = fields.count("id");
    if (!id || *id > kMaxTokenId) fields.broken("id", "wanted an id up to 2^24");
    token.id = static_cast<Id>(*id);
    token.special = fields.flag("special");
    token.normalized = fields.flag("normalized");
    token.lstrip = fields.flag("lstrip");
    token.rstrip = fields.flag("rstrip");
    token.single_word = fields.flag("single_word");
    if (token.content.empty() || !seen.insert(token.content).second) continue;
    const std::optional<Id> known = tokens.find(spelling(token.content));
    if (known && *known != token.id) {
      log::warn("{}: added token '{}' has id {}, the vocabulary says {}; the vocabulary's is used", file.where,
                token.content, token.id, *known);
    }
    if (known) {
      token.id = *known;
    } else {
      tokens.add(token.content, token.id);
      if (only != nullptr) only->push_back(token.id);
    }
    all.push_back(std::move(token));
  }
  tokens.seal();
  return all;
}

std::optional<Id> find_eod(const TokenTable& tokens, const TokenizerSpec& spec, const fs::path& config) {
  if (spec.eod_token) {
    const std::optional<Id> id = tokens.find(*spec.eod_token);
    if (!id) {
      throw Error(Code::data, fmt::format("the tokenizer has no token '{}'", *spec.eod_token), "--eod-token");
    }
    return id;
  }
  if (!config.empty() && fs::exists(config)) {
    const Json j = read_json(config);  // holds integers beyond 64 bits, which simdjson refuses
    Json eos = j.is_object() && j.contains("eos_token") ? j.at("eos_token") : Json();
    if (eos.is_object() && eos.contains("content")) eos = eos.at("content");
    if (eos.is_string()) {
      if (const std::optional<Id> id = tokens.find(eos.get<std::string>())) return id;
    }
  }
  std::optional<Id> only;
  for (const char* name : {"<|endoftext|>", "<|end_of_text|>", "</s>"}) {
    const std::optional<Id> id = tokens.find(name);
    if (id && only) return std::nullopt;
    if (id) only = id;
  }
  return only;
}

}  // namespace mt::tokenizer
