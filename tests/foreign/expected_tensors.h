#pragma once
// Whole tensors as a golden script saw them: name, shape, CRC-32 of the bytes; and those of a checkpoint of ours beside them.

#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "ckpt/reader.h"
#include "foreign/golden_files.h"
#include "foreign/zip_archive.h"

namespace mt::test {

struct ExpectedTensor {
  std::string shape, crc;
  bool operator==(const ExpectedTensor&) const = default;
};
using ExpectedTensors = std::map<std::string, ExpectedTensor>;

inline ExpectedTensors read_expected(const std::filesystem::path& path) {
  ExpectedTensors out;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream fields(line);
    std::string name, shape, crc;
    std::getline(fields, name, '\t'), std::getline(fields, shape, '\t'), std::getline(fields, crc);
    out[name] = {shape, crc};
  }
  EXPECT_FALSE(out.empty()) << path;
  return out;
}

inline std::string name_of(const TensorEntry& t) { return t.name; }
// "master/decoder…": where a checkpoint holds more than weights.
inline std::string kind_and_name_of(const TensorEntry& t) { return t.kind + "/" + t.name; }

inline ExpectedTensors tensors_of_checkpoint(const std::filesystem::path& dir, std::string (*key)(const TensorEntry&) = name_of) {
  ExpectedTensors out;
  const Reader reader(dir);
  for (const auto& t : reader.manifest().tensors) {
    std::vector<std::byte> bytes(t.bytes());
    TensorRequest q;
    q.what = {t.name, t.kind, t.dtype, t.shape, whole(t.shape)};
    q.out = bytes.data();
    reader.read({&q, 1});
    std::string shape;
    for (const auto d : t.shape) shape += (shape.empty() ? "" : ",") + std::to_string(d);
    out[key(t)] = {shape, fmt::format("{:08x}", zip_crc(0, bytes))};
  }
  return out;
}

inline std::string read_text(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
inline void write_text(const std::filesystem::path& path, const std::string& text) { std::ofstream(path, std::ios::binary | std::ios::trunc) << text; }

}  // namespace mt::test

// A golden checkpoint has tensors that a message of gtest shall not print whole.
namespace mt::test {
inline std::ostream& operator<<(std::ostream& out, const ExpectedTensor& t) { return out << t.shape << " " << t.crc; }
}  // namespace mt::test
