#pragma once
// The safetensors file format: eight bytes of header length, a JSON header, then the bytes of all tensors end to end.
//
// Reading is strict, because a header is the only thing that says what the bytes mean: the length must fit the file and
// 100,000,000 bytes, the JSON must be an object without duplicate keys, every entry's byte count must equal its shape
// times its element size, and the entries, sorted by offset, must tile the data exactly (no hole, no overlap, nothing
// left over). Nothing is allocated by a size the file merely claims.
//
// The format promises no alignment of a tensor inside a file; readers copy. Our writer pads the header with spaces so
// that data starts at a multiple of 4096, and callers put wide elements first, so shards are aligned in practice.
// Code: ckpt/safetensors.cc. Tests: tests/ckpt/safetensors_test.cc.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "layout/box.h"

namespace mt {

// One tensor of a file.
//   dtype_text  as written, "BF16", "F4", "BOOL" ...: every name of the format is accepted
//   dtype       ours, when there is one
//   begin, end  bytes from the start of the data, that is from SafetensorsHeader::data_start
struct SafetensorsEntry {
  std::string name, dtype_text;
  std::optional<DType> dtype;
  Dims shape;
  std::uint64_t begin = 0, end = 0;
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> tensors;  // in the order of the header
  std::map<std::string, std::string> metadata;
  std::uint64_t data_start = 0;  // 8 + header length
};

// Read and check the header of a file; the data is not touched.
//   fails  Error{io} missing or unreadable; Error{corrupt} naming the file, the tensor and what is wrong
//   cost   reads the header's bytes only
SafetensorsHeader read_safetensors_header(const std::filesystem::path& path);

// The same where the file's bytes come another way: read(begin, end, out).
//   fails  also as `read` does
SafetensorsHeader read_safetensors_header(
    const std::function<void(std::uint64_t begin, std::uint64_t end, std::byte* out)>& read, std::uint64_t file_bytes,
    const std::string& where);

// The same over bytes already in memory.
//   needs  `head`: the first bytes of the file, at least the whole header if the file has one; `file_bytes`: its size
//   fails  Error{corrupt}
SafetensorsHeader parse_safetensors_header(std::span<const std::byte> head, std::uint64_t file_bytes,
                                           const std::string& where);

// Build the first bytes of a file (length, JSON, padding) for tensors laid end to end in the given order, and set
// `begin` and `end` of each entry.
//   needs  unique names; dtype set
//   gives  text whose size is a multiple of 4096
std::string make_safetensors_header(std::vector<SafetensorsEntry>& tensors,
                                    const std::map<std::string, std::string>& metadata);

// "F32" for DType::f32, and back; nothing for a name that is not of the format or has no DType of ours.
std::string_view safetensors_dtype_name(DType dtype);
std::optional<DType> parse_safetensors_dtype(std::string_view name);

}  // namespace mt
