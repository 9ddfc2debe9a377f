#pragma once
// Rows of tests/golden/*.tsv and *.jsonl, which make_samples.py made with Megatron's own classes.

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/json.h"

namespace mt::data {

inline std::filesystem::path golden_file(const std::string& name) {
  const char* source = std::getenv("MT_TEST_SOURCE");
  return std::filesystem::path(source != nullptr ? source : ".") / "tests" / "golden" / name;
}

inline std::vector<std::string> golden_lines(const std::string& name) {
  std::ifstream in(golden_file(name));
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  EXPECT_FALSE(lines.empty()) << name;
  return lines;
}

// Fields of each row below the header.
inline std::vector<std::vector<std::string>> golden_rows(const std::string& name) {
  std::vector<std::vector<std::string>> rows;
  for (const std::string& line : golden_lines(name)) {
    std::istringstream in(line);
    rows.emplace_back();
    for (std::string field; std::getline(in, field, '\t');) rows.back().push_back(field);
  }
  rows.erase(rows.begin());
  return rows;
}

template <class T>
std::vector<T> numbers(const std::string& text) {
  std::istringstream in(text);
  std::vector<T> values;
  for (T value; in >> value;) values.push_back(value);
  return values;
}

}  // namespace mt::data
