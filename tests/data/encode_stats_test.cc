// The numbers of --stats, counted by hand, and the same after a resume.

#include "data/encode_stats.h"

#include <gtest/gtest.h>

#include "tokenizer/byte_tokenizer.h"
#include "data/encode_corpus.h"
#include "base/test_data.h"

namespace mt::data {
namespace {

TEST(EncodeStats, counts_lengths_places_and_tokens) {
  const ScratchDirectory dir;
  EncodeJob job;
  job.source.inputs = {dir.file("a.jsonl", "{\"text\":\"\"}\n{\"text\":\"b\"}\n{\"text\":\"bb\"}\n"),
                       dir.file("b.jsonl", "{\"text\":[\"bcd\",\"e\"]}\n\n{\"text\":\"\xC3\xA9\"}\n")};
  job.source.chunk_bytes = 8;
  job.output_prefix = dir / "out";
  job.stats = true;
  job.workers = 3;
  const Json stats = encode_corpus(job, tokenizer::ByteTokenizer()).stats;
  EXPECT_EQ(stats.at("text_bytes"), 9);
  EXPECT_EQ(stats.at("bytes_per_token"), 1.0);
  EXPECT_TRUE(stats.at("unknown_tokens").is_null());
  EXPECT_EQ(stats.at("distinct_tokens"), 6);
  const Json lengths = {{{"from", 0}, {"to", 0}, {"documents", 1}},
                        {{"from", 1}, {"to", 1}, {"documents", 1}},
                        {{"from", 2}, {"to", 3}, {"documents", 2}},
                        {{"from", 4}, {"to", 7}, {"documents", 1}}};
  EXPECT_EQ(stats.at("lengths"), lengths);
  const Json& longest = stats.at("longest");
  EXPECT_EQ(longest.size(), 5u);
  EXPECT_EQ(longest[0], (Json{{"tokens", 4}, {"file", job.source.inputs[1]}, {"line", 1}}));
  EXPECT_EQ(longest[1], (Json{{"tokens", 2}, {"file", job.source.inputs[0]}, {"line", 3}}));
  EXPECT_EQ(longest[2], (Json{{"tokens", 2}, {"file", job.source.inputs[1]}, {"line", 3}}));
  EXPECT_EQ(stats.at("top_tokens")[0], (Json{{"id", 'b'}, {"count", 4}}));
  EXPECT_EQ(stats.at("top_tokens")[1], (Json{{"id", 'c'}, {"count", 1}}));
}

TEST(EncodeStats, the_longest_are_the_first_ten_of_all_in_whatever_parts) {
  LengthStats whole, parts;
  for (int part = 0; part < 6; ++part) {
    LengthStats some;
    for (int i = 0; i < 30; ++i) {
      const std::int64_t tokens = (part * 30 + i) * 7 % 23, line = part * 30 + i;
      whole.add(tokens, line);
      some.add(tokens, line);
    }
    parts.add(some);
  }
  ASSERT_EQ(parts.longest.size(), kLongestListed);
  EXPECT_EQ(parts.documents, whole.documents);
  for (std::size_t i = 0; i < kLongestListed; ++i) {
    EXPECT_EQ(parts.longest[i].tokens, whole.longest[i].tokens);
    EXPECT_EQ(parts.longest[i].line, whole.longest[i].line);
  }
  EXPECT_EQ(whole.longest[0].tokens, 22);
}

}  // namespace
}  // namespace mt::data
