#include "tokenizer/added_tokens.h"

#include <gtest/gtest.h>

namespace mt::tokenizer {
namespace {

AddedToken token(const std::string& content, std::int32_t id) {
  AddedToken t;
  t.content = content;
  t.id = id;
  return t;
}

std::string show(const AddedTokenMatcher& matcher, std::string_view text) {
  std::string out;
  std::size_t done = 0;
  for (auto m = matcher.find(text, 0); m.token != nullptr; m = matcher.find(text, m.next)) {
    out += std::string(text.substr(done, m.begin - done)) + "[" + std::to_string(m.token->id) + "]";
    done = m.end;
  }
  return out + std::string(text.substr(done));
}

TEST(AddedTokens, take_the_longest_at_the_leftmost_place) {
  const AddedTokenMatcher matcher({token("<a", 1), token("<a>", 2), token("<a><b>", 3), token("b>c", 4)});
  EXPECT_EQ(show(matcher, "x<a><b>y<a>z<a<ab>c"), "x[3]y[2]z[1][1][4]");
  EXPECT_EQ(show(matcher, ""), "");
  EXPECT_EQ(show(matcher, "<"), "<");
}

TEST(AddedTokens, one_first_byte_is_searched_as_well_as_many) {
  EXPECT_EQ(show(AddedTokenMatcher({token("<x>", 1)}), "a<b<x><x>"), "a<b[1][1]");
  EXPECT_EQ(show(AddedTokenMatcher({token("<x>", 1), token("  ", 2)}), "a  <x> "), "a[2][1] ");
}

TEST(AddedTokens, strip_swallows_white_space_beside_the_match) {
  AddedToken left = token("<m>", 1), right = token("<n>", 2);
  left.lstrip = true;
  right.rstrip = true;
  const AddedTokenMatcher matcher({left, right});
  EXPECT_EQ(show(matcher, "a \u3000<m> b<n> \n c"), "a[1] b[2]c");
  EXPECT_EQ(show(matcher, "<n>  <m>"), "[2][1]");
}

TEST(AddedTokens, single_word_needs_word_borders) {
  AddedToken word = token("cat", 1);
  word.single_word = true;
  const AddedTokenMatcher matcher({word});
  EXPECT_EQ(show(matcher, "cat concat cats cat_ (cat) écat"), "[1] concat cats cat_ ([1]) écat");
}

}  // namespace
}  // namespace mt::tokenizer
