#include "data/blend.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "test_data.h"

namespace mt::data {
namespace {

std::string write_file(const ScratchDirectory& dir, const std::string& name, int documents, std::int32_t id) {
  const std::string prefix = dir / name;
  IndexedWriter writer(prefix, TokenType::u16, false);
  for (int d = 0; d < documents; ++d) {
    writer.add_sequence(std::vector<std::int32_t>(20, id));
    writer.end_document();
  }
  writer.commit(std::nullopt);
  return prefix;
}

TEST(DataPath, is_prefixes_or_weights_and_prefixes) {
  EXPECT_EQ(parse_data_path({"a"}).prefixes, std::vector<std::string>{"a"});
  EXPECT_EQ(parse_data_path({"a", "b"}).prefixes.size(), 2u);
  EXPECT_EQ(parse_data_path({"1", "2", "3"}).prefixes.size(), 3u);
  const DataPath weighted = parse_data_path({"0.3", "a", "7", "b"});
  EXPECT_EQ(weighted.prefixes, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(weighted.weights, (std::vector<double>{0.3, 7}));
  EXPECT_THROW(parse_data_path({"0.3", "a", "b", "c"}), Error);
  EXPECT_THROW(parse_data_path({"-1", "a"}), Error);
  EXPECT_THROW(parse_data_path({"0", "a"}), Error);
  EXPECT_THROW(parse_data_path({}), Error);
}

TEST(Split, shares_are_normalised_and_ranges_touch) {
  const auto shares = parse_split("969, 30, 1");
  EXPECT_DOUBLE_EQ(shares[0], 0.969);
  const auto ranges = split_ranges(shares, 1000);
  EXPECT_EQ(ranges[0].end, 969);
  EXPECT_EQ(ranges[1].begin, 969);
  EXPECT_EQ(ranges[1].end, 999);
  EXPECT_EQ(ranges[2].end, 1000);
  const auto halves = split_ranges(parse_split("1,1"), 5);  // 2.5 goes to the even 2
  EXPECT_EQ(halves[0].end, 2);
  EXPECT_EQ(halves[2].begin, halves[2].end);
}

TEST(Split, a_wrong_share_is_named) {
  const std::vector<std::pair<std::string, std::string>> rows = {
      {"a,b", "'a'"},     {"abc", "'abc'"},     {"9x,1", "'9x'"},     {"nan,1,1", "'nan'"},
      {"1,inf", "'inf'"}, {"1,-1", "'-1'"},     {"0,0", "sum to 0"},  {"", "no share"},
      {",", "no share"},  {"1,2,3,4", "three"}, {"1e400,1", "1e400"}, {"1e308,1e308", "sum to inf"}};
  for (const auto& [text, word] : rows) {
    try {
      parse_split(text);
      ADD_FAILURE() << text;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Code::usage);
      EXPECT_NE(e.message().find(word), std::string::npos) << e.what();
    }
  }
  EXPECT_DOUBLE_EQ(parse_split("9.5 0.5")[0], 0.95);
}

TEST(Blend, draws_the_member_furthest_behind) {
  using Members = std::vector<std::int16_t>;
  EXPECT_EQ(blend_order(std::vector<double>{.5, .25, .25}, 12).member, (Members{0, 1, 2, 0, 0, 1, 2, 0, 0, 1, 2, 0}));
  const BlendOrder order = blend_order(std::vector<double>{.3, .7}, 12);
  EXPECT_EQ(order.member, (Members{1, 0, 1, 1, 0, 1, 1, 0, 1, 1, 0, 1}));
  EXPECT_EQ(order.ordinal, (std::vector<std::int64_t>{0, 0, 1, 2, 1, 3, 4, 2, 5, 6, 3, 7}));
}

TEST(Splits, a_blend_fetches_from_its_members) {
  const ScratchDirectory dir;
  SplitsRequest request;
  request.path = parse_data_path({"0.3", write_file(dir, "a", 50, 1), "0.7", write_file(dir, "b", 50, 2)});
  request.split = "90,10";
  request.seq_length = 8;
  request.num_samples = {40, 5, 0};
  const Splits splits = build_splits(request);
  ASSERT_TRUE(splits.train && splits.valid);
  EXPECT_FALSE(splits.test);
  EXPECT_GE(splits.train->size(), 40);
  std::vector<std::int32_t> out(9);
  for (std::int64_t k = 0; k < splits.train->size(); ++k) {
    splits.train->fetch(k, out);
    EXPECT_EQ(out, std::vector<std::int32_t>(9, static_cast<std::int32_t>(splits.train->place(k).first) + 1));
  }
}

TEST(Splits, a_split_that_rounds_to_nothing_is_named_with_a_way_out) {
  const ScratchDirectory dir;
  SplitsRequest request;
  request.path = parse_data_path({write_file(dir, "a", 3, 1)});
  request.split = "9998,1,1";
  request.seq_length = 8;
  request.num_samples = {4, 2, 0};
  try {
    build_splits(request);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::config);
    EXPECT_NE(e.message().find("validation set gets 0 of 3 documents"), std::string::npos) << e.what();
    EXPECT_NE(e.hint().find("--split 1,1,1"), std::string::npos) << e.what();
  }
  request.num_samples = {4, 0, 0};  // evaluation off
  EXPECT_GE(build_splits(request).train->size(), 4);
  request.split = "1,1,1";
  request.num_samples = {4, 2, 1};
  EXPECT_TRUE(build_splits(request).test);
}

}  // namespace
}  // namespace mt::data
