#include "tokenizer/unicode.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include <utf8proc.h>

#include "tokenizer/nfc.h"
#include "tokenizer/older_unicode.h"
#include "tokenizer/text_forms.h"

namespace mt::tokenizer {
namespace {

TEST(Unicode, knows_the_classes_of_version_16) {
  const std::uint8_t* classes = unicode_classes();
  EXPECT_EQ(classes[std::uint8_t{'a'}], kLetter | kLower);
  EXPECT_EQ(classes[std::uint8_t{'7'}], kNumber);
  EXPECT_EQ(classes[std::uint8_t{' '}], kSpace);
  EXPECT_EQ(classes[std::uint8_t{'!'}], kPunctuation);
  EXPECT_EQ(classes[std::uint8_t{'+'}], kSymbol);
  EXPECT_EQ(classes[0x0301], kMark);
  EXPECT_EQ(classes[0x00BD], kNumber);  // one half, No
  EXPECT_EQ(classes[0x2167], kNumber);  // Roman eight, Nl
  EXPECT_EQ(classes[0x4E2D], kLetter);
  for (const std::uint32_t space : {0x85u, 0xA0u, 0x2028u, 0x3000u}) EXPECT_TRUE(classes[space] & kSpace) << space;
  for (const std::uint32_t none : {0x180Eu, 0x200Bu, 0xFEFFu, 0x1Cu}) EXPECT_FALSE(classes[none] & kSpace) << none;
  EXPECT_EQ(classes[0x31350], kLetter);  // CJK extension H came with 15.0
  EXPECT_EQ(classes[0x1C89], kLetter | kUpper);   // Cyrillic capital TJE came with 16.0
  EXPECT_EQ(category_of(0x10FFFF), Category::Cn);
  EXPECT_EQ(category_of('_'), Category::Pc);
}

TEST(Utf8, the_first_bad_byte_is_found) {
  EXPECT_EQ(find_invalid_utf8("plain text of more than sixteen bytes"), std::string_view::npos);
  EXPECT_EQ(find_invalid_utf8("aé中😀"), std::string_view::npos);
  EXPECT_EQ(find_invalid_utf8("ab\xff"), 2u);
  EXPECT_EQ(find_invalid_utf8("0123456789abcdef\xc3"), 16u);  // cut off
  EXPECT_EQ(find_invalid_utf8("\xc0\x80"), 0u);               // overlong
  EXPECT_EQ(find_invalid_utf8("a\xed\xa0\x80"), 1u);          // surrogate
  EXPECT_EQ(find_invalid_utf8("\xf4\x90\x80\x80"), 0u);       // above 10FFFF
}

TEST(Utf8, code_points_go_and_come_back) {
  for (const std::uint32_t c : {0x24u, 0x7Fu, 0x80u, 0x7FFu, 0x800u, 0xFFFDu, 0x10000u, 0x10FFFFu}) {
    std::string text;
    append_utf8(c, text);
    EXPECT_EQ(find_invalid_utf8(text), std::string_view::npos);
    EXPECT_EQ(decode_utf8(text.data()).code_point, c);
    EXPECT_EQ(decode_utf8(text.data()).size, text.size());
  }
}

TEST(Nfc, composes_and_leaves_plain_text_alone) {
  std::string buffer;
  EXPECT_EQ(to_nfc("e\u0301", buffer), "é");
  EXPECT_EQ(to_nfc("\u212B", buffer), "Å");  // Angstrom sign
  EXPECT_EQ(to_nfc("\u1112\u1161\u11AB", buffer), "한");
  EXPECT_EQ(to_nfc("\uAC00\u11A7\u11A8", buffer), "\uAC00\u11A7\u11A8");  // one before the first final consonant
  EXPECT_EQ(to_nfc("\uAC00\u11A8", buffer), "\uAC01");
  EXPECT_TRUE(plainly_nfc("plain, déjà vu, да, 中文, かな, 한글, 😀 and sixteen more bytes"));
  EXPECT_FALSE(plainly_nfc("sixteen bytes and e\u0301"));
}

// The quick check may only pass what normalisation leaves alone, alone and after a letter it could compose with.
TEST(Nfc, quick_check_never_passes_text_that_would_change) {
  for (std::uint32_t c = 0; c < 0x30000; ++c) {
    if (c >= 0xD800 && c < 0xE000) continue;
    std::string text;
    append_utf8(c, text);
    if (!plainly_nfc(text)) continue;
    std::string buffer, forced;
    forced = std::string(to_nfc("x\u0301" + text, buffer));  // the accent makes the quick check step aside
    EXPECT_TRUE(forced.ends_with(text)) << std::hex << c;
  }
}

// Normalised stretch by stretch against the whole text at once, over code points that have forms, marks and Hangul.
TEST(NormalForms, stretches_give_what_the_whole_text_gives) {
  const std::pair<std::uint32_t, std::uint32_t> blocks[] = {{0x20, 0x7E},     {0xA0, 0x36F},    {0x370, 0x483},
                                                            {0x5D0, 0x655},   {0x900, 0x9FF},   {0xE30, 0xE4E},
                                                            {0x1100, 0x11FF}, {0x1E00, 0x1FFF}, {0x2000, 0x212F},
                                                            {0x3040, 0x30FF}, {0xAC00, 0xAC60}, {0xF900, 0xFAFF},
                                                            {0xFB00, 0xFB4F}, {0xFF00, 0xFFEF}, {0x1D15E, 0x1D1C0}};
  std::mt19937 random(12);
  for (int round = 0; round < 4000; ++round) {
    std::string text;
    for (auto n = random() % 40; n > 0; --n) {
      const auto& [first, last] = blocks[random() % std::size(blocks)];
      const std::uint32_t c = first + static_cast<std::uint32_t>(random()) % (last - first + 1);
      if (c != 0x11A7 && !is_in(kYoung, c) && !is_in(kOutsideForms, c)) append_utf8(c, text);
    }
    for (const auto& [form, options] : {std::pair{NormalForm::nfc, int{UTF8PROC_COMPOSE}},
                                        {NormalForm::nfd, int{UTF8PROC_DECOMPOSE}},
                                        {NormalForm::nfkc, UTF8PROC_COMPOSE | UTF8PROC_COMPAT},
                                        {NormalForm::nfkd, UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT}}) {
      utf8proc_uint8_t* whole = nullptr;
      const utf8proc_ssize_t size = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                                 static_cast<utf8proc_ssize_t>(text.size()), &whole,
                                                 static_cast<utf8proc_option_t>(UTF8PROC_STABLE | options));
      ASSERT_GE(size, 0);
      std::string out;
      append_normal_form(text, form, out);
      ASSERT_EQ(out, std::string(reinterpret_cast<char*>(whole), static_cast<std::size_t>(size)))
          << "form " << static_cast<int>(form) << " of " << text;
      std::free(whole);
      if (is_plainly(text, form)) {
        EXPECT_EQ(out, text);
      }
    }
  }
}

}  // namespace
}  // namespace mt::tokenizer
