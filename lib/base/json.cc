#include "base/json.h"

#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

#include "base/error.h"
#include "base/files.h"
#include "base/json_reason.h"

namespace mt {

namespace {

std::string place(std::string_view text, std::size_t byte, const std::string& where) {
  std::size_t line = 1, column = 1;
  for (std::size_t i = 0; i + 1 < byte && i < text.size(); ++i) {
    ++column;
    if (text[i] == '\n') {
      ++line;
      column = 1;
    }
  }
  return fmt::format("{}:{}:{}", where, line, column);
}

template <class T> struct IsVector : std::false_type {};
template <class E> struct IsVector<std::vector<E>> : std::true_type {};

template <class T>
constexpr const char* wanted() {
  if constexpr (std::is_same_v<T, bool>) return "true or false";
  else if constexpr (std::is_unsigned_v<T>) return "an integer of 0 or more";
  else if constexpr (std::is_integral_v<T>) return "an integer";
  else if constexpr (std::is_floating_point_v<T>) return "a number";
  else if constexpr (std::is_same_v<T, std::string>) return "a string";
  else return "an array";
}

template <class T>
bool fits(const Json& v) {
  if constexpr (std::is_same_v<T, Json>) return true;
  else if constexpr (std::is_same_v<T, bool>) return v.is_boolean();
  else if constexpr (std::is_integral_v<T>) {
    if (v.is_number_unsigned()) return v.get<std::uint64_t>() <= static_cast<std::uint64_t>(std::numeric_limits<T>::max());
    if (!v.is_number_integer() || std::is_unsigned_v<T>) return false;
    return v.get<std::int64_t>() >= static_cast<std::int64_t>(std::numeric_limits<T>::min());
  }
  else if constexpr (std::is_floating_point_v<T>) return v.is_number();
  else if constexpr (std::is_same_v<T, std::string>) return v.is_string();
  else {
    if (!v.is_array()) return false;
    for (const Json& e : v)
      if (!fits<typename T::value_type>(e)) return false;
    return true;
  }
}

}  // namespace

// "[json.exception.parse_error.101] parse error at line 1, column 2: syntax error ..." -> "syntax error ..."
std::string json_reason(const nlohmann::detail::exception& e) {
  std::string text = e.what();
  if (const auto mark = text.find("] "); text.rfind("[json.exception", 0) == 0 && mark != std::string::npos) text.erase(0, mark + 2);
  const auto column = text.rfind("parse error", 0) == 0 ? text.find("column ") : std::string::npos;
  const auto colon = column == std::string::npos ? std::string::npos : text.find(": ", column);
  return colon == std::string::npos ? text : text.substr(colon + 2);
}

Json parse_json(std::string_view text, const std::string& where) {
  try {
    return Json::parse(text.begin(), text.end());
  } catch (const Json::parse_error& e) {
    throw Error(Code::corrupt, "not JSON: " + json_reason(e), place(text, e.byte, where));
  } catch (const Json::exception& e) {  // a number out of range
    throw Error(Code::corrupt, "not JSON: " + json_reason(e), where);
  }
}

Json read_json(const std::filesystem::path& path) { return parse_json(read_file(path), path.string()); }

std::string json_line(const Json& j) { return j.dump(-1, ' ', false, Json::error_handler_t::replace); }

template <class T>
T json_field(const Json& j, const char* key, const std::string& where) {
  if (!j.is_object()) throw Error(Code::corrupt, fmt::format("wanted an object, found {}", j.type_name()), where);
  const auto it = j.find(key);
  if (it == j.end()) throw Error(Code::corrupt, fmt::format("field '{}' is missing", key), where);
  if (!fits<T>(*it)) {
    const std::string found = it->is_number() ? json_line(*it) : it->type_name();
    throw Error(Code::corrupt, fmt::format("field '{}': wanted {}, found {}", key, wanted<T>(), found), where);
  }
  return it->template get<T>();
}

template bool json_field<bool>(const Json&, const char*, const std::string&);
template int json_field<int>(const Json&, const char*, const std::string&);
template std::int64_t json_field<std::int64_t>(const Json&, const char*, const std::string&);
template std::uint64_t json_field<std::uint64_t>(const Json&, const char*, const std::string&);
template std::uint32_t json_field<std::uint32_t>(const Json&, const char*, const std::string&);
template float json_field<float>(const Json&, const char*, const std::string&);
template double json_field<double>(const Json&, const char*, const std::string&);
template std::string json_field<std::string>(const Json&, const char*, const std::string&);
template Json json_field<Json>(const Json&, const char*, const std::string&);
template std::vector<std::int64_t> json_field<std::vector<std::int64_t>>(const Json&, const char*, const std::string&);
template std::vector<int> json_field<std::vector<int>>(const Json&, const char*, const std::string&);
template std::vector<double> json_field<std::vector<double>>(const Json&, const char*, const std::string&);
template std::vector<std::string> json_field<std::vector<std::string>>(const Json&, const char*, const std::string&);

}  // namespace mt
