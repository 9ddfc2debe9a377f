// Lists of tokens by rank: ids of tiktoken, and what is refused.

#include "tokenizer/tiktoken_file.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "tokenizer/split_pattern.h"
#include "peer_vectors.h"
#include "base/test_data.h"

namespace mt::tokenizer {
namespace {

using Ids = std::vector<Id>;

// The recorded ranks in the three layouts.
struct RankFiles {
  ScratchDirectory dir;
  std::vector<std::string> tokens;
  Json list = Json::array();
  RankFiles() {
    const Json ranks = peer_vectors("ranks").at(0);
    for (const Json& token : ranks.at("tokens")) {
      list.push_back({{"rank", tokens.size()}, {"token_bytes", token}, {"token_str", nullptr}});
      tokens.push_back(token);
    }
  }
  std::string lines() const {
    std::string all;
    for (std::size_t rank = 0; rank < tokens.size(); ++rank) all += fmt::format("{} {}\n", tokens[rank], rank);
    return dir.file("ranks.tiktoken", all);
  }
};

TokenizerSpec spec_of(const std::string& file, const std::string& pattern) {
  TokenizerSpec spec;
  spec.type = "TikTokenizer";
  spec.model = file;
  spec.tiktoken_pattern = pattern;
  return spec;
}

void expect_ids(const Tokenizer& tokenizer, const Json& cases, Id first) {
  EncodeScratch scratch;
  for (const Json& c : cases) {
    Ids ids, expected = c.at(1);
    for (Id& id : expected) id += first;
    tokenizer.encode(c.at(0).get<std::string>(), scratch, ids);
    EXPECT_EQ(ids, expected) << c.at(0);
    EXPECT_EQ(tokenizer.decode(ids), c.at(0).get<std::string>());
  }
}

TEST(Tiktoken, lines_and_lists_give_the_ids_of_the_package) {
  const RankFiles files;
  const std::vector<Json> all = peer_vectors("tiktoken");
  ASSERT_EQ(all.size(), 4u);
  for (const Json& j : all) {
    const std::string name = j.at("name");
    expect_ids(*make_tokenizer(spec_of(files.lines(), name)), j.at("cases"), 0);
    expect_ids(*make_tokenizer(spec_of(files.dir.file("list.json", files.list.dump()), name)), j.at("cases"), 1000);
  }
}

TEST(Tiktoken, a_list_has_megatrons_special_tokens_before_it) {
  const RankFiles files;
  const auto size = static_cast<Id>(files.tokens.size());
  TokenizerSpec spec = spec_of(files.dir.file("list.json", files.list.dump()), "");
  auto tokenizer = make_tokenizer(spec);
  EXPECT_EQ(tokenizer->vocab_size(), 1000 + size);
  EXPECT_EQ(tokenizer->eod(), 2);
  EXPECT_EQ(tokenizer->decode(Ids{2, 4, 7, 999, 1000 + 'x'}), "</s><pad><SPECIAL_7><SPECIAL_999>x");
  EXPECT_EQ(tokenizer->encode("</s>").size(), 4u);
  spec.parse_special = true;
  spec.tiktoken_num_special_tokens = 8;
  spec.vocab_size = 300;
  tokenizer = make_tokenizer(spec);
  EXPECT_EQ(tokenizer->vocab_size(), 300);
  EXPECT_EQ(tokenizer->encode("</s>x"), (Ids{2, 8 + 'x'}));
  spec.vocab_size = 100000;
  EXPECT_THROW(make_tokenizer(spec), Error);
  spec.vocab_size = 8;
  EXPECT_THROW(make_tokenizer(spec), Error);
}

TEST(Tiktoken, a_tekken_file_says_everything_itself) {
  const RankFiles files;
  const Json* o200k = nullptr;
  const std::vector<Json> all = peer_vectors("tiktoken");
  for (const Json& j : all) {
    if (j.at("name") == "o200k") o200k = &j;
  }
  ASSERT_NE(o200k, nullptr);
  Json tekken{{"config",
               {{"pattern", std::string(kO200kPattern)},
                {"default_vocab_size", 40 + files.tokens.size()},
                {"default_num_special_tokens", 40}}},
              {"vocab", files.list}};
  auto tokenizer = make_tokenizer(spec_of(files.dir.file("tekken.json", tekken.dump()), ""));
  expect_ids(*tokenizer, o200k->at("cases"), 40);
  EXPECT_EQ(tokenizer->eod(), 2);
  EXPECT_EQ(tokenizer->decode(Ids{3, 39}), "[INST]<SPECIAL_39>");
  tekken["special_tokens"] = Json::array({{{"rank", 0}, {"token_str", "<u>"}}, {{"rank", 1}, {"token_str", "</s>"}}});
  tokenizer = make_tokenizer(spec_of(files.dir.file("tekken.json", tekken.dump()), ""));
  EXPECT_EQ(tokenizer->eod(), 1);
  EXPECT_EQ(tokenizer->decode(Ids{0, 2}), "<u><SPECIAL_2>");
}

TEST(Tiktoken, of_equal_bytes_the_leftmost_pair_goes_first_whatever_its_parts) {
  const ScratchDirectory dir;
  std::string lines;
  for (int b = 0; b < 256; ++b) {
    const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    lines += fmt::format("{}{}== {}\n", digits[b >> 2], digits[(b & 3) << 4], b);
  }
  lines += "YWE= 256\nYWFh 257\n";  // aa, aaa
  const auto tokenizer = make_tokenizer(spec_of(dir.file("x.tiktoken", lines), "[^ ]+"));
  EXPECT_EQ(tokenizer->encode("aaaa"), (Ids{256, 256}));
  EXPECT_EQ(tokenizer->encode("aaa"), (Ids{257}));  // the piece is a token
  EXPECT_EQ(tokenizer->encode("aaaaa"), (Ids{256, 257}));
}

TEST(Tiktoken, what_is_wrong_is_named) {
  const RankFiles files;
  const auto refusal = [](const TokenizerSpec& spec) {
    try {
      make_tokenizer(spec);
      return std::string("accepted");
    } catch (const Error& e) {
      return std::string(e.what());
    }
  };
  const auto has = [](const std::string& text, const char* word) { return text.find(word) != std::string::npos; };
  EXPECT_TRUE(has(refusal(spec_of(files.lines(), "")), "--tiktoken-pattern"));
  EXPECT_TRUE(has(refusal(spec_of(files.dir.file("a.tiktoken", "YQ== 0\n"), "v1")), "byte 0x00"));
  EXPECT_TRUE(has(refusal(spec_of(files.dir.file("a.tiktoken", "YQ==0\n"), "v1")), "line 1"));
  EXPECT_TRUE(has(refusal(spec_of(files.dir.file("a.tiktoken", "Y?== 0\n"), "v1")), "base64"));
  EXPECT_TRUE(has(refusal(spec_of(files.dir.file("a.tiktoken", "YQ== 0\nYg== 0\n"), "v1")), "token id 0"));
  EXPECT_TRUE(has(refusal(spec_of(files.dir.file("a.json", "{}"), "")), "config and vocab"));
  EXPECT_TRUE(has(refusal(spec_of(files.dir.file("a.json", R"([{"rank": 1, "token_bytes": "YQ=="}])"), "")), "token 0"));
  TokenizerSpec spec = spec_of(files.lines(), "v2");
  EXPECT_FALSE(make_tokenizer(spec)->eod());
  spec.eod_token = "<none>";
  EXPECT_TRUE(has(refusal(spec), "<none>"));
}

}  // namespace
}  // namespace mt::tokenizer
