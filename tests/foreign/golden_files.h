#pragma once
// Files of tests/golden, and bytes written as text.

#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <span>
#include <string>

#include <gtest/gtest.h>

#include "base/error.h"

#ifndef EXPECT_CONTAINS
#define EXPECT_CONTAINS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)
#endif

namespace mt::test {

inline std::filesystem::path golden(const std::string& name) {
  const char* source = std::getenv("MT_TEST_SOURCE");
  return std::filesystem::path(source != nullptr ? source : ".") / "tests" / "golden" / name;
}

inline std::span<const std::byte> bytes_of_text(const std::string& s) { return {reinterpret_cast<const std::byte*>(s.data()), s.size()}; }

inline std::string unhex(const std::string& hex) {
  std::string out;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) out += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  return out;
}

}  // namespace mt::test
