#include "tokenizer/bpe.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <queue>

#include "base/error.h"

namespace mt::tokenizer {

namespace {

constexpr std::int32_t kLast = std::numeric_limits<std::int32_t>::max();
constexpr int kRankBits = 22, kIdBits = 21;
constexpr std::uint64_t kEmpty = ~std::uint64_t{0};

std::uint64_t pair_of(std::int32_t left, std::int32_t right) {
  return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << kIdBits | static_cast<std::uint32_t>(right);
}

std::uint64_t mix(std::uint64_t pair) { return pair * 0x9E3779B97F4A7C15ull; }

}  // namespace

MergeTable::MergeTable(std::span<const Merge> merges, std::span<const std::uint32_t> order)
    : order_(order.begin(), order.end()) {
  MT_CHECK(order.empty() || order.size() == merges.size(), "{} orders of {} merges", order.size(), merges.size());
  table_.assign(std::bit_ceil(merges.size() * 2 + 2), kEmpty);
  mask_ = table_.size() - 1;
  const std::size_t filter_bits = std::bit_ceil(std::max<std::size_t>(merges.size(), 64)) * 8;
  filter_.assign(filter_bits / 64, 0);
  filter_shift_ = 64 - std::countr_zero(filter_bits);
  results_.reserve(merges.size());
  if (merges.size() >= std::size_t{1} << kRankBits) {
    throw Error(Code::data, fmt::format("{} merges: wanted below 2^{}", merges.size(), kRankBits));
  }
  for (const Merge& m : merges) {
    if (std::max(m.left, m.right) >= 1 << kIdBits) {
      throw Error(Code::data,
                  fmt::format("token id {} in a merge: wanted below 2^{}", std::max(m.left, m.right), kIdBits));
    }
    const std::uint64_t pair = pair_of(m.left, m.right), hash = mix(pair);
    std::uint64_t slot = hash >> 32 & mask_;
    filter_[hash >> filter_shift_ >> 6] |= std::uint64_t{1} << (hash >> filter_shift_ & 63);
    while (table_[slot] != kEmpty && table_[slot] >> kRankBits != pair) slot = (slot + 1) & mask_;
    table_[slot] = pair << kRankBits | results_.size();
    results_.push_back(m.result);
  }
}

std::uint32_t MergeTable::rank_of(std::int32_t left, std::int32_t right) const {
  const std::uint64_t pair = pair_of(left, right), hash = mix(pair), bit = hash >> filter_shift_;
  if ((filter_[bit >> 6] >> (bit & 63) & 1) == 0) return kNoRank;
  std::uint64_t slot = hash >> 32 & mask_;
  while (table_[slot] >> kRankBits != pair && table_[slot] != kEmpty) slot = (slot + 1) & mask_;
  return table_[slot] == kEmpty ? kNoRank : static_cast<std::uint32_t>(table_[slot] & ((1u << kRankBits) - 1));
}

void MergeTable::prefetch(std::int32_t left, std::int32_t right) const {
  __builtin_prefetch(&table_[mix(pair_of(left, right)) >> 32 & mask_]);
}

void MergeTable::set_bytes(std::span<const std::int32_t, 256> ids) {
  std::copy(ids.begin(), ids.end(), byte_ids_);
  byte_pairs_.assign(256 * 256, kNoRank);
  for (std::size_t left = 0; left < 256; ++left) {
    for (std::size_t right = 0; right < 256; ++right) {
      if (ids[left] < 0 || ids[right] < 0) continue;
      byte_pairs_[left << 8 | right] = rank_of(ids[left], ids[right]);
    }
  }
}

void MergeTable::merge(std::vector<std::int32_t>& symbols) const {
  if (table_.empty() || symbols.size() < 2) return;
  if (symbols.size() > Row::kMost) return order_.empty() ? merge_long<false>(symbols) : merge_long<true>(symbols);
  Row row;
  for (std::size_t i = 0; i + 1 < symbols.size(); ++i) row.merge[i] = rank_of(symbols[i], symbols[i + 1]);
  order_.empty() ? merge_row<false>(row, symbols) : merge_row<true>(row, symbols);
}

void MergeTable::merge_bytes(std::string_view piece, std::vector<std::int32_t>& symbols) const {
  const auto* bytes = reinterpret_cast<const unsigned char*>(piece.data());
  symbols.resize(piece.size());
  for (std::size_t i = 0; i < piece.size(); ++i) symbols[i] = byte_ids_[bytes[i]];
  if (symbols.size() < 2 || symbols.size() > Row::kMost) return merge(symbols);
  Row row;
  for (std::size_t i = 0; i + 1 < symbols.size(); ++i) row.merge[i] = byte_pairs_[bytes[i] << 8 | bytes[i + 1]];
  order_.empty() ? merge_row<false>(row, symbols) : merge_row<true>(row, symbols);
}

// The least rank is looked for among the least of each sixteen places, which a merge changes in three of them at most;
// symbols stay where they are and know their neighbours.
template <bool ordered>
void MergeTable::merge_row(Row& row, std::vector<std::int32_t>& symbols) const {
  constexpr std::size_t kBlock = Row::kBlock;
  std::int32_t* s = symbols.data();
  const std::size_t n = symbols.size(), blocks = (n + kBlock - 1) / kBlock;
  for (std::size_t i = 0; i < blocks * kBlock; ++i) row.rank[i] = kLast;
  for (std::size_t i = 0; i + 1 < n; ++i) {
    if (row.merge[i] != kNoRank) row.rank[i] = static_cast<std::int32_t>(rank_at<ordered>(row.merge[i]));
  }
  for (std::size_t i = 0; i < n; ++i) {
    row.next[i] = static_cast<std::uint16_t>(i + 1);
    row.previous[i] = static_cast<std::uint16_t>(i - 1);  // wraps at 0: no neighbour
  }
  const auto settle = [&row](std::size_t block) {
    const std::int32_t* rank = row.rank + block * kBlock;
    std::int32_t least = rank[0];
    for (std::size_t i = 1; i < kBlock; ++i) least = std::min(least, rank[i]);
    row.least[block] = least;
  };
  const auto look = [&](std::size_t i, std::size_t right) {
    row.merge[i] = rank_of(s[i], s[right]);
    row.rank[i] = row.merge[i] == kNoRank ? kLast : static_cast<std::int32_t>(rank_at<ordered>(row.merge[i]));
  };
  for (std::size_t block = 0; block < blocks; ++block) settle(block);
  for (;;) {
    std::size_t block = 0;
    for (std::size_t b = 1; b < blocks; ++b) block = row.least[b] < row.least[block] ? b : block;
    const std::int32_t least = row.least[block];
    if (least == kLast) break;
    std::size_t i = block * kBlock;
    while (row.rank[i] != least) ++i;
    const std::size_t gone = row.next[i], right = row.next[gone], left = row.previous[i];
    s[i] = results_[row.merge[i]];
    s[gone] = -1;
    row.next[i] = static_cast<std::uint16_t>(right);
    row.rank[gone] = row.rank[i] = kLast;
    if (left < n) prefetch(s[left], s[i]);
    if (right < n) {
      row.previous[right] = static_cast<std::uint16_t>(i);
      look(i, right);
    }
    if (left < n) look(left, i);
    settle(block);
    if (gone / kBlock != block) settle(gone / kBlock);
    if (left < n && left / kBlock != block) settle(left / kBlock);
  }
  std::size_t kept = 0;
  for (std::size_t i = 0; i < n; i = row.next[i]) s[kept++] = s[i];
  symbols.resize(kept);
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

}  // namespace mt::tokenizer
