// Sentences: each rule with a text that would be cut otherwise.

#include "data/sentence_splitter.h"

#include <string>

#include <gtest/gtest.h>

namespace mt::data {
namespace {

using Sentences = std::vector<std::string>;

Sentences split(const std::string& text, bool keep_space = false) {
  std::vector<std::string_view> views;
  split_sentences(text, keep_space, views);
  return {views.begin(), views.end()};
}

TEST(SentenceSplitter, ends_behind_marks_and_their_closing_quotes) {
  EXPECT_EQ(split("One. Two! Three?  Four"), (Sentences{"One.", "Two!", "Three?", "Four"}));
  EXPECT_EQ(split("He said \"No.\" Then (he left.) She stayed?!  \u201cReally\u2026\u201d Yes."),
            (Sentences{"He said \"No.\"", "Then (he left.)", "She stayed?!", "\u201cReally\u2026\u201d", "Yes."}));
  EXPECT_EQ(split("It costs 3.50 at example.com. Cheap."), (Sentences{"It costs 3.50 at example.com.", "Cheap."}));
}

TEST(SentenceSplitter, does_not_end_at_abbreviations_initials_and_small_letters) {
  EXPECT_EQ(split("Dr. Smith met J. R. Jones, e.g. at noon. They spoke."),
            (Sentences{"Dr. Smith met J. R. Jones, e.g. at noon.", "They spoke."}));
  EXPECT_EQ(split("What? asked she. No. 5 was out. In the U.S. There."),
            (Sentences{"What? asked she.", "No. 5 was out.", "In the U.S.", "There."}));
  EXPECT_EQ(split("She said no. Then she left."), (Sentences{"She said no.", "Then she left."}));
  EXPECT_EQ(split("1. First point. 2. Second point. It was 1990. Then came more."),
            (Sentences{"1. First point.", "2. Second point.", "It was 1990.", "Then came more."}));
  EXPECT_EQ(split("Smith Jr."), (Sentences{"Smith Jr."}));
}

TEST(SentenceSplitter, empty_lines_end_and_single_line_feeds_do_not) {
  EXPECT_EQ(split("Heading\n\nA line\nand more.\n \t\nEnd"), (Sentences{"Heading", "A line\nand more.", "End"}));
  EXPECT_EQ(split("\r\n One.\r\nTwo.\r\n"), (Sentences{"One.", "Two."}));
}

TEST(SentenceSplitter, full_width_marks_need_no_space) {
  EXPECT_EQ(split("\u4f60\u597d\u3002\u518d\u89c1\uff01\u300d\u597d"),
            (Sentences{"\u4f60\u597d\u3002", "\u518d\u89c1\uff01\u300d", "\u597d"}));
}

TEST(SentenceSplitter, kept_space_stays_behind_its_sentence_and_nothing_else_is_lost) {
  const std::string text = "One.  Two.\nThree\n\nFour.\n";
  const Sentences kept = split(text, true);
  EXPECT_EQ(kept, (Sentences{"One.  ", "Two.\n", "Three\n\n", "Four.\n"}));
  std::string joined;
  for (const std::string& s : kept) joined += s;
  EXPECT_EQ(joined, text);
  EXPECT_EQ(split("  \n\n "), Sentences{});
  EXPECT_EQ(split(""), Sentences{});
}

TEST(SentenceSplitter, long_texts_are_cut_at_a_million_characters_first) {
  const std::string text = std::string(999999, 'a') + "\u00e9" + "bc";  // the cut counts characters, not bytes
  EXPECT_EQ(split(text), (Sentences{std::string(999999, 'a') + "\u00e9", "bc"}));
}

}  // namespace
}  // namespace mt::data
