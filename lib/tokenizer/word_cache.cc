#include "tokenizer/word_cache.h"

#include <algorithm>
#include <utility>

namespace mt::tokenizer {

namespace {
constexpr std::size_t kFirstLines = 1024, kMostLines = std::size_t{1} << 20;
constexpr std::size_t kSmallLines = std::size_t{1} << 14;  // below that it grows fourfold, since moving is the work
constexpr std::size_t kMaxSideIds = std::size_t{1} << 21;
constexpr std::uint64_t kInSideArray = WordCache::kInlineIds + 1;
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

void WordCache::insert(Key key, std::uint64_t hash, std::span<const std::int32_t> ids) {
  if (used_ >= max_entries_) return;
  if (ids.size() > kInlineIds && side_.size() + ids.size() > kMaxSideIds) return;
  if (used_ > mask_ && mask_ + 1 < kMostLines) grow();  // an entry a line
  Entry entry{key, {}};
  entry.key.high |= std::min(ids.size(), std::size_t{kInSideArray}) << kCountBit;
  if (ids.size() <= kInlineIds) {
    std::copy(ids.begin(), ids.end(), entry.ids);
  } else {
    entry.ids[0] = static_cast<std::int32_t>(side_.size());
    entry.ids[1] = static_cast<std::int32_t>(ids.size());
    side_.insert(side_.end(), ids.begin(), ids.end());
  }
  place(entry, hash);
  ++used_;
}

}  // namespace mt::tokenizer
