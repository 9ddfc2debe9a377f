#include "data/bpe.h"

#include <algorithm>
#include <bit>
#include <queue>

#include "base/error.h"

namespace mt::data {

namespace {

constexpr std::size_t kShort = 64;
constexpr int kRankBits = 22, kIdBits = 21;
constexpr std::uint64_t kEmpty = ~std::uint64_t{0};

std::uint64_t pair_of(std::int32_t left, std::int32_t right) {
  return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << kIdBits | static_cast<std::uint32_t>(right);
}

std::uint64_t mix(std::uint64_t pair) {
  pair *= 0x9E3779B97F4A7C15ull;
  return pair >> 32;
}

}  // namespace

MergeTable::MergeTable(std::span<const Merge> merges, std::span<const std::uint32_t> order)
    : order_(order.begin(), order.end()) {
  MT_CHECK(order.empty() || order.size() == merges.size(), "{} orders of {} merges", order.size(), merges.size());
  table_.assign(std::bit_ceil(merges.size() * 2 + 2), kEmpty);
  mask_ = table_.size() - 1;
  results_.reserve(merges.size());
  if (merges.size() >= std::size_t{1} << kRankBits) {
    throw Error(Code::data, fmt::format("{} merges: wanted below 2^{}", merges.size(), kRankBits));
  }
  for (const Merge& m : merges) {
    if (std::max(m.left, m.right) >= 1 << kIdBits) {
      throw Error(Code::data,
                  fmt::format("token id {} in a merge: wanted below 2^{}", std::max(m.left, m.right), kIdBits));
    }
    const std::uint64_t pair = pair_of(m.left, m.right);
    std::uint64_t slot = mix(pair) & mask_;
    while (table_[slot] != kEmpty && table_[slot] >> kRankBits != pair) slot = (slot + 1) & mask_;
    table_[slot] = pair << kRankBits | results_.size();
    results_.push_back(m.result);
  }
}

std::uint32_t MergeTable::rank_of(std::int32_t left, std::int32_t right) const {
  const std::uint64_t pair = pair_of(left, right);
  std::uint64_t slot = mix(pair) & mask_;
  while (table_[slot] >> kRankBits != pair && table_[slot] != kEmpty) slot = (slot + 1) & mask_;
  return table_[slot] == kEmpty ? kNoRank : static_cast<std::uint32_t>(table_[slot] & ((1u << kRankBits) - 1));
}

void MergeTable::merge(std::vector<std::int32_t>& symbols) const {
  if (table_.empty() || symbols.size() < 2) return;
  if (order_.empty()) {
    symbols.size() < kShort ? merge_short<false>(symbols) : merge_long<false>(symbols);
  } else {
    symbols.size() < kShort ? merge_short<true>(symbols) : merge_long<true>(symbols);
  }
}

template <bool ordered>
void MergeTable::merge_short(std::vector<std::int32_t>& symbols) const {
  std::uint32_t ranks[kShort];
  std::int32_t* s = symbols.data();
  std::size_t n = symbols.size();
  const auto look = [&](std::size_t i) { ranks[i] = rank_of(s[i], s[i + 1]); };
  for (std::size_t i = 0; i + 1 < n; ++i) look(i);
  while (n > 1) {
    std::size_t best = 0;
    for (std::size_t i = 1; i + 1 < n; ++i) {
      if (rank_at<ordered>(ranks[i]) < rank_at<ordered>(ranks[best])) best = i;
    }
    if (ranks[best] == kNoRank) break;
    s[best] = results_[ranks[best]];
    for (std::size_t i = best + 1; i + 1 < n; ++i) s[i] = s[i + 1];
    for (std::size_t i = best + 1; i + 2 < n; ++i) ranks[i] = ranks[i + 1];
    --n;
    if (best + 1 < n) look(best);
    if (best > 0) look(best - 1);
  }
  symbols.resize(n);
}

template <bool ordered>
void MergeTable::merge_long(std::vector<std::int32_t>& symbols) const {
  struct Candidate {
    std::uint32_t rank;
    std::uint32_t place;  // of the left symbol
    std::uint32_t merge;  // its place in the list
    bool operator>(const Candidate& o) const { return rank != o.rank ? rank > o.rank : place > o.place; }
  };
  const auto n = static_cast<std::uint32_t>(symbols.size());
  std::vector<std::uint32_t> next(n), previous(n);
  for (std::uint32_t i = 0; i < n; ++i) {
    next[i] = i + 1;
    previous[i] = i - 1;  // wraps to the largest value at 0: no neighbour
  }
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> queue;
  const auto push = [&](std::uint32_t i) {
    const std::uint32_t merge = rank_of(symbols[i], symbols[next[i]]);
    if (merge != kNoRank) queue.push({rank_at<ordered>(merge), i, merge});
  };
  for (std::uint32_t i = 0; i + 1 < n; ++i) push(i);
  while (!queue.empty()) {
    const Candidate top = queue.top();
    queue.pop();
    const std::uint32_t i = top.place;
    if (symbols[i] < 0 || next[i] >= n) continue;  // swallowed, or last
    if (rank_of(symbols[i], symbols[next[i]]) != top.merge) continue;
    const std::uint32_t gone = next[i];
    symbols[i] = results_[top.merge];
    symbols[gone] = -1;
    next[i] = next[gone];
    if (next[i] < n) {
      previous[next[i]] = i;
      push(i);
    }
    if (previous[i] < n) push(previous[i]);
  }
  symbols.erase(std::remove_if(symbols.begin(), symbols.end(), [](std::int32_t s) { return s < 0; }), symbols.end());
}

}  // namespace mt::data
