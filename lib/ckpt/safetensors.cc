#include "ckpt/safetensors.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/json_reason.h"

namespace mt {
namespace {

constexpr std::uint64_t kMaxHeaderBytes = 100'000'000, kDataAlignment = 4096;

struct Spelling {
  std::string_view text;
  unsigned bits;
  std::optional<DType> dtype;
};

constexpr std::array<Spelling, 22> kSpellings = {{
    {"F64", 64, DType::f64},      {"F32", 32, DType::f32},       {"BF16", 16, DType::bf16},
    {"F16", 16, DType::f16},      {"F8_E4M3", 8, DType::e4m3},   {"F8_E5M2", 8, DType::e5m2},
    {"I64", 64, DType::i64},      {"I32", 32, DType::i32},       {"I16", 16, DType::i16},
    {"U16", 16, DType::u16},      {"I8", 8, DType::i8},          {"U8", 8, DType::u8},
    {"U64", 64, std::nullopt},    {"U32", 32, std::nullopt},     {"C64", 64, std::nullopt},
    {"BOOL", 8, std::nullopt},    {"F8_E8M0", 8, std::nullopt},  {"F8_E4M3FNUZ", 8, std::nullopt},
    {"F8_E5M2FNUZ", 8, std::nullopt}, {"F4", 4, std::nullopt},   {"F6_E2M3", 6, std::nullopt},
    {"F6_E3M2", 6, std::nullopt},
}};

const Spelling* find_spelling(std::string_view text) {
  for (const auto& s : kSpellings)
    if (s.text == text) return &s;
  return nullptr;
}

[[noreturn]] void broken(const std::string& what, const std::string& where) {
  throw Error(Code::corrupt, "not a valid safetensors file: " + what, where);
}

// nlohmann keeps the last of two equal keys; the format forbids them, so they are caught while parsing.
Json parse_without_duplicates(std::string_view text, const std::string& where) {
  std::vector<std::set<std::string>> seen;
  const auto watch = [&](int depth, Json::parse_event_t event, Json& value) {
    const auto d = static_cast<std::size_t>(depth);
    if (event == Json::parse_event_t::object_start) {
      if (seen.size() <= d + 1) seen.resize(d + 2);
      seen[d + 1].clear();
    } else if (event == Json::parse_event_t::key) {
      if (seen.size() <= d) seen.resize(d + 1);
      if (!seen[d].insert(value.get<std::string>()).second)
        broken(fmt::format("key '{}' appears twice", value.get<std::string>()), where);
    }
    return true;
  };
  try {
    return Json::parse(text.begin(), text.end(), watch);
  } catch (const Json::exception& e) {
    broken(fmt::format("header is not JSON: {}", json_reason(e)), where);
  }
}

std::uint64_t unsigned_number(const Json& j, const std::string& what, const std::string& where) {
  if (!j.is_number_unsigned()) broken(what + ": wanted an unsigned integer, found " + j.dump(), where);
  return j.get<std::uint64_t>();
}

SafetensorsEntry read_entry(const std::string& name, const Json& j, const std::string& where) {
  const auto field = [&](const char* key) -> const Json& {
    const auto it = j.find(key);
    if (it == j.end()) broken(fmt::format("tensor '{}': no '{}'", name, key), where);
    return *it;
  };
  if (!j.is_object()) broken(fmt::format("tensor '{}' is not an object", name), where);
  SafetensorsEntry e;
  e.name = name;
  const auto& dtype = field("dtype");
  if (!dtype.is_string()) broken(fmt::format("tensor '{}': dtype is not a string", name), where);
  e.dtype_text = dtype.get<std::string>();
  const auto* spelling = find_spelling(e.dtype_text);
  if (!spelling) broken(fmt::format("tensor '{}': unknown dtype '{}'", name, e.dtype_text), where);
  e.dtype = spelling->dtype;

  const auto &shape = field("shape"), &offsets = field("data_offsets");
  if (!shape.is_array() || !offsets.is_array() || offsets.size() != 2)
    broken(fmt::format("tensor '{}': shape or data_offsets is not an array of the right length", name), where);
  unsigned __int128 bits = spelling->bits;
  for (const auto& d : shape) {
    const auto extent = unsigned_number(d, fmt::format("tensor '{}': shape", name), where);
    if (extent > (1ull << 62)) broken(fmt::format("tensor '{}': extent {} is too large", name, extent), where);
    bits *= extent;
    if (bits > (static_cast<unsigned __int128>(1) << 66))
      broken(fmt::format("tensor '{}': shape {} is too large", name, shape.dump()), where);
    e.shape.push_back(static_cast<std::int64_t>(extent));
  }
  e.begin = unsigned_number(offsets[0], fmt::format("tensor '{}': data_offsets", name), where);
  e.end = unsigned_number(offsets[1], fmt::format("tensor '{}': data_offsets", name), where);
  if (bits % 8 != 0) broken(fmt::format("tensor '{}': {} bits are not whole bytes", name, std::uint64_t(bits)), where);
  if (e.end < e.begin || e.end - e.begin != static_cast<std::uint64_t>(bits / 8))
    broken(fmt::format("tensor '{}': {} of shape {} needs {} bytes, data_offsets {}:{}", name, e.dtype_text,
                       dims_text(e.shape), static_cast<std::uint64_t>(bits / 8), e.begin, e.end),
           where);
  return e;
}

void check_tiling(const std::vector<SafetensorsEntry>& tensors, std::uint64_t data_bytes, const std::string& where) {
  std::vector<const SafetensorsEntry*> sorted;
  for (const auto& t : tensors) sorted.push_back(&t);
  std::sort(sorted.begin(), sorted.end(), [](const auto* a, const auto* b) {
    return std::pair(a->begin, a->end) < std::pair(b->begin, b->end);
  });
  std::uint64_t at = 0;
  for (const auto* t : sorted) {
    if (t->begin != at)
      broken(fmt::format("tensor '{}' starts at byte {} of the data, but the one before it ends at {}", t->name,
                         t->begin, at),
             where);
    at = t->end;
  }
  if (at != data_bytes)
    broken(fmt::format("the header describes {} bytes of data, the file has {}", at, data_bytes), where);
}

std::uint64_t header_length(std::span<const std::byte> head, std::uint64_t file_bytes, const std::string& where) {
  if (file_bytes < 8 || head.size() < 8) broken(fmt::format("{} bytes are too few for a header", file_bytes), where);
  std::uint64_t n = 0;
  for (int i = 7; i >= 0; --i) n = (n << 8) | static_cast<std::uint64_t>(head[static_cast<std::size_t>(i)]);
  if (n > kMaxHeaderBytes || n > file_bytes - 8)
    broken(fmt::format("header length {}, but the file has {} bytes and the limit is {}", n, file_bytes,
                       kMaxHeaderBytes),
           where);
  return n;
}

}  // namespace

std::string_view safetensors_dtype_name(DType dtype) {
  for (const auto& s : kSpellings)
    if (s.dtype == dtype) return s.text;
  MT_CHECK(false, "dtype {} has no safetensors name", static_cast<int>(dtype));
  return {};
}

std::optional<DType> parse_safetensors_dtype(std::string_view name) {
  const auto* s = find_spelling(name);
  return s ? s->dtype : std::nullopt;
}

SafetensorsHeader parse_safetensors_header(std::span<const std::byte> head, std::uint64_t file_bytes,
                                           const std::string& where) {
  const auto n = header_length(head, file_bytes, where);
  if (head.size() < 8 + n) broken(fmt::format("header cut at byte {} of {}", head.size(), 8 + n), where);
  const std::string_view text(reinterpret_cast<const char*>(head.data()) + 8, n);
  if (text.empty() || text[0] != '{') broken("the header does not start with '{'", where);
  const Json j = parse_without_duplicates(text, where);
  SafetensorsHeader h;
  h.data_start = 8 + n;
  for (const auto& [name, value] : j.items()) {
    if (name != "__metadata__") {
      h.tensors.push_back(read_entry(name, value, where));
      continue;
    }
    if (!value.is_object()) broken("__metadata__ is not an object", where);
    for (const auto& [k, v] : value.items()) {
      if (!v.is_string()) broken(fmt::format("__metadata__ '{}' is not a string", k), where);
      h.metadata[k] = v.get<std::string>();
    }
  }
  check_tiling(h.tensors, file_bytes - h.data_start, where);
  return h;
}

SafetensorsHeader read_safetensors_header(const std::filesystem::path& path) {
  std::error_code ec;
  const auto file_bytes = std::filesystem::file_size(path, ec);
  if (ec) throw Error(Code::io, "cannot read: " + ec.message(), path.string());
  std::ifstream in(path, std::ios::binary);
  if (!in) throw Error(Code::io, "cannot open for reading: " + errno_text(errno), path.string());
  const auto read = [&](std::uint64_t begin, std::uint64_t end, std::byte* out) {
    in.seekg(static_cast<std::streamoff>(begin));
    in.read(reinterpret_cast<char*>(out), static_cast<std::streamsize>(end - begin));
    if (!in) throw Error(Code::io, "cannot read the header", path.string());
  };
  return read_safetensors_header(read, file_bytes, path.string());
}

SafetensorsHeader read_safetensors_header(
    const std::function<void(std::uint64_t, std::uint64_t, std::byte*)>& read, std::uint64_t file_bytes,
    const std::string& where) {
  std::vector<std::byte> head(std::min<std::uint64_t>(8, file_bytes));
  read(0, head.size(), head.data());
  const auto n = header_length(head, file_bytes, where);
  head.resize(8 + n);
  read(8, head.size(), head.data() + 8);
  return parse_safetensors_header(head, file_bytes, where);
}

std::string make_safetensors_header(std::vector<SafetensorsEntry>& tensors,
                                    const std::map<std::string, std::string>& metadata) {
  // Written piece by piece: ordered JSON objects look keys up linearly, which is quadratic for many tensors.
  std::string s(8, '\0');
  s += "{\"__metadata__\":" + Json(metadata).dump();
  std::set<std::string_view> names;
  std::uint64_t at = 0;
  for (auto& t : tensors) {
    MT_CHECK(t.dtype && names.insert(t.name).second, "tensor '{}' twice or without dtype", t.name);
    t.dtype_text = safetensors_dtype_name(*t.dtype);
    t.begin = at;
    at += static_cast<std::uint64_t>(bytes_of(*t.dtype, num_elements(t.shape)));
    t.end = at;
    s += fmt::format(",{}:{{\"dtype\":\"{}\",\"shape\":{},\"data_offsets\":[{},{}]}}", Json(t.name).dump(),
                     t.dtype_text, Json(t.shape).dump(), t.begin, t.end);
  }
  s += '}';
  s.append((kDataAlignment - s.size() % kDataAlignment) % kDataAlignment, ' ');
  const auto n = static_cast<std::uint64_t>(s.size() - 8);
  for (std::size_t i = 0; i < 8; ++i) s[i] = static_cast<char>((n >> (8 * i)) & 0xff);
  return s;
}

}  // namespace mt
