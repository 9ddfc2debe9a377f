#pragma once
// Pieces to ids through a thread's word cache: the loop every tokenizer that cuts text into words runs.
//
// Code: here. Tests: tests/tokenizer/byte_level_bpe_test.cc, piece_models_test.cc.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "tokenizer/cut_text.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/word_cache.h"

namespace mt::tokenizer {

// How many pieces are looked up at a time at most, so that their cache lines are on the way before they are needed. Their
// keys, ids and lines share the first-level cache: with 192 in place of 128 a warm cache is a tenth slower.
constexpr std::size_t kPieceBatch = 128;

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

// Ids of a stretch of pieces as they are found, and the places among them where others belong. Those of a long word take
// no more room.
static_assert(LongWordCache::kInlineIds <= WordCache::kInlineIds);
struct FoundIds {
  static constexpr std::size_t kMostPieces = 8 * kPieceBatch;
  struct Gap {
    std::uint32_t at, begin, size;  // size 0: of the new piece number `begin`; else of `spilled`
  };
  std::size_t count = 0, gaps = 0, pieces = 0;
  Gap gap[kMostPieces];
  Id ids[(kMostPieces + 1) * WordCache::kInlineIds];

  void spill(std::span<const Id> some, MissScratch& misses) {
    const auto begin = static_cast<std::uint32_t>(misses.spilled.size());
    misses.spilled.insert(misses.spilled.end(), some.begin(), some.end());
    gap[gaps++] = {static_cast<std::uint32_t>(count), begin, static_cast<std::uint32_t>(some.size())};
  }
  void miss(std::size_t number) { gap[gaps++] = {static_cast<std::uint32_t>(count), static_cast<std::uint32_t>(number), 0}; }
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

// Pieces of one text into ids. New pieces wait until there are some dozens of them, since a model merges many side by side
// in the time of a few; one that comes twice meanwhile waits once.
//   Miss  miss(pieces, ids) appends the ids of new pieces, a word each
template <class Miss>
class CachedPieces {
 public:
  CachedPieces(EncodeScratch& scratch, std::vector<Id>& out, Miss miss) : scratch_(scratch), out_(out), miss_(std::move(miss)) {
    clear();
  }
  // Without finish(), as when `miss` throws, the caches know nothing of the pieces that wait.
  ~CachedPieces() {
    for_short_misses([this](std::size_t, WordCache::Key key, std::uint64_t hash) { scratch_.words.forget(key, hash); });
    scratch_.misses.pieces.clear();
  }
  CachedPieces(const CachedPieces&) = delete;
  CachedPieces& operator=(const CachedPieces&) = delete;

  // The next `count` pieces.   needs  count at most kPieceBatch, pieces not empty, their bytes stay until finish()
  template <class Pieces>
  void add(Pieces pieces, std::size_t count);

  // Append what is waiting; call once after the last add.
  void finish() {
    MissScratch& misses = scratch_.misses;
    if (!misses.pieces.empty()) miss_(std::span<const std::string_view>(misses.pieces), misses.ids);
    found_.append_to(out_, misses);
    keep_new();
    clear();
  }

 private:
  static constexpr std::size_t kMostWaiting = 64;
  void clear() {
    found_.count = found_.gaps = found_.pieces = 0;
    scratch_.misses.pieces.clear();
    scratch_.misses.ids.clear();
    scratch_.misses.spilled.clear();
  }
  void find_other(std::string_view piece, const WordCache::Entry* entry, WordCache::Key key, std::uint64_t hash);
  void keep_new();
  template <class Use>
  void for_short_misses(Use use) {
    const std::vector<std::string_view>& pieces = scratch_.misses.pieces;
    for (std::size_t k = 0; k < pieces.size(); ++k) {
      if (pieces[k].size() > WordCache::kMaxKeyBytes) continue;
      const WordCache::Key key = WordCache::key_of(pieces[k].data(), pieces[k].size());
      use(k, key, WordCache::hash_of(key));
    }
  }

  EncodeScratch& scratch_;
  std::vector<Id>& out_;
  Miss miss_;
  FoundIds found_;
};

// A piece that is not among the short words with few ids.
template <class Miss>
void CachedPieces<Miss>::find_other(std::string_view piece, const WordCache::Entry* entry, WordCache::Key key,
                                    std::uint64_t hash) {
  MissScratch& misses = scratch_.misses;
  if (entry != nullptr) {
    if (entry->pending()) return found_.miss(static_cast<std::size_t>(entry->ids[0]));
    return found_.spill(scratch_.words.ids(*entry), misses);
  }
  if (piece.size() <= WordCache::kMaxKeyBytes) {
    scratch_.words.insert_pending(key, hash, static_cast<std::int32_t>(misses.pieces.size()));
  } else if (piece.size() <= LongWordCache::kMaxBytes) {
    if (const LongWordCache::Entry* word = scratch_.long_words.find(piece, hash)) {
      const std::span<const Id> ids = scratch_.long_words.ids(*word);
      if (ids.size() > LongWordCache::kInlineIds) return found_.spill(ids, misses);
      std::copy(ids.begin(), ids.end(), found_.ids + found_.count);
      found_.count += ids.size();
      return;
    }
  }
  found_.miss(misses.pieces.size());
  misses.pieces.push_back(piece);
}

// Remember what was new.
template <class Miss>
void CachedPieces<Miss>::keep_new() {
  const MissScratch& misses = scratch_.misses;
  for_short_misses([&](std::size_t k, WordCache::Key key, std::uint64_t hash) {
    scratch_.words.settle(key, hash, misses.ids.word(k));
  });
  for (std::size_t k = 0; k < misses.pieces.size(); ++k) {
    const std::string_view piece = misses.pieces[k];
    if (piece.size() <= WordCache::kMaxKeyBytes || piece.size() > LongWordCache::kMaxBytes) continue;
    const std::uint64_t hash = LongWordCache::hash_of(piece);
    if (scratch_.long_words.find(piece, hash) == nullptr) scratch_.long_words.insert(piece, hash, misses.ids.word(k));
  }
}

template <class Miss>
template <class Pieces>
void CachedPieces<Miss>::add(Pieces pieces, std::size_t count) {
  WordCache::Key keys[kPieceBatch];
  std::uint64_t hashes[kPieceBatch];
  Pieces first_look = pieces;
  for (std::size_t i = 0; i < count; ++i) {
    const std::string_view piece = first_look.take();
    if (piece.size() <= WordCache::kMaxKeyBytes) [[likely]] {
      keys[i] = pieces.end() - piece.data() >= 16 ? WordCache::key_of_readable(piece.data(), piece.size())
                                                  : WordCache::key_of(piece.data(), piece.size());
      hashes[i] = WordCache::hash_of(keys[i]);
      scratch_.words.prefetch(hashes[i]);
    } else {
      keys[i] = {};
      hashes[i] = piece.size() <= LongWordCache::kMaxBytes ? LongWordCache::hash_of(piece) : 0;
      scratch_.long_words.prefetch(hashes[i]);
    }
  }
  Id* to = found_.ids + found_.count;
  std::size_t walked = 0;  // pieces taken; few are looked at again
  for (std::size_t i = 0; i < count; ++i) {
    const WordCache::Entry* entry = keys[i].high != 0 ? scratch_.words.find(keys[i], hashes[i]) : nullptr;
    if (entry != nullptr && entry->count() <= WordCache::kInlineIds) [[likely]] {
      std::memcpy(to, entry->ids, sizeof entry->ids);  // of which some count; the next overwrite the others
      to += entry->count();
      continue;
    }
    for (; walked < i; ++walked) pieces.take();
    ++walked;
    found_.count = static_cast<std::size_t>(to - found_.ids);
    find_other(pieces.take(), entry, keys[i], hashes[i]);
    to = found_.ids + found_.count;
  }
  found_.count = static_cast<std::size_t>(to - found_.ids);
  found_.pieces += count;
  if (found_.gaps == 0) [[likely]] {
    out_.insert(out_.end(), found_.ids, found_.ids + found_.count);
    found_.count = found_.pieces = 0;
  } else if (scratch_.misses.pieces.size() >= kMostWaiting || found_.pieces + kPieceBatch > FoundIds::kMostPieces) {
    finish();
  }
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
