#pragma once
// Pieces to ids through a thread's word cache: the loop every tokenizer that cuts text into words runs.
//
// Code: here. Tests: tests/tokenizer/byte_level_bpe_test.cc, piece_models_test.cc.

#include <algorithm>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "tokenizer/cut_text.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/word_cache.h"

namespace mt::tokenizer {

// How many pieces are looked up at a time, so that their cache lines are on the way before they are needed.
constexpr std::size_t kPieceBatch = 192;

// Walk pieces that touch, given by their lengths, and pieces given by their places. `end` is the end of what may be read.
class TouchingPieces {
 public:
  TouchingPieces(const char* text, std::span<const std::uint32_t> lengths, const char* end)
      : at_(text), length_(lengths.data()), end_(end) {}
  std::string_view take() {
    const std::string_view piece(at_, *length_++);
    at_ += piece.size();
    return piece;
  }
  const char* end() const { return end_; }

 private:
  const char* at_;
  const std::uint32_t* length_;
  const char* end_;
};
class PlacedPieces {
 public:
  PlacedPieces(std::string_view text, std::span<const TextSpan> places)
      : text_(text.data()), place_(places.data()), end_(text.data() + text.size()) {}
  std::string_view take() {
    const TextSpan place = *place_++;
    return {text_ + place.begin, place.end - place.begin};
  }
  const char* end() const { return end_; }

 private:
  const char* text_;
  const TextSpan* place_;
  const char* end_;
};

// Ids of a batch as they are found, and the places among them where others belong. Those of a long word take no more room.
static_assert(LongWordCache::kInlineIds <= WordCache::kInlineIds);
struct FoundIds {
  struct Gap {
    std::uint32_t at, begin, size;  // size 0: of the new piece number `begin`; else of `spilled`
  };
  Id ids[(kPieceBatch + 1) * WordCache::kInlineIds];
  std::size_t count = 0, gaps = 0;
  Gap gap[kPieceBatch];

  // Up to so many ids, of which `size` count; what is behind them is overwritten.
  void add(const Id* some, std::uint32_t size) {
    std::copy(some, some + WordCache::kInlineIds, ids + count);
    count += size;
  }
  void spill(std::span<const Id> some, MissScratch& misses) {
    const auto begin = static_cast<std::uint32_t>(misses.spilled.size());
    misses.spilled.insert(misses.spilled.end(), some.begin(), some.end());
    gap[gaps++] = {static_cast<std::uint32_t>(count), begin, static_cast<std::uint32_t>(some.size())};
  }
  void miss(std::string_view piece, MissScratch& misses) {
    gap[gaps++] = {static_cast<std::uint32_t>(count), static_cast<std::uint32_t>(misses.pieces.size()), 0};
    misses.pieces.push_back(piece);
  }
  void append_to(std::vector<Id>& out, const MissScratch& misses) const {
    std::size_t done = 0;
    for (std::size_t g = 0; g < gaps; ++g) {
      const Gap& here = gap[g];
      out.insert(out.end(), ids + done, ids + here.at);
      done = here.at;
      const std::span<const Id> some = here.size > 0 ? std::span(misses.spilled).subspan(here.begin, here.size)
                                                     : misses.ids.word(here.begin);
      out.insert(out.end(), some.begin(), some.end());
    }
    out.insert(out.end(), ids + done, ids + count);
  }
};

// A piece that is not among the short words with few ids.
inline void find_other(std::string_view piece, const WordCache::Entry* entry, std::uint64_t hash, EncodeScratch& scratch,
                       FoundIds& found) {
  if (entry != nullptr) return found.spill(scratch.words.ids(*entry), scratch.misses);
  if (piece.size() > WordCache::kMaxKeyBytes && piece.size() <= LongWordCache::kMaxBytes) {
    if (const LongWordCache::Entry* word = scratch.long_words.find(piece, hash)) {
      const std::span<const Id> ids = scratch.long_words.ids(*word);
      if (ids.size() > LongWordCache::kInlineIds) return found.spill(ids, scratch.misses);
      std::copy(ids.begin(), ids.end(), found.ids + found.count);
      found.count += ids.size();
      return;
    }
  }
  found.miss(piece, scratch.misses);
}

// Remember what was new.
inline void keep_new(EncodeScratch& scratch) {
  const MissScratch& misses = scratch.misses;
  for (std::size_t k = 0; k < misses.pieces.size(); ++k) {
    const std::string_view piece = misses.pieces[k];
    if (piece.size() <= WordCache::kMaxKeyBytes) {
      const WordCache::Key key = WordCache::key_of(piece.data(), piece.size());
      const std::uint64_t hash = WordCache::hash_of(key);
      if (scratch.words.find(key, hash) == nullptr) scratch.words.insert(key, hash, misses.ids.word(k));
    } else if (piece.size() <= LongWordCache::kMaxBytes) {
      const std::uint64_t hash = LongWordCache::hash_of(piece);
      if (scratch.long_words.find(piece, hash) == nullptr) scratch.long_words.insert(piece, hash, misses.ids.word(k));
    }
  }
}

// Append the ids of `count` pieces. `miss(pieces, ids)` appends those of pieces the cache does not know, a word each.
//   needs  count at most kPieceBatch, pieces not empty
template <class Pieces, class Miss>
void encode_cached(Pieces pieces, std::size_t count, EncodeScratch& scratch, std::vector<Id>& out, Miss miss) {
  WordCache::Key keys[kPieceBatch];
  std::uint64_t hashes[kPieceBatch];
  Pieces first_look = pieces;
  for (std::size_t i = 0; i < count; ++i) {
    const std::string_view piece = first_look.take();
    if (piece.size() <= WordCache::kMaxKeyBytes) [[likely]] {
      keys[i] = pieces.end() - piece.data() >= 16 ? WordCache::key_of_readable(piece.data(), piece.size())
                                                  : WordCache::key_of(piece.data(), piece.size());
      hashes[i] = WordCache::hash_of(keys[i]);
      scratch.words.prefetch(hashes[i]);
    } else {
      keys[i] = {};
      hashes[i] = piece.size() <= LongWordCache::kMaxBytes ? LongWordCache::hash_of(piece) : 0;
      scratch.long_words.prefetch(hashes[i]);
    }
  }
  MissScratch& misses = scratch.misses;
  misses.pieces.clear();
  misses.ids.clear();
  misses.spilled.clear();
  FoundIds found;
  for (std::size_t i = 0; i < count; ++i) {
    const std::string_view piece = pieces.take();
    const bool is_short = piece.size() <= WordCache::kMaxKeyBytes;
    const WordCache::Entry* entry = is_short ? scratch.words.find(keys[i], hashes[i]) : nullptr;
    if (entry != nullptr && entry->count() <= WordCache::kInlineIds) [[likely]] {
      found.add(entry->ids, entry->count());
    } else {
      find_other(piece, entry, hashes[i], scratch, found);
    }
  }
  if (found.gaps == 0) [[likely]] {
    out.insert(out.end(), found.ids, found.ids + found.count);
    return;
  }
  if (!misses.pieces.empty()) miss(std::span<const std::string_view>(misses.pieces), misses.ids);
  found.append_to(out, misses);
  keep_new(scratch);
}

// The `miss` of a model that takes pieces one by one: encode(piece, ids) appends to ids.
template <class Encode>
auto one_by_one(Encode encode) {
  return [encode](std::span<const std::string_view> pieces, WordsOfSymbols& ids) {
    for (const std::string_view piece : pieces) {
      encode(piece, ids.symbols);
      ids.end_word();
    }
  };
}

}  // namespace mt::tokenizer
