#pragma once
// 64-bit hashes: XXH3 (xxHash library) of bytes and names.
//
// Code: base/hash.cc. Tests: tests/base/hash_test.cc.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace mt {

// XXH3 64 of a byte range.   cost  bytes read once, over 10 GB/s
std::uint64_t xxh3(const void* bytes, std::size_t size);
inline std::uint64_t xxh3(std::string_view s) { return xxh3(s.data(), s.size()); }

// Sixteen lower-case hex digits, as manifests store it.
std::string hash_text(std::uint64_t hash);

// Streaming form: update any number of times, then digest.
class Xxh3Stream {
 public:
  Xxh3Stream();
  ~Xxh3Stream();
  Xxh3Stream(const Xxh3Stream&) = delete;
  Xxh3Stream& operator=(const Xxh3Stream&) = delete;
  void update(const void* bytes, std::size_t size);
  std::uint64_t digest() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace mt
