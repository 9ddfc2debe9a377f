#pragma once
// Pieces to ids through a thread's word cache: the loop every tokenizer that cuts text into words runs.
//
// Code: here. Tests: tests/data/byte_level_bpe_test.cc, piece_models_test.cc.

#include <algorithm>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "data/cut_text.h"
#include "data/tokenizer.h"
#include "data/word_cache.h"

namespace mt::data {

// How many pieces are looked up at a time, so that their cache lines are on the way before they are needed.
constexpr std::size_t kPieceBatch = 256;

// Walk pieces that touch, given by their lengths, and pieces given by their places.
class TouchingPieces {
 public:
  TouchingPieces(const char* text, std::span<const std::uint32_t> lengths) : at_(text), length_(lengths.data()) {}
  std::string_view take() {
    const std::string_view piece(at_, *length_++);
    at_ += piece.size();
    return piece;
  }

 private:
  const char* at_;
  const std::uint32_t* length_;
};
class PlacedPieces {
 public:
  PlacedPieces(const char* text, std::span<const TextSpan> places) : text_(text), place_(places.data()) {}
  std::string_view take() {
    const TextSpan place = *place_++;
    return {text_ + place.begin, place.end - place.begin};
  }

 private:
  const char* text_;
  const TextSpan* place_;
};

// The place in `out` grows by blocks: ids are collected here first, so that a piece costs no capacity check.
struct IdBlock {
  static constexpr std::size_t kSize = 1024;
  Id ids[kSize + WordCache::kInlineIds];
  std::size_t count = 0;
  std::vector<Id>* out;
  void flush() {
    out->insert(out->end(), ids, ids + count);
    count = 0;
  }
};

// Append the ids of `count` pieces. `miss(piece, ids)` appends those of a piece the cache does not know; ids is empty.
//   needs  count at most kPieceBatch, pieces not empty
template <class Pieces, class Miss>
void encode_cached(Pieces pieces, std::size_t count, EncodeScratch& scratch, std::vector<Id>& out, Miss miss) {
  WordCache::Key keys[kPieceBatch];
  std::uint64_t hashes[kPieceBatch];
  Pieces first_look = pieces;
  for (std::size_t i = 0; i < count; ++i) {
    const std::string_view piece = first_look.take();
    if (piece.size() > WordCache::kMaxKeyBytes) continue;
    keys[i] = WordCache::key_of(piece.data(), piece.size());
    hashes[i] = WordCache::hash_of(keys[i]);
    scratch.words.prefetch(hashes[i]);
  }
  IdBlock block;
  block.out = &out;
  for (std::size_t i = 0; i < count; ++i) {
    const std::string_view piece = pieces.take();
    const bool cached = piece.size() <= WordCache::kMaxKeyBytes;
    const WordCache::Entry* entry = cached ? scratch.words.find(keys[i], hashes[i]) : nullptr;
    if (entry != nullptr && entry->count <= WordCache::kInlineIds) [[likely]] {
      std::copy(entry->ids, entry->ids + WordCache::kInlineIds, block.ids + block.count);
      block.count += entry->count;
      if (block.count >= IdBlock::kSize) block.flush();
      continue;
    }
    block.flush();
    if (entry != nullptr) {
      const auto ids = scratch.words.ids(*entry);
      out.insert(out.end(), ids.begin(), ids.end());
      continue;
    }
    scratch.symbols.clear();
    miss(piece, scratch.symbols);
    out.insert(out.end(), scratch.symbols.begin(), scratch.symbols.end());
    if (cached) scratch.words.insert(keys[i], hashes[i], scratch.symbols);
  }
  block.flush();
}

}  // namespace mt::data
