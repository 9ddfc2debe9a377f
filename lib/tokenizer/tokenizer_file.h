#pragma once
// A tokenizer's JSON file under simdjson, and the small questions that its readers ask of it.
//
// Large parts (vocabulary, merges) are walked in place; small ones (normalizer, decoder ...) are handed on as Json.
// Code: tokenizer/tokenizer_file.cc. Tests: tests/tokenizer/tokenizer_json_test.cc.

#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <simdjson.h>

#include "base/files.h"
#include "base/json.h"
#include "tokenizer/added_tokens.h"
#include "tokenizer/bpe.h"
#include "tokenizer/json_fields.h"
#include "tokenizer/token_table.h"
#include "tokenizer/tokenizer.h"

namespace mt::tokenizer {

namespace dom = simdjson::dom;

// A JSON file and the name errors carry.
struct JsonFile {
  std::string where;
  simdjson::padded_string text;
  dom::parser parser;
  dom::element root;

  //   fails  Error{io}; Error{corrupt}: not JSON
  explicit JsonFile(const fs::path& path);
  [[noreturn]] void unknown(const std::string& what) const;  // Error{data}
  [[noreturn]] void broken(const std::string& what) const;   // Error{corrupt}
};

std::string_view text_or(const dom::element& e, const char* key, std::string_view fallback);
// The member, or a null-like absence: false for missing and for null.
bool member(const dom::element& e, const char* key, dom::element& value);
// The members of an object; arrays and objects among them come empty, so that a large part costs nothing. What is no
// object comes as an empty value of its type.
Json fields_of(const dom::element& e);
// A small part as Json; null where it is missing.
Json part_of(const dom::element& e, const char* key);

// "a b" as its two tokens.   fails  Error{corrupt}
std::pair<std::string_view, std::string_view> split_merge(const std::string& where, std::string_view line);

// How a file's spelling of a token becomes the bytes a table holds.
using Spelling = std::string (*)(std::string_view);

// vocab: an object of token: id.   fails  Error{corrupt}
void read_vocab(const JsonFile& file, const dom::element& vocab, Spelling spelling, TokenTable& tokens);

// Merges of a model as their two tokens.   fails  Error{corrupt}
template <class Each>
void for_each_merge(const JsonFile& file, const dom::element& model, Each each) {
  dom::array merges;
  if (model["merges"].get(merges) != simdjson::SUCCESS) file.broken("model.merges: wanted an array");
  std::size_t place = 0;
  for (const dom::element& merge : merges) {
    std::string_view line, left, right;
    dom::array pair;
    if (merge.get(line) == simdjson::SUCCESS) {
      if (line.starts_with("#version")) continue;
      std::tie(left, right) = split_merge(file.where, line);
    } else if (merge.get(pair) != simdjson::SUCCESS || pair.size() != 2 ||
               pair.at(0).get(left) != simdjson::SUCCESS || pair.at(1).get(right) != simdjson::SUCCESS) {
      file.broken(fmt::format("merge {}: wanted 'a b' or [a, b]", place));
    }
    each(left, right);
    ++place;
  }
}

// Add the added tokens of the file to `tokens` and seal it again.
//   fails  Error{corrupt}: entries that are none, a field of another type
//   gives  those tokens; `only` (if any) receives the ids of those the model lacked
std::vector<AddedToken> read_added_tokens(const JsonFile& file, Spelling spelling, TokenTable& tokens,
                                          std::vector<Id>* only);

// --eod-token, else the configuration beside the file, else the only well-known one.   fails  Error{data}
std::optional<Id> find_eod(const TokenTable& tokens, const TokenizerSpec& spec, const fs::path& config);

}  // namespace mt::tokenizer
