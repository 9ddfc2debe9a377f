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

// The place in `out` grows by blocks: ids are collected here first, so that a piece costs no capacity check.
struct IdBlock {
  static constexpr std::size_t kSize = kPieceBatch * WordCache::kInlineIds;
  Id ids[kSize + WordCache::kInlineIds];
  std::size_t count = 0;
  std::vector<Id>* out;
  void flush() {
    out->insert(out->end(), ids, ids + count);
    count = 0;
  }
  void add(std::span<const Id> some) {
    if (count + some.size() > kSize) flush();
    if (some.size() > kSize) {
      out->insert(out->end(), some.begin(), some.end());
      return;
    }
    std::copy(some.begin(), some.end(), ids + count);
    count += some.size();
  }
};

// A piece the short words' cache does not hold: from the other shelf, or by `miss`, and remembered.
template <class Miss>
void encode_uncached(std::string_view piece, WordCache::Key key, std::uint64_t hash, EncodeScratch& scratch,
                     IdBlock& block, Miss& miss) {
  const bool is_short = piece.size() <= WordCache::kMaxKeyBytes;
  const bool is_long = !is_short && piece.size() <= LongWordCache::kMaxBytes;
  if (is_long) {
    if (const LongWordCache::Entry* entry = scratch.long_words.find(piece, hash)) {
      return block.add(scratch.long_words.ids(*entry));
    }
  }
  scratch.symbols.clear();
  miss(piece, scratch.symbols);
  block.add(scratch.symbols);
  if (is_short) scratch.words.insert(key, hash, scratch.symbols);
  if (is_long) scratch.long_words.insert(piece, hash, scratch.symbols);
}

// Append the ids of `count` pieces. `miss(piece, ids)` appends those of a piece the cache does not know; ids is empty.
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
  IdBlock block;
  block.out = &out;
  for (std::size_t i = 0; i < count; ++i) {
    const std::string_view piece = pieces.take();
    const bool is_short = piece.size() <= WordCache::kMaxKeyBytes;
    const WordCache::Entry* entry = is_short ? scratch.words.find(keys[i], hashes[i]) : nullptr;
    if (entry != nullptr && entry->count() <= WordCache::kInlineIds) [[likely]] {
      std::copy(entry->ids, entry->ids + WordCache::kInlineIds, block.ids + block.count);
      block.count += entry->count();
      if (block.count >= IdBlock::kSize) block.flush();
    } else if (entry != nullptr) {
      block.add(scratch.words.ids(*entry));
    } else {
      encode_uncached(piece, keys[i], hashes[i], scratch, block, miss);
    }
  }
  block.flush();
}

}  // namespace mt::tokenizer
