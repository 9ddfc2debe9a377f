#include "tokenizer/long_word_cache.h"

#include <algorithm>

namespace mt::tokenizer {

namespace {
constexpr std::size_t kFirstSlots = 1024;
constexpr std::size_t kMaxWordBytes = std::size_t{16} << 20, kMaxSideIds = std::size_t{4} << 20;
}  // namespace

LongWordCache::LongWordCache(std::size_t max_entries)
    : table_(kFirstSlots, Entry{}), mask_(kFirstSlots - 1), max_entries_(max_entries) {}

void LongWordCache::place(const Entry& entry) {
  std::size_t slot = entry.hash & mask_;
  while (table_[slot].hash != 0) slot = (slot + 1) & mask_;
  table_[slot] = entry;
}

void LongWordCache::insert(std::string_view word, std::uint64_t hash, std::span<const std::int32_t> ids) {
  if (used_ >= max_entries_ || words_.size() + word.size() > kMaxWordBytes) return;
  if (ids.size() > kInlineIds && side_.size() + ids.size() > kMaxSideIds) return;
  if ((used_ + 1) * 4 > table_.size() * 3) {
    std::vector<Entry> old(table_.size() * 2, Entry{});
    old.swap(table_);
    mask_ = table_.size() - 1;
    for (const Entry& entry : old) {
      if (entry.hash != 0) place(entry);
    }
  }
  Entry entry{hash,
              static_cast<std::uint32_t>(words_.size()),
              static_cast<std::uint16_t>(word.size()),
              static_cast<std::uint16_t>(ids.size()),
              {0, 0, 0}};
  words_.insert(words_.end(), word.begin(), word.end());
  if (ids.size() <= kInlineIds) {
    std::copy(ids.begin(), ids.end(), entry.ids);
  } else {
    entry.ids[0] = static_cast<std::int32_t>(side_.size());
    side_.insert(side_.end(), ids.begin(), ids.end());
  }
  place(entry);
  ++used_;
}

}  // namespace mt::tokenizer
