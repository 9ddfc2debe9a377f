#pragma once
// JSON as nlohmann's ordered_json: keys keep their order, so files we write read the same every time.
//
// Code: base/json.cc. Tests: tests/base/json_test.cc.

#include <filesystem>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace mt {

using Json = nlohmann::ordered_json;

// Parse text; `where` names the file in the message.
//   fails  Error{corrupt} with line and column
Json parse_json(std::string_view text, const std::string& where);
Json read_json(const std::filesystem::path& path);

// One compact line without newline; invalid UTF-8 is replaced, NaN and infinity become null.
std::string json_line(const Json& j);

// A required field of the right type.
//   fails  Error{corrupt, "field 'x': wanted a number, found string", where}
template <class T>
T json_field(const Json& j, const char* key, const std::string& where);

}  // namespace mt
