#include "tokenizer/json_fields.h"

#include <utility>

#include "base/error.h"
#include "tokenizer/unicode.h"

namespace mt::tokenizer {

std::string type_words(const Json& json) {
  switch (json.type()) {
    case Json::value_t::null: return "null";
    case Json::value_t::boolean: return "a boolean";
    case Json::value_t::string: return "a string";
    case Json::value_t::array: return "an array";
    case Json::value_t::object: return "an object";
    default: return json.is_number_float() || json < 0 ? "the number " + json_line(json) : "a number";
  }
}

JsonFields::JsonFields(const Json& object, std::string path) : object_(&object), path_(std::move(path)) {
  if (!object.is_object()) {
    throw Error(Code::corrupt, fmt::format("{}: wanted an object, found {}", path_, type_words(object)));
  }
}

void JsonFields::broken(const std::string& key, const std::string& what) const {
  throw Error(Code::corrupt, fmt::format("{}.{}: {}", path_, key, what));
}

void JsonFields::wrong(const std::string& key, const char* wanted, const Json& found) const {
  broken(key, fmt::format("wanted {}, found {}", wanted, type_words(found)));
}

const Json* JsonFields::find(const char* key) const {
  const auto found = object_->find(key);
  return found == object_->end() ? nullptr : &*found;
}

std::string JsonFields::text(const char* key, const char* fallback) const {
  const Json* found = find(key);
  if (found == nullptr && fallback == nullptr) broken(key, "wanted a string, there is none");
  if (found == nullptr) return fallback;
  if (!found->is_string()) wrong(key, "a string", *found);
  return found->get<std::string>();
}

std::string JsonFields::text_or_null(const char* key, const char* fallback) const {
  const Json* found = find(key);
  return found == nullptr || found->is_null() ? fallback : text(key);
}

std::string JsonFields::character(const char* key, const char* fallback) const {
  std::string one = text(key, fallback);
  if (one.empty() || decode_utf8(one.data()).size != one.size()) {
    broken(key, fmt::format("wanted one character, found '{}'", one));
  }
  return one;
}

bool JsonFields::flag(const char* key) const {
  if (find(key) == nullptr) broken(key, "wanted true or false, there is none");
  return flag(key, false);
}

std::uint64_t JsonFields::needed_count(const char* key) const {
  const std::optional<std::uint64_t> n = count(key);
  if (!n) broken(key, "wanted a whole number of 0 or more, there is none");
  return *n;
}

bool JsonFields::flag(const char* key, bool fallback) const {
  const Json* found = find(key);
  if (found == nullptr) return fallback;
  if (!found->is_boolean()) wrong(key, "true or false", *found);
  return found->get<bool>();
}

bool JsonFields::flag_or_null(const char* key, bool fallback) const {
  const Json* found = find(key);
  return found == nullptr || found->is_null() ? fallback : flag(key, fallback);
}

std::optional<std::uint64_t> JsonFields::count(const char* key) const {
  const Json* found = find(key);
  if (found == nullptr) return std::nullopt;
  // A literal in a program is a signed number, one in a file is not.
  if (!found->is_number_integer() || (!found->is_number_unsigned() && *found < 0)) {
    wrong(key, "a whole number of 0 or more", *found);
  }
  return found->get<std::uint64_t>();
}

std::optional<std::uint64_t> JsonFields::count_or_null(const char* key) const {
  const Json* found = find(key);
  return found == nullptr || found->is_null() ? std::nullopt : count(key);
}

std::vector<JsonFields> JsonFields::list(const char* key) const {
  const Json* found = find(key);
  if (found == nullptr) broken(key, "wanted an array, there is none");
  if (!found->is_array()) wrong(key, "an array", *found);
  std::vector<JsonFields> parts;
  for (std::size_t i = 0; i < found->size(); ++i) parts.emplace_back((*found)[i], fmt::format("{}.{}[{}]", path_, key, i));
  return parts;
}

JsonFields::Pattern JsonFields::pattern(const char* key) const {
  const Json* found = find(key);
  if (found == nullptr) broken(key, "wanted {\"String\": ...} or {\"Regex\": ...}, there is none");
  const bool named = found->is_object() && found->size() == 1 && (found->contains("String") || found->contains("Regex"));
  if (!named) {
    broken(key, fmt::format("wanted {{\"String\": ...}} or {{\"Regex\": ...}}, found {}",
                            found->is_object() ? json_line(*found).substr(0, 80) : type_words(*found)));
  }
  const JsonFields inner(*found, path_ + "." + key);
  Pattern made;
  made.is_regex = found->contains("Regex");
  (made.is_regex ? made.regex : made.literal) = inner.text(made.is_regex ? "Regex" : "String");
  return made;
}

}  // namespace mt::tokenizer
