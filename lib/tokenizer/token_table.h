#pragma once
// The vocabulary as bytes: id to token for decoding, token to id for looking up.
//
// Code: tokenizer/token_table.cc. Tests: tests/tokenizer/byte_level_bpe_test.cc.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace mt::tokenizer {

// Ids beyond this are refused: a table has a place for every id up to the largest.
constexpr std::int32_t kMaxTokenId = 1 << 24;

class TokenTable {
 public:
  // Add a token. Ids may come in any order and leave gaps; a gap has no token.
  //   fails  Error{corrupt}: the id is taken by another token, or is negative or above 2^24
  void add(std::string_view token, std::int32_t id);
  // Build the lookup; call once after the last add. Of two ids with equal bytes the first added is found.
  void seal();

  // Largest id plus one.
  std::int32_t size() const { return static_cast<std::int32_t>(places_.size()); }
  bool has(std::int32_t id) const {
    return id >= 0 && id < size() && places_[static_cast<std::size_t>(id)].begin != kNone;
  }
  // Bytes of an id.   needs  has(id)
  std::string_view token(std::int32_t id) const {
    const Place& p = places_[static_cast<std::size_t>(id)];
    return {bytes_.data() + p.begin, p.size};
  }
  // The id of a token.   needs  seal() was called
  std::optional<std::int32_t> find(std::string_view token) const;
  // Bring near what find looks at first.   needs  as find
  void prefetch(std::string_view token) const;

  // Append the tokens' bytes.   fails  Error{data}: an id that is no token
  void decode(std::span<const std::int32_t> ids, std::string& out) const;

 private:
  static constexpr std::uint32_t kNone = 0xFFFFFFFF;
  struct Place {
    std::uint32_t begin = kNone, size = 0;
  };
  std::string bytes_;
  std::vector<Place> places_;
  std::vector<std::int32_t> order_;  // ids as added
  // Open addressing; a tag of the hash tells most other tokens apart without a look at their bytes.
  struct Slot {
    std::int32_t id = -1;  // -1: empty
    std::uint32_t tag = 0;
  };
  std::vector<Slot> slots_;
};

}  // namespace mt::tokenizer
