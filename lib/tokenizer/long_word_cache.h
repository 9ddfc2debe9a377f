#pragma once
// The word cache's shelf for words of 16 to 128 bytes: long ones of English, ordinary ones of Russian or Hindi.
//
// Open addressing, 32-byte entries of which two share a cache line; the words themselves lie one after the other in an
// arena. Up to 3 ids stand in the entry, more in a side array. Entries and arena are bounded; when they are full, nothing
// new is taken in. Code: tokenizer/long_word_cache.cc. Tests: tests/tokenizer/word_cache_test.cc.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

namespace mt::tokenizer {

class LongWordCache {
 public:
  static constexpr std::size_t kMinBytes = 16, kMaxBytes = 128;
  static constexpr std::size_t kInlineIds = 3;

  // cost  32 KiB at first; at most 16 MiB of entries, 16 MiB of words, 16 MiB of ids
  explicit LongWordCache(std::size_t max_entries = std::size_t{3} << 17);

  // needs  16 bytes or more
  static std::uint64_t hash_of(std::string_view word) {
    std::uint64_t hash = word.size() * 0x9E3779B97F4A7C15ull;
    const auto add = [&hash](const char* at) {
      std::uint64_t part = 0;
      std::memcpy(&part, at, 8);
      hash = (hash ^ part) * 0xD6E8FEB86659FD93ull;
      hash ^= hash >> 32;
    };
    for (std::size_t i = 0; i + 8 < word.size(); i += 8) add(word.data() + i);
    add(word.data() + word.size() - 8);
    return hash == 0 ? 1 : hash;
  }

  struct Entry {
    std::uint64_t hash;            // 0: empty
    std::uint32_t place;           // of the word in the arena
    std::uint16_t size, count;     // of the word, of its ids
    std::int32_t ids[kInlineIds];  // count > 3: ids[0] is the place in the side array
  };

  void prefetch(std::uint64_t hash) const { __builtin_prefetch(&table_[hash & mask_]); }

  // The entry, or null. Valid until the next insert.
  const Entry* find(std::string_view word, std::uint64_t hash) const {
    for (std::size_t slot = hash & mask_; table_[slot].hash != 0; slot = (slot + 1) & mask_) {
      const Entry& entry = table_[slot];
      if (entry.hash == hash && entry.size == word.size() &&
          std::memcmp(words_.data() + entry.place, word.data(), word.size()) == 0) {
        return &entry;
      }
    }
    return nullptr;
  }
  std::span<const std::int32_t> ids(const Entry& entry) const {
    if (entry.count <= kInlineIds) return {entry.ids, entry.count};
    return {side_.data() + static_cast<std::uint32_t>(entry.ids[0]), entry.count};
  }

  // Remember a word that find did not know.   needs  kMinBytes to kMaxBytes
  void insert(std::string_view word, std::uint64_t hash, std::span<const std::int32_t> ids);

  std::size_t size() const { return used_; }

 private:
  void place(const Entry& entry);
  std::vector<Entry> table_;
  std::vector<char> words_;
  std::vector<std::int32_t> side_;
  std::size_t mask_ = 0, used_ = 0, max_entries_ = 0;
};

}  // namespace mt::tokenizer
