#pragma once
// Why text is no JSON, in plain words. Code: base/json.cc. Tests: tests/base/json_test.cc.

#include <string>

#include "base/json.h"

namespace mt {

// What the library says, without its own "[json.exception.parse_error.101] parse error at line 1, column 2: " in front.
// Catch nlohmann::detail::exception, not one of its kinds: a number beyond a double (1e999) is no parse error to it.
std::string json_reason(const nlohmann::detail::exception& e);

}  // namespace mt
