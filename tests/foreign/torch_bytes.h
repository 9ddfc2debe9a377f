#pragma once
// Archives and pickles put together by hand, right or wrong on purpose.

#include <cstdint>
#include <string>
#include <vector>

#include "foreign/zip_archive.h"

namespace mt::test {

inline std::string le(std::uint64_t v, int bytes) {
  std::string s;
  for (int i = 0; i < bytes; ++i) s += static_cast<char>(v >> (8 * i));
  return s;
}

struct ZipPart {
  std::string name, content;
  std::uint16_t method = 0, flags = 0;
  std::string local_name = "";     // when it differs
  std::int64_t local_offset = -1;  // when the directory lies
  std::int64_t size = -1;          // when the directory lies
};

inline std::string zip_of(const std::vector<ZipPart>& parts, const std::string& behind = "") {
  std::string out, directory;
  for (const auto& p : parts) {
    const auto crc = zip_crc(0, std::as_bytes(std::span(p.content)));
    const auto at = p.local_offset >= 0 ? static_cast<std::uint64_t>(p.local_offset) : out.size();
    const auto size = p.size >= 0 ? static_cast<std::uint64_t>(p.size) : p.content.size();
    const std::string name = p.local_name.empty() ? p.name : p.local_name;
    const std::string sizes = le(crc, 4) + le(size, 4) + le(size, 4);
    out += le(0x04034b50, 4) + le(20, 2) + le(p.flags, 2) + le(p.method, 2) + le(0, 4) + sizes + le(name.size(), 2) + le(0, 2) + name + p.content;
    directory += le(0x02014b50, 4) + le(20, 2) + le(20, 2) + le(p.flags, 2) + le(p.method, 2) + le(0, 4) + sizes + le(p.name.size(), 2) +
                 le(0, 2) + le(0, 2) + le(0, 2) + le(0, 2) + le(0, 4) + le(at, 4) + p.name;
  }
  const auto begin = out.size();
  out += directory + le(0x06054b50, 4) + le(0, 4) + le(parts.size(), 2) + le(parts.size(), 2) + le(directory.size(), 4) + le(begin, 4) + le(0, 2);
  return out + behind;
}

inline std::string pickled_text(const std::string& s) { return "X" + le(s.size(), 4) + s; }
inline std::string pickled_number(std::int64_t v) { return "\x8a\x08" + le(static_cast<std::uint64_t>(v), 8); }
inline std::string pickled_tuple(const std::vector<std::int64_t>& v) {
  std::string s = "(";
  for (const auto n : v) s += pickled_number(n);
  return s + "t";
}

// A tensor as torch writes it.
struct PickledTensor {
  std::string type = "torch\nFloatStorage", key = "0", function = "torch._utils\n_rebuild_tensor_v2";
  std::int64_t elements = 6, offset = 0;
  std::vector<std::int64_t> shape{2, 3}, strides{3, 1};
};
inline std::string pickled(const PickledTensor& t) {
  return "c" + t.function + "\n((" + pickled_text("storage") + "c" + t.type + "\n" + pickled_text(t.key) + pickled_text("cpu") +
         pickled_number(t.elements) + "tQ" + pickled_number(t.offset) + pickled_tuple(t.shape) + pickled_tuple(t.strides) +
         "\x89" "ccollections\nOrderedDict\n)RtR";
}

// A file of torch.save with one storage of six floats.
inline std::string torch_zip(const std::string& pickle, const std::string& data = std::string(24, '\1')) {
  return zip_of({{"x/data.pkl", "\x80\x02" + pickle + "."}, {"x/byteorder", "little"}, {"x/data/0", data}, {"x/version", "3\n"}});
}

}  // namespace mt::test
