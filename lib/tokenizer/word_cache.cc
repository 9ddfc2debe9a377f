#include "tokenizer/word_cache.h"

#include <algorithm>

namespace mt::tokenizer {

namespace {
constexpr std::size_t kFirstSlots = 2048;
constexpr std::size_t kMaxSideIds = std::size_t{1} << 24;
}  // namespace

WordCache::WordCache(std::size_t max_entries)
    : table_(kFirstSlots, Entry{}), mask_(kFirstSlots - 1), max_entries_(max_entries) {}

void WordCache::place(const Entry& entry) {
  std::size_t slot = hash_of(entry.key) & mask_;
  while (table_[slot].key.high != 0) slot = (slot + 1) & mask_;
  table_[slot] = entry;
}

void WordCache::grow() {
  std::vector<Entry> old(table_.size() * 2, Entry{});
  old.swap(table_);
  mask_ = table_.size() - 1;
  for (const Entry& entry : old) {
    if (entry.key.high != 0) place(entry);
  }
}

void WordCache::insert(Key key, std::uint64_t hash, std::span<const std::int32_t> ids) {
  if (used_ >= max_entries_) return;
  if (ids.size() > kInlineIds && side_.size() + ids.size() > kMaxSideIds) return;
  if ((used_ + 1) * 4 > table_.size() * 3) grow();
  Entry entry{key, static_cast<std::uint32_t>(ids.size()), {0, 0, 0}};
  if (ids.size() <= kInlineIds) {
    std::copy(ids.begin(), ids.end(), entry.ids);
  } else {
    entry.ids[0] = static_cast<std::int32_t>(side_.size());
    side_.insert(side_.end(), ids.begin(), ids.end());
  }
  std::size_t slot = hash & mask_;
  while (table_[slot].key.high != 0) slot = (slot + 1) & mask_;
  table_[slot] = entry;
  ++used_;
}

}  // namespace mt::tokenizer
