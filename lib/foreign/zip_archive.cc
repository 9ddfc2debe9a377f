#include "foreign/zip_archive.h"

#include <algorithm>
#include <set>
#include <string_view>

#include <zlib.h>

#include "base/error.h"

namespace mt {

namespace {

constexpr std::uint32_t kLocal = 0x04034b50, kCentral = 0x02014b50, kEnd = 0x06054b50, kEnd64 = 0x06064b50, kLocator64 = 0x07064b50;
constexpr std::uint64_t kEndBytes = 22, kLocatorBytes = 20, kEnd64Bytes = 56, kCentralBytes = 46, kLocalBytes = 30;
constexpr std::uint32_t kLarge = 0xffffffff;

// The bytes of an archive; every look is inside.
class Bytes {
 public:
  Bytes(std::span<const std::byte> bytes, const std::string& where) : bytes_(bytes), where_(where) {}

  [[noreturn]] void fail(const std::string& what) const { throw Error(Code::corrupt, "not a whole zip archive: " + what, where_); }
  std::uint64_t size() const { return bytes_.size(); }
  void need(std::uint64_t at, std::uint64_t n, const char* what) const {
    if (at > size() || n > size() - at) fail(fmt::format("{} at byte {} leaves its {} bytes", what, at, size()));
  }
  std::uint64_t number(std::uint64_t at, unsigned width) const {
    need(at, width, "a header");
    std::uint64_t v = 0;
    for (unsigned i = 0; i < width; ++i) v |= std::uint64_t{static_cast<std::uint8_t>(bytes_[at + i])} << (8 * i);
    return v;
  }
  std::string_view chars(std::uint64_t at, std::uint64_t n) const {
    need(at, n, "a name");
    return {reinterpret_cast<const char*>(bytes_.data()) + at, n};
  }

 private:
  std::span<const std::byte> bytes_;
  const std::string& where_;
};

struct Directory {
  std::uint64_t begin = 0, end = 0, entries = 0;
};

Directory find_directory(const Bytes& b) {
  if (b.size() < kEndBytes) b.fail("too short");
  // No comment is read: a program that writes checkpoints leaves none, and what was appended would be one.
  const std::uint64_t end = b.size() - kEndBytes;
  if (b.number(end, 4) != kEnd || b.number(end + 20, 2) != 0) b.fail("no directory at its end: it is cut, or something was appended");
  Directory d{b.number(end + 16, 4), end, b.number(end + 10, 2)};
  std::uint64_t bytes = b.number(end + 12, 4);
  if (end >= kLocatorBytes + kEnd64Bytes && b.number(end - kLocatorBytes, 4) == kLocator64) {
    const std::uint64_t at = b.number(end - kLocatorBytes + 8, 8);
    if (at != end - kLocatorBytes - kEnd64Bytes || b.number(at, 4) != kEnd64) b.fail("its zip64 directory is not where its end says");
    d = {b.number(at + 48, 8), at, b.number(at + 32, 8)};
    bytes = b.number(at + 40, 8);
  }
  if (d.begin > d.end || bytes != d.end - d.begin) b.fail("its directory is not where its end says");
  if (d.entries > bytes / kCentralBytes) b.fail(fmt::format("{} entries in a directory of {} bytes", d.entries, bytes));
  return d;
}

// 64-bit sizes and offset where the header's own are all ones, in the order the format has them.
void read_zip64(const Bytes& b, std::uint64_t at, std::uint64_t n, std::uint64_t (&fields)[3]) {
  for (const std::uint64_t end = at + n; at + 4 <= end;) {
    const std::uint64_t id = b.number(at, 2), size = b.number(at + 2, 2);
    at += 4;
    if (size > end - at) b.fail("an extra field that leaves its header");
    if (id == 1) {
      std::uint64_t inside = at;
      for (auto& f : fields)
        if (f == kLarge) {
          if (inside + 8 > at + size) b.fail("a zip64 field that is too short");
          f = b.number(inside, 8);
          inside += 8;
        }
    }
    at += size;
  }
}

// One entry at `at` of the directory; gives its content, and moves `at` on.
ZipEntry read_entry(const Bytes& b, std::uint64_t& at, const Directory& d) {
  if (at > d.end - kCentralBytes || b.number(at, 4) != kCentral) b.fail(fmt::format("no entry at byte {} of its directory", at));
  const std::uint64_t flags = b.number(at + 8, 2), method = b.number(at + 10, 2);
  const std::uint64_t name_bytes = b.number(at + 28, 2), extra = b.number(at + 30, 2), comment = b.number(at + 32, 2);
  std::uint64_t fields[3] = {b.number(at + 24, 4), b.number(at + 20, 4), b.number(at + 42, 4)};  // full, packed, local header
  if (name_bytes + extra + comment > d.end - at - kCentralBytes) b.fail("an entry leaves its directory");
  read_zip64(b, at + kCentralBytes + name_bytes, extra, fields);
  ZipEntry e;
  e.name = b.chars(at + kCentralBytes, name_bytes);
  e.crc = static_cast<std::uint32_t>(b.number(at + 16, 4));
  const auto refuse = [&](const std::string& what) { b.fail(fmt::format("entry '{}' {}", e.name, what)); };
  if (std::any_of(e.name.begin(), e.name.end(), [](char c) { return c >= 0 && c < ' '; })) b.fail("an entry whose name is none");
  if ((flags & 1) != 0) refuse("is encrypted");
  if (method != 0) refuse(fmt::format("is compressed (method {}), which torch does not do", method));
  if (fields[0] != fields[1]) refuse("has two sizes");
  const std::uint64_t local = fields[2];
  if (local > d.begin || d.begin - local < kLocalBytes || b.number(local, 4) != kLocal) refuse("has no header where the directory says");
  const std::uint64_t local_name = b.number(local + 26, 2), local_extra = b.number(local + 28, 2);
  b.need(local + kLocalBytes, local_name + local_extra, "a local header");
  if (b.chars(local + kLocalBytes, local_name) != e.name) refuse("has another name in its own header");
  e.begin = local + kLocalBytes + local_name + local_extra;
  if (e.begin > d.begin || fields[0] > d.begin - e.begin) refuse(fmt::format("of {} bytes leaves the archive", fields[0]));
  e.end = e.begin + fields[0];
  at += kCentralBytes + name_bytes + extra + comment;
  return e;
}

}  // namespace

bool begins_as_zip(std::span<const std::byte> bytes) {
  return bytes.size() >= 4 && bytes[0] == std::byte{'P'} && bytes[1] == std::byte{'K'} && bytes[2] == std::byte{3} && bytes[3] == std::byte{4};
}

std::vector<ZipEntry> read_zip_directory(std::span<const std::byte> bytes, const std::string& where) {
  const Bytes b(bytes, where);
  const Directory d = find_directory(b);
  std::vector<ZipEntry> out;
  std::set<std::string> names;
  std::uint64_t at = d.begin;
  for (std::uint64_t i = 0; i < d.entries; ++i) {
    out.push_back(read_entry(b, at, d));
    if (!names.insert(out.back().name).second) b.fail(fmt::format("entry '{}' is there twice", out.back().name));
  }
  if (at != d.end) b.fail(fmt::format("{} bytes behind the last entry of its directory", d.end - at));
  std::vector<const ZipEntry*> sorted;
  for (const auto& e : out) sorted.push_back(&e);
  std::sort(sorted.begin(), sorted.end(), [](const auto* a, const auto* c) { return std::pair(a->begin, a->end) < std::pair(c->begin, c->end); });
  for (std::size_t i = 1; i < sorted.size(); ++i)
    if (sorted[i]->begin < sorted[i - 1]->end)
      b.fail(fmt::format("entries '{}' and '{}' overlap", sorted[i - 1]->name, sorted[i]->name));
  return out;
}

std::uint32_t zip_crc(std::uint32_t so_far, std::span<const std::byte> bytes) {
  return static_cast<std::uint32_t>(crc32_z(so_far, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

}  // namespace mt
