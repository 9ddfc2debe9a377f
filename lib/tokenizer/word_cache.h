#pragma once
// From the bytes of a word to its ids: a hash table private to one thread, so that a word is merged once.
//
// Open addressing by cache lines of two entries: up to 15 bytes of key stand in the entry itself; longer words have a
// shelf of their own (tokenizer/long_word_cache.h). Up to 4 ids stand in the entry, more in a side array.
// The table grows until it holds `max_entries`, then takes no new words: memory is bounded.
// Code: tokenizer/word_cache.cc. Tests: tests/tokenizer/word_cache_test.cc.

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "tokenizer/table_memory.h"

namespace mt::tokenizer {

// The bytes, of sixteen, that belong to a word of so many.
struct WordMask {
  std::uint64_t low = 0, high = 0;
};
inline constexpr std::array<WordMask, 16> kWordMasks = [] {
  std::array<WordMask, 16> masks;
  for (std::size_t size = 0; size < masks.size(); ++size) {
    for (std::size_t byte = 0; byte < size; ++byte) {
      (byte < 8 ? masks[size].low : masks[size].high) |= std::uint64_t{0xFF} << (8 * (byte % 8));
    }
  }
  return masks;
}();

class WordCache {
 public:
  static constexpr std::size_t kMaxKeyBytes = 15;
  static constexpr std::size_t kInlineIds = 4;

  // A key of up to 15 bytes and, in the last byte, its length and what else tells keys apart. Entries keep the count of
  // their ids there too.
  struct Key {
    std::uint64_t low, high;
    friend bool operator==(const Key&, const Key&) = default;
  };

  // cost  64 KiB at first; at most 64 MiB (with the default) and 8 MiB of side array
  explicit WordCache(std::size_t max_entries = std::size_t{3} << 19);

  // The key of a word.   needs  1 to 15 bytes. Reads only the word's own bytes.
  static Key key_of(const char* word, std::size_t size) {
    Key key{0, 0};
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
    key.high |= static_cast<std::uint64_t>(size) << kSizeBit;
    return key;
  }
  // The same where 16 bytes from the word on can be read: no branch on the size, which is hard to foretell.
  static Key key_of_readable(const char* word, std::size_t size) {
    Key key;
    std::memcpy(&key.low, word, 8);
    std::memcpy(&key.high, word + 8, 8);
    key.low &= kWordMasks[size].low;
    key.high = (key.high & kWordMasks[size].high) | static_cast<std::uint64_t>(size) << kSizeBit;
    return key;
  }
  // The key of the same bytes as a part of a word, whose ids may be others.
  static Key part_key(Key key) { return {key.low, key.high | std::uint64_t{1} << 63}; }
  static std::uint64_t hash_of(Key key) {
    std::uint64_t h = (key.low ^ (key.high * 0x9E3779B97F4A7C15ull)) * 0xD6E8FEB86659FD93ull;
    return h ^ (h >> 32);
  }

  struct Entry {
    Key key;                       // high == 0: empty
    std::int32_t ids[kInlineIds];  // count() > 4: the place in the side array, and how many; pending(): a number
    std::uint32_t count() const { return static_cast<std::uint32_t>(key.high >> kCountBit) & 7; }
    bool pending() const { return count() == kPending; }
  };

  // Bring the entry's line near.
  void prefetch(std::uint64_t hash) const { __builtin_prefetch(entries() + 2 * (hash & mask_)); }

  // The entry, or null. Valid until the next insert.
  const Entry* find(Key key, std::uint64_t hash) const {
    for (std::size_t line = hash & mask_;; line = (line + 1) & mask_) {
      const Entry* two = entries() + 2 * line;
      if (differs(two[0], key) == 0) [[likely]] return two;  // the commoner words are there first
      if (differs(two[1], key) == 0) return two + 1;
      if (two[1].key.high == 0) return nullptr;
    }
  }
  // All ids of an entry.
  std::span<const std::int32_t> ids(const Entry& entry) const {
    if (entry.count() <= kInlineIds) return {entry.ids, entry.count()};
    return {side_.data() + static_cast<std::uint32_t>(entry.ids[0]), static_cast<std::uint32_t>(entry.ids[1])};
  }

  // Remember a word that find did not know. Does nothing when full.
  void insert(Key key, std::uint64_t hash, std::span<const std::int32_t> ids);

  // The same in two steps, so that a word met twice before its ids are known is known for new once: find gives a pending
  // entry with the caller's number until settle brings the ids, or forget takes the word out again.
  void insert_pending(Key key, std::uint64_t hash, std::int32_t number);
  void settle(Key key, std::uint64_t hash, std::span<const std::int32_t> ids);
  void forget(Key key, std::uint64_t hash);

  std::size_t size() const { return used_; }

 private:
  static constexpr int kSizeBit = 56, kCountBit = 60;
  static constexpr std::uint32_t kPending = kInlineIds + 2;
  static constexpr std::uint64_t kCountMask = std::uint64_t{7} << kCountBit;
  static std::uint64_t differs(const Entry& entry, Key key) {
    return (entry.key.low ^ key.low) | ((entry.key.high ^ key.high) & ~kCountMask);
  }
  Entry* entries() const { return static_cast<Entry*>(memory_.data()); }
  void place(const Entry& entry, std::uint64_t hash);
  bool write_ids(Entry& entry, std::span<const std::int32_t> ids);
  Entry* pending(Key key, std::uint64_t hash);
  void grow();
  TableMemory memory_;
  std::vector<std::int32_t> side_;
  std::size_t mask_ = 0, used_ = 0, max_entries_ = 0;  // mask_: of lines
};

}  // namespace mt::tokenizer
