#include "tokenizer/bpe.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <queue>
#include <utility>

#include "base/error.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace mt::tokenizer {

namespace {

constexpr std::int32_t kLast = 0x7FFFFFFF;
constexpr int kNumberBits = 22, kIdBits = 21;
constexpr std::int32_t kNoSymbol = (1 << kIdBits) - 1;  // beside the ends of a word
constexpr std::uint64_t kNumberMask = (std::uint64_t{1} << kNumberBits) - 1;

// The least of so many numbers below 2^31, sixteen at a time.
inline std::uint32_t least_of(const std::uint32_t* numbers, std::size_t count) {
#if defined(__SSE2__)
  const auto at = [numbers](std::size_t i) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(numbers + i)); };
  const auto less = [](__m128i a, __m128i b) {
    const __m128i second = _mm_cmpgt_epi32(a, b);
    return _mm_or_si128(_mm_andnot_si128(second, a), _mm_and_si128(second, b));
  };
  __m128i least = less(less(at(0), at(4)), less(at(8), at(12)));
  for (std::size_t i = 16; i < count; i += 16) {
    least = less(least, less(less(at(i), at(i + 4)), less(at(i + 8), at(i + 12))));
  }
  least = less(least, _mm_shuffle_epi32(least, 0x4E));
  least = less(least, _mm_shuffle_epi32(least, 0xB1));
  return static_cast<std::uint32_t>(_mm_cvtsi128_si32(least));
#else
  return *std::min_element(numbers, numbers + (count + 15) / 16 * 16);
#endif
}

}  // namespace

// A word being merged: symbols stay where they are, a bit says which are there still. For each place the merge with the
// place behind it; rank and place are one number, so that the least is the merge to make. The first and the last place are
// the ends: symbols that merge with nothing, so that no branch asks for them.
struct MergeTable::Word {
  static constexpr std::size_t kMost = 62, kEnd = 63;  // symbols are at places 1 to kMost
  static constexpr int kPlaceBits = 6;
  static constexpr std::uint32_t kNothing = kNone << kPlaceBits;  // and above: no merge
  std::uint32_t key[kEnd + 1];
  std::uint32_t number[kEnd + 1];  // of the merge, where its rank is another
  std::int32_t symbol[kEnd + 1];
  std::uint64_t there;
  std::size_t looked_at;  // keys, a multiple of 16
  // Where merges are looked for next: the new symbol's place and that of the one before it, their pairs and slots.
  std::size_t left, here;
  std::uint64_t left_pair, left_slot, right_pair, right_slot;
};

// More symbols than a Word's, up to kMost.
struct MergeTable::Row {
  static constexpr std::size_t kBlock = 16, kMost = 512;
  std::int32_t rank[kMost], result[kMost], least[kMost / kBlock];
  std::uint16_t next[kMost], previous[kMost];
};

// The numbers of the merges, and by number their results and ranks; those of equal order and result are one.
std::vector<std::uint32_t> MergeTable::number_merges(std::span<const Merge> merges, std::span<const std::uint32_t> order) {
  std::vector<std::uint32_t> numbers(merges.size());
  std::iota(numbers.begin(), numbers.end(), 0u);
  if (order.empty()) {
    for (const Merge& m : merges) results_.push_back(m.result);
    return numbers;
  }
  const auto rank = [&](std::uint32_t place) { return std::pair(order[place], merges[place].result); };
  std::vector<std::uint32_t> places = numbers;
  std::sort(places.begin(), places.end(), [&](std::uint32_t a, std::uint32_t b) { return rank(a) < rank(b); });
  bool equal_orders = false;
  for (std::size_t i = 0; i < places.size(); ++i) {
    const std::uint32_t place = places[i];
    if (i == 0 || rank(places[i - 1]) != rank(place)) {
      const bool equal = i > 0 && order[places[i - 1]] == order[place];
      equal_orders |= equal;
      ranks_.push_back(equal ? ranks_.back() : static_cast<std::uint32_t>(ranks_.size()));
      results_.push_back(merges[place].result);
    }
    numbers[place] = static_cast<std::uint32_t>(results_.size() - 1);
  }
  if (!equal_orders) ranks_.clear();
  return numbers;
}

MergeTable::MergeTable(std::span<const Merge> merges, std::span<const std::uint32_t> order) {
  MT_CHECK(order.empty() || order.size() == merges.size(), "{} orders of {} merges", order.size(), merges.size());
  if (merges.size() >= kNumberMask) throw Error(Code::data, fmt::format("{} merges: wanted below 2^{}", merges.size(), kNumberBits));
  const std::vector<std::uint32_t> numbers = number_merges(merges, order);
  // At most six of ten slots are taken: most pairs that are asked for are in no slot, and four of those end the search.
  const std::size_t size = std::bit_ceil(merges.size() + merges.size() / 3 * 2 + 4);
  memory_ = TableMemory(size * sizeof(std::uint64_t));
  mask_ = size - 1;
  auto* const slots = static_cast<std::uint64_t*>(memory_.data());
  for (std::size_t place = 0; place < merges.size(); ++place) {
    const Merge& m = merges[place];
    if (const std::int32_t largest = std::max({m.left, m.right, m.result}); largest >= kNoSymbol)
      throw Error(Code::data, fmt::format("token id {} in a merge: wanted below 2^{} - 1", largest, kIdBits));
    const std::uint64_t pair = pair_of(m.left, m.right);
    std::uint64_t slot = slot_of(pair);
    while (slots[slot] != 0 && slots[slot] >> kNumberBits != pair) slot = (slot + 1) & mask_;
    slots[slot] = pair << kNumberBits | (numbers[place] + 1);
  }
  if (results_.empty()) results_.push_back(0);  // read, never used
}

// Four slots at once without a branch, since whether a pair merges is hard to foretell; seldom more. A slot of the pair
// leaves its number, any other kNone or more.
inline std::uint32_t MergeTable::number_at(std::uint64_t slot, std::uint64_t pair) const {
  for (const std::uint64_t wanted = pair << kNumberBits;; slot = (slot + 4) & mask_) {
    const std::uint64_t* const four = slots() + slot;
    const std::uint64_t first = std::min((four[0] ^ wanted) - 1, (four[1] ^ wanted) - 1);
    const std::uint64_t hit = std::min(first, std::min((four[2] ^ wanted) - 1, (four[3] ^ wanted) - 1));
    const bool goes_on = std::min((hit + 1) >> kNumberBits, four[3]) != 0;  // both are not 0
    if (!goes_on) [[likely]] return static_cast<std::uint32_t>(std::min(hit, std::uint64_t{kNone}));
  }
}

inline std::uint32_t MergeTable::find(std::int32_t left, std::int32_t right) const {
  const std::uint64_t pair = pair_of(left, right);
  return number_at(slot_of(pair), pair);
}

void MergeTable::set_bytes(std::span<const std::int32_t, 256> ids) {
  std::copy(ids.begin(), ids.end(), byte_ids_);
  byte_pairs_.assign(256 * 256, kNone);
  for (std::size_t left = 0; left < 256; ++left) {
    for (std::size_t right = 0; right < 256; ++right) {
      if (ids[left] >= 0 && ids[right] >= 0) byte_pairs_[left << 8 | right] = find(ids[left], ids[right]);
    }
  }
}

inline void MergeTable::set(Word& word, std::size_t place, std::uint32_t number) const {
  std::uint32_t rank = number;
  if (!ranks_.empty()) {
    word.number[place] = number;
    rank = number >= kNone ? kNone : ranks_[number];
  }
  word.key[place] = rank << Word::kPlaceBits | static_cast<std::uint32_t>(place);
}

// Make the next merge, and bring near where those of the new symbol stand.   gives  false: there is none any more
inline bool MergeTable::turn(Word& word) const {
  constexpr std::uint64_t kFirst = 1, kLastPlace = std::uint64_t{1} << Word::kEnd;
  const std::uint32_t least = least_of(word.key, word.looked_at);
  if (least >= Word::kNothing) return false;
  const std::size_t i = least % (1u << Word::kPlaceBits);
  const std::uint64_t behind = word.there & (~std::uint64_t{1} << i), before = word.there & ((std::uint64_t{1} << i) - 1);
  const std::uint64_t right = behind & (behind - 1);
  const std::int32_t made = results_[ranks_.empty() ? least >> Word::kPlaceBits : word.number[i]];
  word.symbol[i] = made;
  word.there = before | std::uint64_t{1} << i | right;
  word.key[std::countr_zero(behind | kLastPlace)] = Word::kNothing;
  const auto left_place = static_cast<std::size_t>(63 - std::countl_zero(before | kFirst));
  const auto right_place = static_cast<std::size_t>(std::countr_zero(right | kLastPlace));
  word.here = i;
  word.left = left_place;
  word.left_pair = pair_of(word.symbol[left_place], made);
  word.right_pair = pair_of(made, word.symbol[right_place]);
  // Beside an end nothing is looked for, and no memory is waited for.
  word.left_slot = slot_of(word.left_pair) & -static_cast<std::uint64_t>(left_place != 0);
  word.right_slot = slot_of(word.right_pair) & -static_cast<std::uint64_t>(right_place != Word::kEnd);
  __builtin_prefetch(slots() + word.left_slot);
  __builtin_prefetch(slots() + word.right_slot);
  return true;
}

inline void MergeTable::look(Word& word) const {
  set(word, word.here, number_at(word.right_slot, word.right_pair));
  set(word, word.left, number_at(word.left_slot, word.left_pair));
}

// Of so many symbols: those behind the last key that was set merge with nothing.
void MergeTable::begin(Word& word, std::size_t size) {
  word.there = ((std::uint64_t{2} << size) - 1) | std::uint64_t{1} << Word::kEnd;
  word.looked_at = size / 16 * 16 + 16;
  word.key[0] = Word::kNothing;
  for (std::size_t i = std::max(size, std::size_t{1}); i < word.looked_at; ++i) word.key[i] = Word::kNothing;
  word.symbol[0] = word.symbol[Word::kEnd] = kNoSymbol;
}

void MergeTable::end(const Word& word, std::vector<std::int32_t>& symbols) {
  for (std::uint64_t there = word.there & ~(std::uint64_t{1} << Word::kEnd | 1); there != 0; there &= there - 1) {
    symbols.push_back(word.symbol[std::countr_zero(there)]);
  }
}

void MergeTable::load(std::span<const std::int32_t> symbols, Word& word) const {
  std::copy(symbols.begin(), symbols.end(), word.symbol + 1);
  for (std::size_t i = 1; i < symbols.size(); ++i) set(word, i, find(symbols[i - 1], symbols[i]));
  begin(word, symbols.size());
}

void MergeTable::load(std::string_view piece, Word& word) const {
  const auto* bytes = reinterpret_cast<const unsigned char*>(piece.data());
  std::size_t pair = 0;
  for (std::size_t i = 0; i < piece.size(); ++i) {
    pair = (pair << 8 | bytes[i]) & 0xFFFF;
    word.symbol[i + 1] = byte_ids_[bytes[i]];
    set(word, i, byte_pairs_[pair]);
  }
  begin(word, piece.size());
}

template <class Pieces>
void MergeTable::merge_words(std::size_t count, const Pieces& piece_of, WordsOfSymbols& merged) const {
  constexpr std::size_t kAbreast = 16;
  Word words[kAbreast];
  for (std::size_t done = 0; done < count;) {
    std::size_t n = 0;
    std::uint32_t busy = 0;
    for (; n < kAbreast && done + n < count && piece_of(done + n).size() <= Word::kMost; ++n) {
      load(piece_of(done + n), words[n]);
      if (turn(words[n])) busy |= 1u << n;
    }
    while (busy != 0) {
      for (std::uint32_t rest = busy; rest != 0; rest &= rest - 1) look(words[std::countr_zero(rest)]);
      for (std::uint32_t rest = busy; rest != 0; rest &= rest - 1) {
        const int k = std::countr_zero(rest);
        if (!turn(words[k])) busy &= ~(1u << k);
      }
    }
    for (std::size_t k = 0; k < n; ++k) {
      end(words[k], merged.symbols);
      merged.end_word();
    }
    done += n;
    if (n < kAbreast && done < count) append_merged(piece_of(done++), merged);
  }
}

// A word that is too long for a Word.
void MergeTable::append_merged(std::span<const std::int32_t> symbols, WordsOfSymbols& merged) const {
  std::vector<std::int32_t> word(symbols.begin(), symbols.end());
  merge(word);
  merged.symbols.insert(merged.symbols.end(), word.begin(), word.end());
  merged.end_word();
}

void MergeTable::append_merged(std::string_view piece, WordsOfSymbols& merged) const {
  std::vector<std::int32_t> word;
  merge_bytes(piece, word);
  merged.symbols.insert(merged.symbols.end(), word.begin(), word.end());
  merged.end_word();
}

void MergeTable::merge_all(const WordsOfSymbols& words, WordsOfSymbols& merged) const {
  merge_words(words.ends.size(), [&](std::size_t k) { return words.word(k); }, merged);
}

void MergeTable::merge_bytes_all(std::span<const std::string_view> pieces, WordsOfSymbols& merged) const {
  merge_words(pieces.size(), [&](std::size_t k) { return pieces[k]; }, merged);
}

void MergeTable::merge(std::vector<std::int32_t>& symbols) const {
  const std::size_t n = symbols.size();
  if (n < 2) return;
  if (n <= Word::kMost) {
    Word word;
    load(symbols, word);
    while (turn(word)) look(word);
    symbols.clear();
    return end(word, symbols);
  }
  if (n > Row::kMost) return merge_long(symbols);
  Row row;
  for (std::size_t i = 0; i + 1 < n; ++i) set(row, i, find(symbols[i], symbols[i + 1]));
  merge_row(row, symbols);
}

void MergeTable::merge_bytes(std::string_view piece, std::vector<std::int32_t>& symbols) const {
  symbols.clear();
  if (piece.size() <= Word::kMost) {
    Word word;
    load(piece, word);
    while (turn(word)) look(word);
    return end(word, symbols);
  }
  for (const char byte : piece) symbols.push_back(byte_ids_[static_cast<unsigned char>(byte)]);
  merge(symbols);
}

inline void MergeTable::set(Row& row, std::size_t place, std::uint32_t number) const {
  row.rank[place] = number >= kNone ? kLast : static_cast<std::int32_t>(rank_of(number));
  if (number < kNone) row.result[place] = results_[number];
}

// The least rank is looked for among the least of each sixteen places, which a merge changes in three of them at most;
// symbols stay where they are and know their neighbours.
void MergeTable::merge_row(Row& row, std::vector<std::int32_t>& symbols) const {
  constexpr std::size_t kBlock = Row::kBlock;
  std::int32_t* s = symbols.data();
  const std::size_t n = symbols.size(), blocks = (n + kBlock - 1) / kBlock;
  for (std::size_t i = n - 1; i < blocks * kBlock; ++i) row.rank[i] = kLast;
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
  for (std::size_t block = 0; block < blocks; ++block) settle(block);
  for (;;) {
    std::size_t block = 0;
    for (std::size_t b = 1; b < blocks; ++b) block = row.least[b] < row.least[block] ? b : block;
    const std::int32_t least = row.least[block];
    if (least == kLast) break;
    std::size_t i = block * kBlock;
    while (row.rank[i] != least) ++i;
    const std::size_t gone = row.next[i], right = row.next[gone], left = row.previous[i];
    s[i] = row.result[i];
    s[gone] = -1;
    row.next[i] = static_cast<std::uint16_t>(right);
    row.rank[gone] = row.rank[i] = kLast;
    if (right < n) {
      row.previous[right] = static_cast<std::uint16_t>(i);
      set(row, i, find(s[i], s[right]));
    }
    if (left < n) set(row, left, find(s[left], s[i]));
    settle(block);
    if (gone / kBlock != block) settle(gone / kBlock);
    if (left < n && left / kBlock != block) settle(left / kBlock);
  }
  std::size_t kept = 0;
  for (std::size_t i = 0; i < n; i = row.next[i]) s[kept++] = s[i];
  symbols.resize(kept);
}

void MergeTable::merge_long(std::vector<std::int32_t>& symbols) const {
  struct Candidate {
    std::uint32_t rank;
    std::uint32_t place;  // of the left symbol
    std::uint32_t number;  // of the merge
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
    const std::uint32_t number = find(symbols[i], symbols[next[i]]);
    if (number < kNone) queue.push({rank_of(number), i, number});
  };
  for (std::uint32_t i = 0; i + 1 < n; ++i) push(i);
  while (!queue.empty()) {
    const Candidate top = queue.top();
    queue.pop();
    const std::uint32_t i = top.place;
    if (symbols[i] < 0 || next[i] >= n) continue;  // swallowed, or last
    if (find(symbols[i], symbols[next[i]]) != top.number) continue;
    const std::uint32_t gone = next[i];
    symbols[i] = results_[top.number];
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
