#pragma once
// Tokens that are cut out of the text before the model sees it: <|endoftext|>, <|im_start|>, runs of spaces ...
//
// Longest match at the leftmost place, as Hugging Face's tokenizers do it; lstrip and rstrip swallow white space beside
// the match, single_word drops a match that touches a word character.
// Code: tokenizer/added_tokens.cc. Tests: tests/tokenizer/added_tokens_test.cc.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mt::tokenizer {

struct AddedToken {
  std::string content;
  std::int32_t id = 0;
  bool special = true;      // a control token: plain text unless special strings are parsed
  bool normalized = false;  // searched in the normalised text, not in the raw text
  bool lstrip = false, rstrip = false, single_word = false;
};

// Ids of the special ones, ascending.
std::vector<std::int32_t> special_ids_of(const std::vector<AddedToken>& tokens);

class AddedTokenMatcher {
 public:
  AddedTokenMatcher() = default;
  // Tokens with empty content are ignored.   cost  one trie node a distinct prefix
  explicit AddedTokenMatcher(std::vector<AddedToken> tokens);

  bool empty() const { return tokens_.empty(); }

  struct Match {
    std::size_t begin = 0, end = 0;  // what it covers, stripped space included
    std::size_t next = 0;            // where to search on
    const AddedToken* token = nullptr;
  };
  // The next match at or after `from`, or token == null.
  //   gives  matches that fail single_word are passed over
  //   cost   one memchr when all tokens start with the same byte, else a table look-up a byte
  Match find(std::string_view text, std::size_t from) const;

 private:
  struct Node {
    std::int32_t token = -1, child = -1, sibling = -1;
    char byte = 0;
  };
  std::int32_t child_of(std::int32_t node, char byte) const;
  bool stands_alone(std::string_view text, std::size_t begin, std::size_t end) const;
  std::vector<AddedToken> tokens_;
  std::vector<Node> nodes_;
  bool first_[256] = {};
  int only_first_ = -1;  // the one first byte, or -1
};

// Walk the text between matches and the matches. `token(token, emit)` says whether a token counts: with emit false it is
// asked, and where it says no the match stays text; with emit true it stands at its place in the order.
template <class Gap, class Token>
void for_each_segment(const AddedTokenMatcher& matcher, std::string_view text, Gap gap, Token token) {
  std::size_t done = 0, from = 0;
  while (!matcher.empty()) {
    const AddedTokenMatcher::Match match = matcher.find(text, from);
    if (match.token == nullptr) break;
    from = match.next;
    if (!token(*match.token, false)) continue;
    gap(text.substr(done, match.begin - done));
    token(*match.token, true);
    done = match.end;
  }
  gap(text.substr(done));
}

// The `token` of for_each_segment in an encoder: special ones count only when they are parsed, else they are counted as
// text; what counts goes to `out`.
struct TakeAdded {
  bool parse_special;
  std::int64_t& specials_as_text;
  std::vector<std::int32_t>& out;
  bool operator()(const AddedToken& t, bool emit) const {
    if (t.special && !parse_special) {
      ++specials_as_text;
      return false;
    }
    if (emit) out.push_back(t.id);
    return true;
  }
};

// Those searched in the raw text and those searched in the normalised one.
class AddedTokens {
 public:
  AddedTokens() = default;
  // normal(content)   gives  what it is in normalised text
  template <class Normal>
  AddedTokens(const std::vector<AddedToken>& tokens, Normal normal) {
    std::vector<AddedToken> raw, normalized;
    for (const AddedToken& token : tokens) {
      (token.normalized ? normalized : raw).push_back(token);
      if (token.normalized) normalized.back().content = normal(token.content);
    }
    raw_ = AddedTokenMatcher(std::move(raw));
    normalized_ = AddedTokenMatcher(std::move(normalized));
  }

  // normalize(segment) gives the normalised segment; plain(text, at_start) takes what lies between tokens, normalised.
  template <class Normalize, class Plain>
  void walk(std::string_view text, const TakeAdded& take, Normalize normalize, Plain plain) const {
    for_each_segment(
        raw_, text,
        [&](std::string_view segment) {
          if (segment.empty()) return;
          const bool first = segment.data() == text.data();
          const std::string_view whole = normalize(segment);
          for_each_segment(
              normalized_, whole, [&](std::string_view s) { plain(s, first && s.data() == whole.data()); }, take);
        },
        take);
  }

 private:
  AddedTokenMatcher raw_, normalized_;
};

}  // namespace mt::tokenizer
