#include "tokenizer/added_tokens.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "tokenizer/unicode.h"

namespace mt::tokenizer {

namespace {

std::uint32_t code_point_before(std::string_view text, std::size_t end, std::size_t& begin) {
  begin = end - 1;
  while (begin > 0 && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) --begin;
  return decode_utf8(text.data() + begin).code_point;
}

// \w of the regex dialect: letters, marks, decimal digits and letter numbers, connectors.
bool is_word(std::uint32_t c) {
  const Category category = category_of(c);
  return (unicode_classes()[c] & (kLetter | kMark)) != 0 || category == Category::Nd || category == Category::Nl ||
         category == Category::Pc;
}

bool is_space(std::uint32_t c) { return (unicode_classes()[c] & kSpace) != 0; }

}  // namespace

std::vector<std::int32_t> special_ids_of(const std::vector<AddedToken>& tokens) {
  std::vector<std::int32_t> ids;
  for (const AddedToken& token : tokens)
    if (token.special) ids.push_back(token.id);
  std::sort(ids.begin(), ids.end());
  return ids;
}

AddedTokenMatcher::AddedTokenMatcher(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  std::erase_if(tokens_, [](const AddedToken& t) { return t.content.empty(); });
  if (tokens_.empty()) return;
  nodes_.emplace_back();
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    std::int32_t node = 0;
    for (const char byte : tokens_[i].content) {
      std::int32_t child = child_of(node, byte);
      if (child < 0) {
        child = static_cast<std::int32_t>(nodes_.size());
        nodes_.push_back({-1, -1, nodes_[static_cast<std::size_t>(node)].child, byte});
        nodes_[static_cast<std::size_t>(node)].child = child;
      }
      node = child;
    }
    std::int32_t& token = nodes_[static_cast<std::size_t>(node)].token;
    if (token < 0) token = static_cast<std::int32_t>(i);
    first_[static_cast<unsigned char>(tokens_[i].content[0])] = true;
  }
  int distinct = 0;
  for (int b = 0; b < 256; ++b) {
    if (!first_[b]) continue;
    only_first_ = b;
    ++distinct;
  }
  if (distinct != 1) only_first_ = -1;
}

std::int32_t AddedTokenMatcher::child_of(std::int32_t node, char byte) const {
  std::int32_t child = nodes_[static_cast<std::size_t>(node)].child;
  while (child >= 0 && nodes_[static_cast<std::size_t>(child)].byte != byte) {
    child = nodes_[static_cast<std::size_t>(child)].sibling;
  }
  return child;
}

bool AddedTokenMatcher::stands_alone(std::string_view text, std::size_t begin, std::size_t end) const {
  std::size_t ignored = 0;
  if (begin > 0 && is_word(code_point_before(text, begin, ignored))) return false;
  return end == text.size() || !is_word(decode_utf8(text.data() + end).code_point);
}

AddedTokenMatcher::Match AddedTokenMatcher::find(std::string_view text, std::size_t from) const {
  if (tokens_.empty()) return {};
  for (std::size_t i = from; i < text.size(); ++i) {
    if (only_first_ >= 0) {
      const void* hit = std::memchr(text.data() + i, only_first_, text.size() - i);
      if (hit == nullptr) return {};
      i = static_cast<std::size_t>(static_cast<const char*>(hit) - text.data());
    } else if (!first_[static_cast<unsigned char>(text[i])]) {
      continue;
    }
    const AddedToken* best = nullptr;
    std::int32_t node = 0;
    for (std::size_t k = i; k < text.size(); ++k) {
      node = child_of(node, text[k]);
      if (node < 0) break;
      const std::int32_t token = nodes_[static_cast<std::size_t>(node)].token;
      if (token >= 0) best = &tokens_[static_cast<std::size_t>(token)];
    }
    if (best == nullptr) continue;
    Match match{i, i + best->content.size(), i + best->content.size(), best};
    if (best->single_word && !stands_alone(text, match.begin, match.end)) {
      i = match.end - 1;
      continue;
    }
    std::size_t before = 0;
    while (best->lstrip && match.begin > from && is_space(code_point_before(text, match.begin, before))) {
      match.begin = before;
    }
    while (best->rstrip && match.end < text.size()) {
      const Decoded d = decode_utf8(text.data() + match.end);
      if (!is_space(d.code_point)) break;
      match.end += d.size;
    }
    match.next = match.end;
    return match;
  }
  return {};
}

}  // namespace mt::tokenizer
