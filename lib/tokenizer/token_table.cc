#include "tokenizer/token_table.h"

#include <bit>

#include "base/error.h"
#include "base/hash.h"
#include "tokenizer/word_cache.h"

namespace mt::tokenizer {

namespace {

// Most tokens are short, and a call for those takes longer than their bytes do.
std::uint64_t hash_of(std::string_view token) {
  if (token.size() > WordCache::kMaxKeyBytes) return xxh3(token);
  return WordCache::hash_of(WordCache::key_of(token.data(), token.size()));
}

}  // namespace

void TokenTable::add(std::string_view token, std::int32_t id) {
  if (id < 0 || id > kMaxTokenId) {
    throw Error(Code::corrupt, fmt::format("token id {} of '{}': wanted 0 to 2^24", id, token));
  }
  if (id >= size()) places_.resize(static_cast<std::size_t>(id) + 1);
  Place& place = places_[static_cast<std::size_t>(id)];
  if (place.begin != kNone) {
    throw Error(Code::corrupt, fmt::format("token id {} is given to '{}' and to '{}'", id, this->token(id), token));
  }
  place = {static_cast<std::uint32_t>(bytes_.size()), static_cast<std::uint32_t>(token.size())};
  bytes_ += token;
  order_.push_back(id);
}

void TokenTable::seal() {
  slots_.assign(std::bit_ceil(order_.size() * 2 + 2), Slot{});
  const std::size_t mask = slots_.size() - 1;
  for (const std::int32_t id : order_) {
    if (find(token(id))) continue;
    const std::uint64_t hash = hash_of(token(id));
    std::size_t slot = hash & mask;
    while (slots_[slot].id >= 0) slot = (slot + 1) & mask;
    slots_[slot] = {id, static_cast<std::uint32_t>(hash >> 32)};
  }
}

std::optional<std::int32_t> TokenTable::find(std::string_view wanted) const {
  MT_CHECK(!slots_.empty(), "lookup of '{}' before seal()", wanted);
  const std::size_t mask = slots_.size() - 1;
  const std::uint64_t hash = hash_of(wanted);
  for (std::size_t slot = hash & mask; slots_[slot].id >= 0; slot = (slot + 1) & mask) {
    if (slots_[slot].tag == hash >> 32 && token(slots_[slot].id) == wanted) return slots_[slot].id;
  }
  return std::nullopt;
}

void TokenTable::prefetch(std::string_view token) const {
  __builtin_prefetch(&slots_[hash_of(token) & (slots_.size() - 1)]);
}

void TokenTable::decode(std::span<const std::int32_t> ids, std::string& out) const {
  for (const std::int32_t id : ids) {
    if (!has(id)) {
      throw Error(Code::data, fmt::format("id {} is no token of this tokenizer (vocabulary size {})", id, size()), "",
                  "use the tokenizer that wrote the file");
    }
    out += token(id);
  }
}

}  // namespace mt::tokenizer
