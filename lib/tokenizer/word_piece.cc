#include "tokenizer/word_piece.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace mt::tokenizer {

namespace {

// Tokens that start with `prefix`, without it; of a token that is there twice the last id.
//   hidden  ids left out, ascending
PrefixTrie trie_of(const TokenTable& tokens, std::string_view prefix, const std::vector<std::int32_t>& hidden = {}) {
  std::vector<PrefixTrie::Key> keys;
  for (std::int32_t id = tokens.size(); id-- > 0;) {
    if (!tokens.has(id) || !tokens.token(id).starts_with(prefix)) continue;
    if (std::binary_search(hidden.begin(), hidden.end(), id)) continue;
    keys.emplace_back(tokens.token(id).substr(prefix.size()), id);
  }
  return PrefixTrie(std::move(keys));
}

std::size_t characters_of(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

void add_unknown(std::string_view word, std::int32_t unknown, std::vector<std::int32_t>& ids) {
  if (unknown < 0) {
    throw Error(Code::data, fmt::format("'{}' has no token, and the tokenizer no unknown token", word.substr(0, 40)));
  }
  ids.push_back(unknown);
}

}  // namespace

WordPiece::WordPiece(const TokenTable& tokens, WordPieceParts parts)
    : parts_(std::move(parts)),
      first_(trie_of(tokens, "")),
      next_(trie_of(tokens, parts_.prefix)),
      unknown_(tokens.find(parts_.unknown).value_or(-1)) {}

void WordPiece::hide(const TokenTable& tokens, const std::vector<std::int32_t>& ids) {
  first_ = trie_of(tokens, "", ids);
  next_ = trie_of(tokens, parts_.prefix, ids);
}

void WordPiece::encode(std::string_view word, std::vector<std::int32_t>& ids) const {
  if (word.size() > parts_.max_characters && characters_of(word) > parts_.max_characters) {
    return add_unknown(word, unknown_, ids);
  }
  const std::size_t old = ids.size();
  for (std::string_view rest = word; !rest.empty();) {
    const PrefixTrie::Match match = (rest.size() == word.size() ? first_ : next_).longest(rest);
    if (match.size == 0) {
      ids.resize(old);
      return add_unknown(word, unknown_, ids);
    }
    ids.push_back(match.value);
    rest.remove_prefix(match.size);
  }
}

std::string WordPiece::description() const {
  return fmt::format("word-piece\n{}\n{}\n{}", parts_.unknown, parts_.prefix, parts_.max_characters);
}

WordLevel::WordLevel(const TokenTable& tokens, const std::string& unknown)
    : words_(trie_of(tokens, "")), unknown_(tokens.find(unknown).value_or(-1)) {}

void WordLevel::hide(const TokenTable& tokens, const std::vector<std::int32_t>& ids) {
  words_ = trie_of(tokens, "", ids);
}

void WordLevel::encode(std::string_view word, std::vector<std::int32_t>& ids) const {
  const std::int32_t id = words_.find(word);
  id >= 0 ? ids.push_back(id) : add_unknown(word, unknown_, ids);
}

}  // namespace mt::tokenizer
