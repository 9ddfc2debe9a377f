#include "tokenizer/prefix_trie.h"

#include <algorithm>

#include "base/error.h"

namespace mt::tokenizer {

// Places nodes depth by depth over the sorted keys. Free cells are a ring; blocks that are nearly full leave it, so a
// search stays short.
struct PrefixTrie::Builder {
  std::vector<Cell>& cells;
  std::vector<std::uint32_t> next, previous;  // of the ring; kFree: not in it
  std::uint32_t first = kFree;
  static constexpr std::size_t kOpenBlocks = 16;

  explicit Builder(std::vector<Cell>& all) : cells(all) {
    cells.clear();
    grow();
    take(kRoot);
    cells[kRoot].parent = kRoot;
  }

  void grow() {
    const auto begin = static_cast<std::uint32_t>(cells.size());
    cells.resize(cells.size() + 256);
    next.resize(cells.size(), kFree);
    previous.resize(cells.size(), kFree);
    for (std::uint32_t i = begin; i < begin + 256; ++i) link(i);
    if (begin >= kOpenBlocks * 256) {
      const std::uint32_t closing = begin - static_cast<std::uint32_t>(kOpenBlocks * 256);
      for (std::uint32_t i = closing; i < closing + 256; ++i) unlink(i);
    }
  }
  void link(std::uint32_t i) {
    if (first == kFree) {
      first = next[i] = previous[i] = i;
      return;
    }
    next[i] = first;
    previous[i] = previous[first];
    next[previous[i]] = i;
    previous[first] = i;
  }
  void unlink(std::uint32_t i) {
    if (next[i] == kFree) return;
    if (next[i] == i) {
      first = kFree;
    } else {
      next[previous[i]] = next[i];
      previous[next[i]] = previous[i];
      if (first == i) first = next[i];
    }
    next[i] = previous[i] = kFree;
  }
  void take(std::uint32_t i) { unlink(i); }

  bool fits(std::uint32_t base, const std::vector<unsigned char>& bytes) const {
    return std::all_of(bytes.begin(), bytes.end(), [&](unsigned char b) {
      return (base ^ b) != kRoot && cells[base ^ b].parent == kFree;
    });
  }
  std::uint32_t place_for(const std::vector<unsigned char>& bytes) {
    for (;;) {
      if (first != kFree) {
        std::uint32_t cell = first;
        do {
          const std::uint32_t base = cell ^ bytes.front();
          if (fits(base, bytes)) return base;
          cell = next[cell];
        } while (cell != first);
      }
      MT_CHECK(cells.size() < (std::size_t{1} << 31), "{} cells", cells.size());
      grow();
    }
  }
};

PrefixTrie::PrefixTrie(std::vector<Key> keys) {
  std::erase_if(keys, [](const Key& key) { return key.first.empty(); });
  std::stable_sort(keys.begin(), keys.end(), [](const Key& a, const Key& b) { return a.first < b.first; });
  Builder builder(cells_);
  struct Range {
    std::uint32_t node;
    std::size_t begin, end, depth;
  };
  std::vector<Range> todo{{kRoot, 0, keys.size(), 0}};
  std::vector<unsigned char> bytes;
  std::vector<std::size_t> starts;
  while (!todo.empty()) {
    Range range = todo.back();
    todo.pop_back();
    while (range.begin < range.end && keys[range.begin].first.size() == range.depth) {
      std::int32_t& value = cells_[range.node].value;
      if (value < 0) value = keys[range.begin].second;
      ++range.begin;
    }
    if (range.begin == range.end) continue;
    bytes.clear();
    starts.clear();
    for (std::size_t i = range.begin; i < range.end; ++i) {
      const auto byte = static_cast<unsigned char>(keys[i].first[range.depth]);
      if (!bytes.empty() && bytes.back() == byte) continue;
      bytes.push_back(byte);
      starts.push_back(i);
    }
    starts.push_back(range.end);
    const std::uint32_t base = builder.place_for(bytes);
    cells_[range.node].base = base;
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      const std::uint32_t child = base ^ bytes[i];
      builder.take(child);
      cells_[child].parent = range.node;
      todo.push_back({child, starts[i], starts[i + 1], range.depth + 1});
    }
  }
}

PrefixTrie::Match PrefixTrie::longest(std::string_view text) const {
  Match best;
  std::uint32_t node = kRoot;
  for (std::size_t i = 0; i < text.size() && step(node, text[i]); ++i) {
    if (value(node) >= 0) best = {value(node), i + 1};
  }
  return best;
}

std::int32_t PrefixTrie::find(std::string_view key) const {
  std::uint32_t node = kRoot;
  for (const char byte : key) {
    if (!step(node, byte)) return -1;
  }
  return key.empty() ? -1 : value(node);
}

}  // namespace mt::tokenizer
