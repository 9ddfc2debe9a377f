#include "data/tokenizer_json.h"

#include <algorithm>
#include <set>
#include <utility>

#include <simdjson.h>

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "base/log.h"
#include "data/byte_level_bpe.h"

namespace mt::data {

namespace {

namespace dom = simdjson::dom;

// A JSON file and the name errors carry.
struct JsonFile {
  std::string where;
  simdjson::padded_string text;
  dom::parser parser;
  dom::element root;

  explicit JsonFile(const fs::path& path) : where(path.string()), text(read_file(path)) {
    try {
      root = parser.parse(text);
    } catch (const simdjson::simdjson_error& e) {
      throw Error(Code::corrupt, fmt::format("not JSON: {}", e.what()), where);
    }
  }
  [[noreturn]] void unknown(const std::string& what) const {
    throw Error(Code::data, what + " is not supported", where, "byte-level BPE files are");
  }
  [[noreturn]] void broken(const std::string& what) const { throw Error(Code::corrupt, what, where); }
};

std::string_view text_or(const dom::element& e, const char* key, std::string_view fallback) {
  std::string_view value;
  return e[key].get(value) == simdjson::SUCCESS ? value : fallback;
}

bool flag_or(const dom::element& e, const char* key, bool fallback) {
  bool value = false;
  return e[key].get(value) == simdjson::SUCCESS ? value : fallback;
}

// The member, or a null-like absence: false for missing and for null.
bool member(const dom::element& e, const char* key, dom::element& value) {
  return e[key].get(value) == simdjson::SUCCESS && !value.is_null();
}

void read_normalizer(const JsonFile& file, const dom::element& normalizer, ByteLevelBpeParts& parts) {
  const std::string_view type = text_or(normalizer, "type", "");
  if (type == "NFC") {
    parts.nfc = true;
  } else if (type == "Sequence") {
    for (const dom::element& one : normalizer["normalizers"].get_array()) read_normalizer(file, one, parts);
  } else {
    file.unknown(fmt::format("normalizer {}", type));
  }
}

// What the pre-tokenizers come to: patterns in order, and whether bytes are mapped at all.
struct PreTokenizer {
  std::vector<SplitPattern> patterns;
  bool byte_level = false, add_prefix_space = false;
};

void read_pre_tokenizer(const JsonFile& file, const dom::element& e, PreTokenizer& pre) {
  const std::string_view type = text_or(e, "type", "");
  if (type == "Sequence") {
    for (const dom::element& one : e["pretokenizers"].get_array()) read_pre_tokenizer(file, one, pre);
  } else if (type == "ByteLevel") {
    pre.byte_level = true;
    if (flag_or(e, "add_prefix_space", true)) {
      if (!pre.patterns.empty()) file.unknown("ByteLevel with add_prefix_space after a Split");
      pre.add_prefix_space = true;
    }
    if (flag_or(e, "use_regex", true)) pre.patterns.push_back(SplitPattern::from_regex(std::string(kGpt2Pattern)));
  } else if (type == "Split") {
    const std::string_view behavior = text_or(e, "behavior", "");
    if (behavior != "Isolated" || flag_or(e, "invert", false)) file.unknown(fmt::format("Split behavior {}", behavior));
    if (pre.byte_level) file.unknown("a Split after ByteLevel");
    dom::element pattern;
    if (!member(e, "pattern", pattern)) file.broken("a Split without a pattern");
    const std::string_view literal = text_or(pattern, "String", "");
    const std::string regex =
        literal.empty() ? std::string(text_or(pattern, "Regex", "")) : fmt::format("\\Q{}\\E", literal);
    if (regex.empty()) file.broken("a Split with an empty pattern");
    pre.patterns.push_back(SplitPattern::from_regex(regex));
  } else {
    file.unknown(fmt::format("pre-tokenizer {}", type));
  }
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

std::pair<std::string_view, std::string_view> split_merge(const std::string& where, std::string_view line) {
  const std::size_t space = line.find(' ');
  if (space == std::string_view::npos || line.find(' ', space + 1) != std::string_view::npos) {
    throw Error(Code::corrupt, fmt::format("merge '{}': wanted two tokens and one space", line), where);
  }
  return {line.substr(0, space), line.substr(space + 1)};
}

void read_model(const JsonFile& file, const dom::element& model, ByteLevelBpeParts& parts) {
  const std::string_view type = text_or(model, "type", "BPE");
  if (type != "BPE") file.unknown(fmt::format("model {}", type));
  if (flag_or(model, "byte_fallback", false)) file.unknown("BPE with byte_fallback");
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    if (!text_or(model, key, "").empty()) file.unknown(fmt::format("{} '{}'", key, text_or(model, key, "")));
  }
  double dropout = 0;
  if (model["dropout"].get(dropout) == simdjson::SUCCESS && dropout != 0) {
    file.unknown(fmt::format("BPE dropout {} (ids would differ from run to run)", dropout));
  }
  parts.ignore_merges = flag_or(model, "ignore_merges", false);
  dom::object vocab;
  if (model["vocab"].get(vocab) != simdjson::SUCCESS) file.broken("model.vocab: wanted an object");
  for (const auto& [token, value] : vocab) {
    std::int64_t id = 0;
    if (value.get(id) != simdjson::SUCCESS || id < 0 || id > (1 << 30)) {
      file.broken(fmt::format("model.vocab['{}']: wanted an id", token));
    }
    parts.tokens.add(bytes_of_token(token), static_cast<Id>(id));
  }
}

void read_merges(const JsonFile& file, const dom::element& model, ByteLevelBpeParts& parts) {
  dom::array merges;
  if (model["merges"].get(merges) != simdjson::SUCCESS) file.broken("model.merges: wanted an array");
  for (const dom::element& merge : merges) {
    std::string_view line;
    dom::array pair;
    if (merge.get(line) == simdjson::SUCCESS) {
      if (line.starts_with("#version")) continue;
      const auto [left, right] = split_merge(file.where, line);
      add_merge(file.where, parts, left, right, parts.merges);
    } else if (merge.get(pair) == simdjson::SUCCESS && pair.size() == 2) {
      std::string_view left, right;
      if (pair.at(0).get(left) != simdjson::SUCCESS || pair.at(1).get(right) != simdjson::SUCCESS) {
        file.broken(fmt::format("merge {}: wanted two strings", parts.merges.size()));
      }
      add_merge(file.where, parts, left, right, parts.merges);
    } else {
      file.broken(fmt::format("merge {}: wanted 'a b' or [a, b]", parts.merges.size()));
    }
  }
  const std::string unknown(text_or(model, "unk_token", ""));
  if (!unknown.empty()) parts.unknown = parts.tokens.find(bytes_of_token(unknown));
}

void read_added_tokens(const JsonFile& file, ByteLevelBpeParts& parts) {
  dom::array added;
  if (file.root["added_tokens"].get(added) != simdjson::SUCCESS) return;
  std::set<std::string> seen;
  for (const dom::element& e : added) {
    AddedToken token;
    std::int64_t id = -1;
    token.content = text_or(e, "content", "");
    if (token.content.empty() || !seen.insert(token.content).second) continue;
    if (e["id"].get(id) != simdjson::SUCCESS) file.broken(fmt::format("added token '{}': wanted an id", token.content));
    token.id = static_cast<Id>(id);
    token.special = flag_or(e, "special", false);
    token.normalized = flag_or(e, "normalized", !token.special);
    token.lstrip = flag_or(e, "lstrip", false);
    token.rstrip = flag_or(e, "rstrip", false);
    token.single_word = flag_or(e, "single_word", false);
    const std::optional<Id> known = parts.tokens.find(bytes_of_token(token.content));
    if (known && *known != token.id) {
      log::warn("{}: added token '{}' has id {}, the vocabulary says {}; the vocabulary's is used", file.where,
                token.content, token.id, *known);
    }
    if (known) {
      token.id = *known;
    } else {
      parts.tokens.add(token.content, token.id);
      parts.added_only.push_back(token.id);
    }
    parts.added.push_back(std::move(token));
  }
  parts.tokens.seal();
}

// --eod-token, else the configuration beside the file, else the only well-known one.
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

}  // namespace

std::unique_ptr<Tokenizer> load_tokenizer_json(const TokenizerSpec& spec) {
  const fs::path path = fs::is_directory(spec.model) ? spec.model / "tokenizer.json" : spec.model;
  const JsonFile file(path);
  ByteLevelBpeParts parts;
  dom::element model, e;
  if (!member(file.root, "model", model)) file.broken("no 'model': not a tokenizer.json");
  try {
    PreTokenizer pre;
    if (member(file.root, "pre_tokenizer", e)) read_pre_tokenizer(file, e, pre);
    if (!pre.byte_level) file.unknown("a model that is not byte-level (no ByteLevel pre-tokenizer)");
    for (const char* key : {"truncation", "padding"}) {
      if (member(file.root, key, e)) log::warn("{}: '{}' is set in the file and not applied", file.where, key);
    }
    if (member(file.root, "normalizer", e)) read_normalizer(file, e, parts);
    parts.add_prefix_space = pre.add_prefix_space;
    if (!pre.patterns.empty()) parts.pattern = SplitPattern::sequence(std::move(pre.patterns));
    read_model(file, model, parts);
    parts.tokens.seal();
    read_merges(file, model, parts);
    read_added_tokens(file, parts);
  } catch (const simdjson::simdjson_error& error) {
    file.broken(fmt::format("not laid out as a tokenizer.json: {}", error.what()));
  } catch (const Error& error) {
    if (!error.where().empty()) throw;
    throw Error(error.code(), error.message(), file.where, error.hint());
  }
  parts.parse_special = spec.parse_special;
  parts.eod = find_eod(parts.tokens, spec, path.parent_path() / "tokenizer_config.json");
  return std::make_unique<ByteLevelBpe>(std::move(parts));
}

std::unique_ptr<Tokenizer> load_gpt2_bpe(const TokenizerSpec& spec) {
  const JsonFile file(spec.vocab_file);
  ByteLevelBpeParts parts;
  dom::object vocab;
  if (file.root.get(vocab) != simdjson::SUCCESS) file.broken("wanted an object of token: id");
  for (const auto& [token, value] : vocab) {
    std::int64_t id = 0;
    if (value.get(id) != simdjson::SUCCESS || id < 0 || id > (1 << 30)) {
      file.broken(fmt::format("'{}': wanted an id", token));
    }
    parts.tokens.add(bytes_of_token(token), static_cast<Id>(id));
  }
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
  parts.parse_special = spec.parse_special;
  parts.eod = find_eod(parts.tokens, spec, {});
  return std::make_unique<ByteLevelBpe>(std::move(parts));
}

}  // namespace mt::data
