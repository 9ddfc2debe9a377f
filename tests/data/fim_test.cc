// Fill-in-middle against Megatron's own code, and what must come back out of it.

#include "data/fim.h"

#include <cmath>

#include <gtest/gtest.h>

#include "base/error.h"
#include "tokenizer/bpe_trainer.h"
#include "tokenizer/byte_tokenizer.h"
#include "tokenizer/tokenizer_json.h"
#include "golden_samples.h"
#include "base/test_data.h"

namespace mt::data {
namespace {

FimOptions numbered() {
  FimOptions o;
  o.prefix_token = "9001";
  o.middle_token = "9002";
  o.suffix_token = "9003";
  o.pad_token = "9004";
  o.eod_token = "9999";
  return o;
}

TEST(Fim, makes_megatrons_samples) {
  const tokenizer::NullTokenizer tokenizer(10000);
  int changed = 0, padded = 0;
  for (const auto& row : golden_rows("fim.tsv")) {
    FimOptions o = numbered();
    o.rate = std::stod(row[1]);
    o.spm_rate = std::stod(row[2]);
    if (row[3] != "-") o.split_sample = row[3];
    if (row[4] != "-") o.fragment_rate = std::stod(row[4]);
    if (row[5] != "-") o.no_prefix = row[5];
    std::vector<Id> sample = numbers<Id>(row[6]);
    const std::vector<Id> before = sample, expected = numbers<Id>(row[7]);
    const FimTransform fim(o, tokenizer, 1000);
    const std::int64_t real = fim.apply(std::stoll(row[0]) - 1000, sample, std::ssize(sample));
    EXPECT_EQ(sample, expected) << row[0];
    EXPECT_EQ(real, std::ssize(sample) - std::count(expected.begin(), expected.end(), 9004)) << row[0];
    changed += sample != before ? 1 : 0;
    padded += real < std::ssize(sample) ? 1 : 0;
  }
  EXPECT_GE(changed, 15);
  EXPECT_GE(padded, 1);
}

// A byte-level BPE that has the tokens.
class FimText : public testing::Test {
 protected:
  FimText() {
    tokenizer::BpeTrainer trainer({300, 0, {"<|endoftext|>", "<fim_prefix>", "<fim_middle>", "<fim_suffix>", "<fim_pad>", "<file>"}});
    trainer.add("the quick brown fox jumps over the lazy dog, the dog sleeps on; \u00fcber den Wolken \u4e2d\u6587");
    tokenizer::write_tokenizer_json(dir_ / "t.json", trainer.train(), false);
    tokenizer::TokenizerSpec spec;
    spec.model = dir_ / "t.json";
    tokenizer_ = tokenizer::make_tokenizer(spec);
  }
  Id id(const char* token) const { return *tokenizer_->find(token); }

  // prefix + middle + suffix of one changed stretch, or the ids as they are.
  std::string restored(std::span<const Id> ids, bool& spm) const {
    const auto at = [&](Id token) { return std::find(ids.begin(), ids.end(), token) - ids.begin(); };
    const auto text = [&](std::ptrdiff_t begin, std::ptrdiff_t end) {
      return tokenizer_->decode(ids.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin)));
    };
    const auto pre = at(id("<fim_prefix>")), suf = at(id("<fim_suffix>")), mid = at(id("<fim_middle>"));
    if (pre == std::ssize(ids)) return tokenizer_->decode(ids);
    spm = suf == pre + 1;
    if (!spm) return text(pre + 1, suf) + text(mid + 1, std::ssize(ids)) + text(suf + 1, mid);
    return text(mid + 1, std::ssize(ids)) + text(suf + 1, mid);  // prefix and middle stand together
  }

  ScratchDirectory dir_;
  std::unique_ptr<tokenizer::Tokenizer> tokenizer_;
};

const std::string kText = "the quick brown fox \u4e2d\u6587 jumps over \u00fcber the lazy dog";

TEST_F(FimText, order_and_sentinels_taken_back_give_the_text) {
  FimOptions o;
  o.rate = 1;
  const FimTransform fim(o, *tokenizer_, 1234);
  int spms = 0;
  for (std::int64_t k = 0; k < 300; ++k) {
    std::vector<Id> sample = tokenizer_->encode(kText);
    const auto text = static_cast<std::int64_t>(sample.size());
    sample.resize(sample.size() + 24);  // room for what grows
    std::vector<Id> big = sample;
    // The end of the sample is a document of its own, so that nothing of the first is cut off.
    std::fill(big.begin() + text, big.end(), id("<|endoftext|>"));
    const std::int64_t real = fim.apply(k, big, std::ssize(big));
    const auto end = std::find(big.begin(), big.begin() + real, id("<|endoftext|>"));
    bool spm = false;
    EXPECT_EQ(restored({big.begin(), end}, spm), kText) << k;
    spms += spm ? 1 : 0;
  }
  EXPECT_NEAR(spms / 300.0, 0.5, 4 * std::sqrt(0.25 / 300));
}

TEST_F(FimText, changes_as_many_as_the_rate_says_and_the_same_ones_each_time) {
  FimOptions o;
  o.rate = 0.3;
  const FimTransform fim(o, *tokenizer_, 99), again(o, *tokenizer_, 99), other(o, *tokenizer_, 100);
  int changed = 0, differ = 0;
  for (std::int64_t k = 3999; k >= 0; --k) {  // in another order than any run
    const std::vector<Id> before = tokenizer_->encode(kText);
    std::vector<Id> a = before, b = before, c = before;
    fim.apply(k, a, std::ssize(a));
    again.apply(k, b, std::ssize(b));
    other.apply(k, c, std::ssize(c));
    EXPECT_EQ(a, b);
    changed += a != before ? 1 : 0;
    differ += a != c ? 1 : 0;
  }
  EXPECT_NEAR(changed / 4000.0, 0.3, 4 * std::sqrt(0.21 / 4000));
  EXPECT_GT(differ, 400);
}

TEST_F(FimText, leaves_special_tokens_out_and_text_with_the_prefix_alone) {
  FimOptions o;
  o.rate = 1;
  o.spm_rate = 0;
  const FimTransform fim(o, *tokenizer_, 1);
  std::vector<Id> sample = tokenizer_->encode("abc");
  sample.insert(sample.begin() + 1, id("<file>"));
  sample.resize(sample.size() + 6, id("<|endoftext|>"));
  fim.apply(0, sample, std::ssize(sample));
  EXPECT_EQ(std::count(sample.begin(), sample.end(), id("<file>")), 0);

  o.no_prefix = "abc";
  const FimTransform careful(o, *tokenizer_, 1);
  std::vector<Id> same = tokenizer_->encode("abcdef");
  const std::vector<Id> before = same;
  EXPECT_EQ(careful.apply(0, same, std::ssize(same)), std::ssize(same));
  EXPECT_EQ(same, before);
  EXPECT_EQ(careful.apply(0, std::span(same).first(0), 0), 0);
}

TEST_F(FimText, characters_cut_off_by_the_sample_are_replaced) {
  FimOptions o;
  o.rate = 1;
  const FimTransform fim(o, *tokenizer_, 1);
  std::vector<Id> sample = tokenizer::ByteTokenizer().encode("x");  // any id; then half a character
  sample = tokenizer_->encode("ab\u4e2d");
  sample.erase(sample.begin() + 2);  // if bytes are tokens, the character begins in the middle
  EXPECT_NO_THROW(fim.apply(5, sample, std::ssize(sample)));
}

TEST(Fim, replaces_what_is_no_utf8_as_lossy_readers_do) {
  const std::string fffd = "\xEF\xBF\xBD";
  EXPECT_EQ(replace_invalid_utf8("a\xff" "b"), "a" + fffd + "b");
  EXPECT_EQ(replace_invalid_utf8("\xe4\xb8" "b"), fffd + "b");            // the beginning of a character is one
  EXPECT_EQ(replace_invalid_utf8("\xb8\xad"), fffd + fffd);               // its end is one a byte
  EXPECT_EQ(replace_invalid_utf8("\xed\xa0\x80"), fffd + fffd + fffd);    // a surrogate
  EXPECT_EQ(replace_invalid_utf8("\xf0\x9f\x98"), fffd);
  EXPECT_EQ(replace_invalid_utf8("\u4e2d"), "\u4e2d");
  EXPECT_EQ(replace_invalid_utf8(""), "");
}

TEST_F(FimText, names_the_flag_of_a_token_that_is_not_there) {
  const auto refused = [&](auto change, const std::string& word) {
    FimOptions o;
    change(o);
    try {
      FimTransform(o, *tokenizer_, 1);
      ADD_FAILURE() << word;
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find(word), std::string::npos) << e.what();
    }
  };
  refused([](FimOptions& o) { o.prefix_token = "<PRE>"; }, "--fim-prefix-token");
  refused([](FimOptions& o) { o.pad_token = "<PAD>"; }, "--fim-pad-token");
  refused([](FimOptions& o) { o.eod_token = "</s>"; }, "--fim-eod-token");
  refused([](FimOptions& o) { o.rate = 1.5; }, "--fim-rate");
  refused([](FimOptions& o) { o.split_sample = "<file>"; }, "--fim-fragment-rate");
  refused([](FimOptions& o) { o.fragment_rate = 0.5; }, "--fim-split-sample");
  FimOptions o;
  o.split_sample = "<file>";
  o.fragment_rate = 0.5;
  EXPECT_NO_THROW(FimTransform(o, *tokenizer_, 1));
  EXPECT_THROW(FimTransform(FimOptions(), tokenizer::ByteTokenizer(), 1), Error);
}

}  // namespace
}  // namespace mt::data
