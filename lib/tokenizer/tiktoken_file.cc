#include "tokenizer/tiktoken_file.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/error.h"
#include "base/files.h"
#include "tokenizer/byte_level_bpe.h"
#include "tokenizer/normalizer.h"
#include "tokenizer/tokenizer_file.h"

namespace mt::tokenizer {

namespace {

constexpr std::int64_t kMegatronVocabulary = 131072;

// Megatron's "v1"; its "v2" is Tekken's.
constexpr std::string_view kMegatronV1 =
    "[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+";

struct Special {
  std::string_view text;
  Id id;
};
constexpr Special kGpt2Special[] = {{"<|endoftext|>", 50256}};
constexpr Special kCl100kSpecial[] = {{"<|endoftext|>", 100257},
                                      {"<|fim_prefix|>", 100258},
                                      {"<|fim_middle|>", 100259},
                                      {"<|fim_suffix|>", 100260},
                                      {"<|endofprompt|>", 100276}};
constexpr Special kO200kSpecial[] = {{"<|endoftext|>", 199999}, {"<|endofprompt|>", 200018}};

// An encoding by its name: how it cuts, and its special tokens.
struct Encoding {
  std::string_view name, pattern;
  std::span<const Special> special;
};

std::vector<Encoding> known_encodings() {
  return {{"gpt2", kGpt2Pattern, kGpt2Special},       {"p50k", kGpt2Pattern, kGpt2Special},
          {"cl100k", kLlama3Pattern, kCl100kSpecial}, {"o200k", kO200kPattern, kO200kSpecial},
          {"v1", kMegatronV1, {}},                    {"v2", kTekkenPattern, {}}};
}

// A name, or else a regex without special tokens.
Encoding encoding_of(const std::string& pattern) {
  for (const Encoding& known : known_encodings()) {
    if (known.name == pattern) return known;
  }
  return {"", pattern, {}};
}

void add_special(ByteLevelBpeParts& parts, std::string_view text, Id id) {
  parts.tokens.add(text, id);
  parts.added_only.push_back(id);
  parts.added.push_back({std::string(text), id, true, false, false, false, false});
}

// Every way to make a token of two others, ranked by the token made.
void add_merges(ByteLevelBpeParts& parts) {
  for (Id id = 0; id < parts.tokens.size(); ++id) {
    if (!parts.tokens.has(id)) continue;
    const std::string_view token = parts.tokens.token(id);
    for (std::size_t cut = 1; cut < token.size(); ++cut) {
      const std::optional<Id> left = parts.tokens.find(token.substr(0, cut)),
                              right = parts.tokens.find(token.substr(cut));
      if (!left || !right) continue;
      parts.merges.push_back({*left, *right, id});
      parts.order.push_back(static_cast<std::uint32_t>(id));
    }
  }
}

void check_bytes(const TokenTable& tokens) {
  for (int b = 0; b < 256; ++b) {
    const char byte = static_cast<char>(b);
    if (!tokens.find({&byte, 1})) throw Error(Code::data, fmt::format("no token for the byte 0x{:02x}", b));
  }
}

// Merges are made before special tokens come in, which take no part in them.
std::unique_ptr<Tokenizer> finish(ByteLevelBpeParts parts, const TokenizerSpec& spec,
                                  const std::vector<std::pair<std::string, Id>>& special) {
  parts.tokens.seal();
  check_bytes(parts.tokens);
  add_merges(parts);
  for (const auto& [text, id] : special) add_special(parts, text, id);
  parts.tokens.seal();
  parts.ignore_merges = true;
  parts.parse_special = spec.parse_special;
  parts.eod = find_eod(parts.tokens, spec, {});
  return std::make_unique<ByteLevelBpe>(std::move(parts));
}

void read_line(std::string_view line, std::int64_t number, TokenTable& tokens) {
  const std::size_t space = line.find(' ');
  const std::string_view digits = space == std::string_view::npos ? "" : line.substr(space + 1);
  Id rank = -1;
  const auto [stop, error] = std::from_chars(digits.data(), digits.data() + digits.size(), rank);
  if (digits.empty() || error != std::errc() || stop != digits.data() + digits.size()) {
    throw Error(Code::corrupt, fmt::format("line {}: wanted a token in base64 and its rank", number));
  }
  const std::string token = decode_base64(line.substr(0, space));
  if (token.empty()) throw Error(Code::corrupt, fmt::format("line {}: an empty token", number));
  tokens.add(token, rank);
}

std::unique_ptr<Tokenizer> read_lines(const std::string& text, const TokenizerSpec& spec) {
  if (spec.tiktoken_pattern.empty()) {
    throw Error(Code::usage, "a .tiktoken file does not say how text is cut", "--tiktoken-pattern",
                "gpt2, p50k, cl100k, o200k, v1, v2 or a regex");
  }
  ByteLevelBpeParts parts;
  std::int64_t number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view line(text.data() + begin, end - begin);
    begin = end + 1;
    ++number;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!line.empty()) read_line(line, number, parts.tokens);
  }
  const Encoding encoding = encoding_of(spec.tiktoken_pattern);
  parts.pattern = SplitPattern::from_regex(std::string(encoding.pattern));
  std::vector<std::pair<std::string, Id>> special;
  for (const Special& s : encoding.special) {
    if (parts.tokens.has(s.id)) {
      throw Error(Code::data, fmt::format("id {} is '{}' in {}, and a token of the file", s.id, s.text, encoding.name),
                  "--tiktoken-pattern", "the file is of another encoding");
    }
    special.emplace_back(s.text, s.id);
  }
  return finish(std::move(parts), spec, special);
}

// Entries {rank, token_bytes} up to `most` tokens, ids from `first` on.
void read_list(const JsonFile& file, const dom::array& list, std::int64_t first, std::int64_t most,
               TokenTable& tokens) {
  std::int64_t place = 0;
  for (const dom::element& e : list) {
    if (place == most) break;
    std::int64_t rank = -1;
    std::string_view bytes;
    if (e["rank"].get(rank) != simdjson::SUCCESS || rank != place ||
        e["token_bytes"].get(bytes) != simdjson::SUCCESS) {
      file.broken(fmt::format("token {}: wanted its rank and token_bytes", place));
    }
    const std::string token = decode_base64(bytes);
    if (token.empty()) file.broken(fmt::format("token {} is empty", place));
    tokens.add(token, static_cast<Id>(first + rank));
    ++place;
  }
}

std::int64_t number_or(const dom::element& e, const char* key, std::int64_t fallback) {
  std::int64_t value = 0;
  return e[key].get(value) == simdjson::SUCCESS ? value : fallback;
}

void check_sizes(std::int64_t special, std::int64_t size, std::int64_t fewest) {
  if (special < fewest || size <= special || size > kMaxTokenId) {
    throw Error(Code::usage,
                fmt::format("a vocabulary of {} with {} special tokens: wanted {} or more of them, and room for others",
                            size, special, fewest),
                "--tiktoken-num-special-tokens");
  }
}

// The names given, then <SPECIAL_n>.
std::vector<std::pair<std::string, Id>> special_tokens(std::vector<std::string> names, std::int64_t count) {
  std::vector<std::pair<std::string, Id>> all;
  for (std::int64_t id = 0; id < count; ++id) {
    const auto place = static_cast<std::size_t>(id);
    all.emplace_back(place < names.size() ? names[place] : fmt::format("<SPECIAL_{}>", id), static_cast<Id>(id));
  }
  return all;
}

std::unique_ptr<Tokenizer> read_megatron_list(const JsonFile& file, const dom::array& list, const TokenizerSpec& spec) {
  const std::int64_t special = spec.tiktoken_num_special_tokens;
  const std::int64_t size = spec.vocab_size > 0 ? spec.vocab_size : kMegatronVocabulary;
  const std::vector<std::string> names = {"<unk>", "<s>", "</s>", "<mask>", "<pad>", "<cls>", "<sep>"};
  check_sizes(special, size, static_cast<std::int64_t>(names.size()));
  ByteLevelBpeParts parts;
  read_list(file, list, special, size - special, parts.tokens);
  const std::string pattern = spec.tiktoken_pattern.empty() ? "v2" : spec.tiktoken_pattern;
  parts.pattern = SplitPattern::from_regex(std::string(encoding_of(pattern).pattern));
  if (spec.vocab_size > 0 && parts.tokens.size() < spec.vocab_size) {
    throw Error(Code::data, fmt::format("{} tokens with the special ones, {} were asked", parts.tokens.size(), size),
                "--vocab-size");
  }
  return finish(std::move(parts), spec, special_tokens(names, special));
}

// What Tekken files before version 7 leave to the program.
std::vector<std::string> default_tekken_names() {
  return {"<unk>",          "<s>",           "</s>",          "[INST]",      "[/INST]",
          "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]", "[TOOL_RESULTS]", "[/TOOL_RESULTS]", "[TOOL_CALLS]",
          "[IMG]",          "<pad>",         "[IMG_BREAK]",   "[IMG_END]",   "[PREFIX]",
          "[MIDDLE]",       "[SUFFIX]",      "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]", "[TOOL_CONTENT]"};
}

std::unique_ptr<Tokenizer> read_tekken(const JsonFile& file, const TokenizerSpec& spec) {
  dom::element config;
  dom::array list, named;
  if (!member(file.root, "config", config) || file.root["vocab"].get(list) != simdjson::SUCCESS) {
    file.broken("wanted a list of tokens, or config and vocab (Tekken)");
  }
  const std::int64_t special = number_or(config, "default_num_special_tokens", 1000);
  const std::int64_t size = number_or(config, "default_vocab_size", kMegatronVocabulary);
  std::vector<std::string> names = default_tekken_names();
  if (file.root["special_tokens"].get(named) == simdjson::SUCCESS) {
    names.clear();
    for (const dom::element& e : named) {
      const auto rank = static_cast<std::size_t>(number_or(e, "rank", -1));
      const std::string_view text = text_or(e, "token_str", "");
      if (rank != names.size() || text.empty()) file.broken(fmt::format("special token {}: wanted rank, token_str", names.size()));
      names.emplace_back(text);
    }
  }
  check_sizes(special, size, static_cast<std::int64_t>(names.size()));
  const std::string_view pattern = text_or(config, "pattern", "");
  if (pattern.empty()) file.broken("config without a pattern");
  ByteLevelBpeParts parts;
  read_list(file, list, special, size - special, parts.tokens);
  parts.pattern = SplitPattern::from_regex(std::string(pattern));
  return finish(std::move(parts), spec, special_tokens(std::move(names), special));
}

std::unique_ptr<Tokenizer> read_json_list(const TokenizerSpec& spec) {
  const JsonFile file(spec.model);
  try {
    dom::array list;
    return file.root.get(list) == simdjson::SUCCESS ? read_megatron_list(file, list, spec) : read_tekken(file, spec);
  } catch (const simdjson::simdjson_error& error) {
    file.broken(fmt::format("not laid out as a list of tokens: {}", error.what()));
  }
}

}  // namespace

std::unique_ptr<Tokenizer> load_tiktoken(const TokenizerSpec& spec) {
  try {
    const std::string text = read_file(spec.model);
    const std::size_t first = text.find_first_not_of(" \t\r\n");
    const bool json = first != std::string::npos && (text[first] == '{' || text[first] == '[');
    return json ? read_json_list(spec) : read_lines(text, spec);
  } catch (const Error& error) {
    if (!error.where().empty()) throw;
    throw Error(error.code(), error.message(), spec.model.string(), error.hint());
  }
}

}  // namespace mt::tokenizer
