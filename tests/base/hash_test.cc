#include "base/hash.h"

#include <string>

#include <gtest/gtest.h>

namespace mt {
namespace {

// XXH3_64bits of the empty input with seed 0, from the xxHash specification's test values.
TEST(Hash, EmptyInputHasThePublishedValue) { EXPECT_EQ(hash_text(xxh3("")), "2d06800538d394c2"); }

TEST(Hash, StreamEqualsOneCallWhateverTheCuts) {
  std::string text;
  for (int i = 0; i < 5000; ++i) text += static_cast<char>(i * 31);
  for (const std::size_t cut : {0ul, 1ul, 255ul, 256ul, 257ul, 4999ul, 5000ul}) {
    Xxh3Stream s;
    s.update(text.data(), cut);
    s.update(text.data() + cut, text.size() - cut);
    EXPECT_EQ(s.digest(), xxh3(text)) << cut;
  }
}

TEST(Hash, TextIsSixteenDigits) { EXPECT_EQ(hash_text(0xab), "00000000000000ab"); }

}  // namespace
}  // namespace mt
