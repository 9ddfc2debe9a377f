// The files of a checkpoint of ours: what parses holds what its header promises.

#include <fcntl.h>
#include <unistd.h>

#include "base/error.h"
#include "ckpt/manifest.h"
#include "ckpt/packed_file.h"
#include "ckpt/safetensors.h"
#include "fuzz/fuzz_scratch.h"

namespace mt::fuzz {

namespace {

void answer(const Error& error) { MT_CHECK(!error.message().empty(), "an error without words"); }

}  // namespace

void manifest(Bytes input) {
  try {
    const auto m = parse_manifest({reinterpret_cast<const char*>(input.data()), input.size()}, "manifest.json");
    for (const auto& t : m.tensors) {
      MT_CHECK(m.find(t.name, t.kind) != nullptr, "{} is not found", t.name);
      std::uint64_t bytes = 0;
      for (const auto& s : t.shards) {
        MT_CHECK(s.end <= m.files[s.file].content_bytes(), "a shard of {} ends behind its file", t.name);
        bytes += s.end - s.begin;
      }
      MT_CHECK(bytes == t.bytes(), "{} has {} bytes in shards, {} in all", t.name, bytes, t.bytes());
    }
    const auto again = parse_manifest(manifest_text(m), "again");
    MT_CHECK(again.tensors.size() == m.tensors.size() && again.files.size() == m.files.size(), "another manifest came back");
  } catch (const Error& error) {
    answer(error);
  }
}

void safetensors_header(Bytes input) {
  if (input.size() < 4) return;
  const std::uint64_t data_bytes = input[0] | input[1] << 8 | input[2] << 16;
  const auto head = input.subspan(3);
  try {
    const auto h = parse_safetensors_header(std::as_bytes(head), head.size() + data_bytes, "file");
    for (const auto& t : h.tensors)
      MT_CHECK(t.begin <= t.end && h.data_start + t.end <= head.size() + data_bytes, "{} ends behind the file", t.name);
  } catch (const Error& error) {
    answer(error);
  }
}

void packed_file(Bytes input) {
  static const ScratchDirectory dir;
  const auto path = put(dir, "x.mtpack", input);
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  try {
    PackedFile file(fd, input.size(), path);
    const auto end = std::min<std::uint64_t>(file.plain_bytes(), 1 << 20);
    std::vector<std::byte> whole(end), part(end);
    file.read(0, end, whole.data());
    file.read(end / 3, end, part.data());
    MT_CHECK(std::equal(whole.begin() + static_cast<std::ptrdiff_t>(end / 3), whole.end(), part.begin()), "two reads differ");
  } catch (const Error& error) {
    answer(error);
  }
  ::close(fd);
}

}  // namespace mt::fuzz
