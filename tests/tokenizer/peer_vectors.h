#pragma once
// The lines of peer_vectors.jsonl, which tests/peers/record_vectors.py writes.

#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/json.h"

namespace mt::tokenizer {

inline std::vector<Json> peer_vectors(const std::string& kind) {
  const char* source = std::getenv("MT_TEST_SOURCE");
  const std::string path = std::string(source != nullptr ? source : ".") + "/tests/tokenizer/peer_vectors.jsonl";
  std::istringstream lines(read_file(path));
  std::vector<Json> found;
  for (std::string line; std::getline(lines, line);) {
    Json j = parse_json(line, path);
    if (j.at("kind") == kind) found.push_back(std::move(j));
  }
  return found;
}

}  // namespace mt::tokenizer
