#pragma once
// Fields of the small parts of a tokenizer.json, each of the type it must have.
//
// A field that is there with another type (null is one too) is damage and named by its path, such as
// "pre_tokenizer.pretokenizers[1].behavior"; it is never taken as a default. Hugging Face's library refuses the same
// files. One that is missing is damage too where the library insists on it, and else has the default its reader names;
// only "type", which the library guesses where it is missing, is always asked for.
// Code: tokenizer/json_fields.cc. Tests: tests/tokenizer/tokenizer_strictness_test.cc.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"

namespace mt::tokenizer {

// The object of one part and its path in the file. Borrows the JSON.
class JsonFields {
 public:
  //   fails  Error{corrupt}: no object
  JsonFields(const Json& object, std::string path);

  const Json& json() const { return *object_; }
  const std::string& path() const { return path_; }

  // A string; `fallback` where there is no such field, which is an error without one.   fails  Error{corrupt}
  std::string text(const char* key, const char* fallback = nullptr) const;
  // Null is as good as missing.
  std::string text_or_null(const char* key, const char* fallback) const;
  // A string of exactly one code point.
  std::string character(const char* key, const char* fallback = nullptr) const;
  bool flag(const char* key) const;  // must be there
  bool flag(const char* key, bool fallback) const;
  bool flag_or_null(const char* key, bool fallback) const;  // as text_or_null
  // A whole number of 0 or more, or nothing where there is no such field.
  std::optional<std::uint64_t> count(const char* key) const;
  std::uint64_t needed_count(const char* key) const;  // must be there
  std::optional<std::uint64_t> count_or_null(const char* key) const;
  // A list that must be there; its parts are objects.
  std::vector<JsonFields> list(const char* key) const;

  // {"String": ...} or {"Regex": ...}, one of them.
  struct Pattern {
    std::string literal, regex;
    bool is_regex = false;
  };
  Pattern pattern(const char* key) const;

  // Throw Error{corrupt} about a field of this part: "path.key: what".
  [[noreturn]] void broken(const std::string& key, const std::string& what) const;

 private:
  const Json* find(const char* key) const;
  [[noreturn]] void wrong(const std::string& key, const char* wanted, const Json& found) const;
  const Json* object_;
  std::string path_;
};

// "a string", "null", "an array" ... for messages.
std::string type_words(const Json& json);

}  // namespace mt::tokenizer
