#pragma once
// From the bytes of a word to its ids: a hash table private to one thread, so that a word is merged once.
//
// Open addressing, 32-byte entries on cache-line pairs: up to 15 bytes of key stand in the entry itself; longer words
// have a shelf of their own (tokenizer/long_word_cache.h). Up to 3 ids stand in the entry, more in a side array.
// The table doubles at 3/4 load until `max_entries`, then stops taking new words: memory is bounded.
// Code: tokenizer/word_cache.cc. Tests: tests/tokenizer/word_cache_test.cc.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

namespace mt::tokenizer {

class WordCache {
 public:
  static constexpr std::size_t kMaxKeyBytes = 15;
  static constexpr std::size_t kInlineIds = 3;

  // A key of up to 15 bytes and its length, as two words. Comparing keys is comparing two words.
  struct Key {
    std::uint64_t low = 0, high = 0;
    friend bool operator==(const Key&, const Key&) = default;
  };

  // cost  64 KiB at first; at most 32 bytes x 2^22 = 128 MiB plus ids of long words
  explicit WordCache(std::size_t max_entries = std::size_t{1} << 21);

  // The key of a word.   needs  1 to 15 bytes. Reads only the word's own bytes.
  static Key key_of(const char* word, std::size_t size) {
    Key key;
    if (size >= 8) {
      std::memcpy(&key.low, word, 8);
      std::uint64_t tail = 0;  // the last 8 bytes, shifted so that the overlap drops out
      std::memcpy(&tail, word + size - 8, 8);
      key.high = size == 8 ? 0 : tail >> (8 * (16 - size));
    } else if (size >= 4) {
      std::uint32_t head = 0, tail = 0;
      std::memcpy(&head, word, 4);
      std::memcpy(&tail, word + size - 4, 4);
      key.low = head | (static_cast<std::uint64_t>(tail) << (8 * (size - 4)));
    } else {
      for (std::size_t i = 0; i < size; ++i) {
        key.low |= static_cast<std::uint64_t>(static_cast<unsigned char>(word[i])) << (8 * i);
      }
    }
    key.high |= static_cast<std::uint64_t>(size) << 56;
    return key;
  }
  // The same where 16 bytes from the word on can be read: no branch on the size, which is hard to foretell.
  static Key key_of_readable(const char* word, std::size_t size) {
    Key key;
    std::memcpy(&key.low, word, 8);
    std::memcpy(&key.high, word + 8, 8);
    const std::uint64_t bits = size * 8, all = ~std::uint64_t{0};
    const std::uint64_t low = bits >= 64 ? all : ~(all << (bits & 63)), high = bits > 64 ? ~(all << (bits & 63)) : 0;
    key.low &= low;
    key.high = (key.high & high) | static_cast<std::uint64_t>(size) << 56;
    return key;
  }
  static std::uint64_t hash_of(Key key) {
    std::uint64_t h = (key.low ^ (key.high * 0x9E3779B97F4A7C15ull)) * 0xD6E8FEB86659FD93ull;
    return h ^ (h >> 32);
  }

  struct Entry {
    Key key;                       // high == 0: empty
    std::uint32_t count;           // ids of the word
    std::int32_t ids[kInlineIds];  // count > 3: ids[0] is the place in the side array
  };

  // Bring the entry's line near.
  void prefetch(std::uint64_t hash) const { __builtin_prefetch(&table_[hash & mask_]); }

  // The entry, or null. Valid until the next insert.
  const Entry* find(Key key, std::uint64_t hash) const {
    for (std::size_t slot = hash & mask_;; slot = (slot + 1) & mask_) {
      const Entry& entry = table_[slot];
      if (entry.key == key) return &entry;
      if (entry.key.high == 0) return nullptr;
    }
  }
  // All ids of an entry.
  std::span<const std::int32_t> ids(const Entry& entry) const {
    if (entry.count <= kInlineIds) return {entry.ids, entry.count};
    return {side_.data() + static_cast<std::uint32_t>(entry.ids[0]), entry.count};
  }

  // Remember a word that find did not know. Does nothing when full.
  void insert(Key key, std::uint64_t hash, std::span<const std::int32_t> ids);

  std::size_t size() const { return used_; }

 private:
  void place(const Entry& entry);
  void grow();
  std::vector<Entry> table_;
  std::vector<std::int32_t> side_;
  std::size_t mask_ = 0, used_ = 0, max_entries_ = 0;
};

}  // namespace mt::tokenizer
