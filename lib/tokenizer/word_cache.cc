#include "tokenizer/word_cache.h"

#include <algorithm>
#include <utility>

namespace mt::tokenizer {

namespace {
constexpr std::size_t kFirstLines = 1024, kMostLines = std::size_t{1} << 20;
constexpr std::size_t kSmallLines = std::size_t{1} << 14;  // below that it grows fourfold, since moving is the work
constexpr std::size_t kMaxSideIds = std::size_t{1} << 21;
constexpr std::uint64_t kInSideArray = WordCache::kInlineIds + 1;
constexpr WordCache::Key kNoWord = {0, std::uint64_t{1} << 63};  // of no bytes: a place that is taken and never found
}  // namespace

WordCache::WordCache(std::size_t max_entries)
    : memory_(kFirstLines * 2 * sizeof(Entry)),
      mask_(kFirstLines - 1),
      max_entries_(std::min(max_entries, kMostLines * 2 / 4 * 3)) {
  static_assert(sizeof(Entry) == 32);
}

void WordCache::place(const Entry& entry, std::uint64_t hash) {
  Entry* const all = entries();
  std::size_t line = hash & mask_;
  while (all[2 * line + 1].key.high != 0) line = (line + 1) & mask_;
  all[2 * line + (all[2 * line].key.high != 0 ? 1 : 0)] = entry;
}

void WordCache::grow() {
  const TableMemory old = std::move(memory_);
  const std::size_t entries = 2 * (mask_ + 1);
  const std::size_t lines = (mask_ + 1) * (mask_ < kSmallLines ? 4 : 2);
  memory_ = TableMemory(lines * 2 * sizeof(Entry));
  mask_ = lines - 1;
  for (const Entry& entry : std::span(static_cast<const Entry*>(old.data()), entries)) {
    if (entry.key.high == 0) continue;
    place(entry, hash_of({entry.key.low, entry.key.high & ~kCountMask}));
  }
}

void WordCache::insert_pending(Key key, std::uint64_t hash, std::int32_t number) {
  if (used_ >= max_entries_) return;
  if (used_ > mask_ && mask_ + 1 < kMostLines) grow();  // an entry a line
  Entry entry{key, {number}};
  entry.key.high |= std::uint64_t{kPending} << kCountBit;
  place(entry, hash);
  ++used_;
}

WordCache::Entry* WordCache::pending(Key key, std::uint64_t hash) {
  const Entry* entry = find(key, hash);
  return entry != nullptr && entry->pending() ? const_cast<Entry*>(entry) : nullptr;
}

// False: no room.
bool WordCache::write_ids(Entry& entry, std::span<const std::int32_t> ids) {
  if (ids.size() > kInlineIds && side_.size() + ids.size() > kMaxSideIds) return false;
  entry.key.high = (entry.key.high & ~kCountMask) | std::min(ids.size(), std::size_t{kInSideArray}) << kCountBit;
  if (ids.size() <= kInlineIds) {
    std::copy(ids.begin(), ids.end(), entry.ids);
    return true;
  }
  entry.ids[0] = static_cast<std::int32_t>(side_.size());
  entry.ids[1] = static_cast<std::int32_t>(ids.size());
  side_.insert(side_.end(), ids.begin(), ids.end());
  return true;
}

void WordCache::settle(Key key, std::uint64_t hash, std::span<const std::int32_t> ids) {
  Entry* const entry = pending(key, hash);
  if (entry != nullptr && !write_ids(*entry, ids)) entry->key = kNoWord;
}

void WordCache::forget(Key key, std::uint64_t hash) {
  if (Entry* const entry = pending(key, hash)) entry->key = kNoWord;
}

void WordCache::insert(Key key, std::uint64_t hash, std::span<const std::int32_t> ids) {
  insert_pending(key, hash, 0);
  settle(key, hash, ids);
}

}  // namespace mt::tokenizer
