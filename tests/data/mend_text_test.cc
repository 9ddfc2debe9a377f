// Replacement characters: where they stand, and records that become readable by them.

#include "data/mend_text.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "tokenizer/byte_tokenizer.h"
#include "data/encode_corpus.h"
#include "base/test_data.h"

namespace mt::data {
namespace {

const std::string kR = "\xEF\xBF\xBD";

std::string replaced(std::string_view text, std::int64_t wanted) {
  std::string out = "kept:";
  EXPECT_EQ(replace_invalid_utf8(text, out), wanted) << text;
  return out.substr(5);
}

// Expected values are those of Python 3: bytes.decode("utf-8", "replace").
TEST(MendText, one_character_stands_for_each_broken_run_of_bytes) {
  EXPECT_EQ(replaced("plain \u00e9 \u20ac \U0001F600", 0), "plain \u00e9 \u20ac \U0001F600");
  EXPECT_EQ(replaced("a\xFF" "b", 1), "a" + kR + "b");
  EXPECT_EQ(replaced("\xC0\xAF", 2), kR + kR);
  EXPECT_EQ(replaced("\xE2\x82" "a", 1), kR + "a");
  EXPECT_EQ(replaced("\xF0\x9F\x98", 1), kR);
  EXPECT_EQ(replaced("\xF0\x9F\x98" "\xE2\x82\xAC", 1), kR + "\u20ac");
  EXPECT_EQ(replaced("\xED\xA0\x80", 3), kR + kR + kR);
  EXPECT_EQ(replaced("\xF4\x90\x80\x80", 4), kR + kR + kR + kR);
  EXPECT_EQ(replaced("\xE0\x80\x80", 3), kR + kR + kR);
  EXPECT_EQ(replaced("\x80\x80", 2), kR + kR);
  EXPECT_EQ(replaced("\xC3", 1), kR);
}

// What Python 3.11's json.loads takes: the same records with these numbers as 0.
TEST(MendText, numbers_that_only_python_reads_become_0) {
  const auto taken = [](std::string_view record, std::int64_t wanted) {
    std::string out;
    EXPECT_EQ(take_python_numbers(record, out), wanted) << record;
    return out;
  };
  EXPECT_EQ(taken(R"({"a":NaN,"b":[-Infinity, Infinity],"c":1e999})", 4), R"({"a":0,"b":[0, 0],"c":0})");
  EXPECT_EQ(taken(R"({"a":123456789012345678901234567890,"b":-1.5e-3,"c":123456789012345678})", 1),
            R"({"a":0,"b":-1.5e-3,"c":123456789012345678})");
  EXPECT_EQ(taken(R"({"NaN \" 1e999":"Infinity \\", "x":NaN})", 1), R"({"NaN \" 1e999":"Infinity \\", "x":0})");
  EXPECT_EQ(taken(R"([nan, 01, +1, 1e5])", 0), "[nan, 01, +1, 1e5]");
  EXPECT_EQ(taken("[\"open 1e999", 0), "[\"open 1e999");
}

TEST(MendText, surrogates_are_replaced_where_they_are_no_pair) {
  const auto mended = [](std::string_view record, std::int64_t wanted) {
    std::string out;
    EXPECT_EQ(mend_json(record, out), wanted) << record;
    return out;
  };
  EXPECT_EQ(mended(R"({"a":"\ud83d\ude00 \\ud800 \u0041"})", 0), R"({"a":"\ud83d\ude00 \\ud800 \u0041"})");
  EXPECT_EQ(mended(R"(["\ud83d"])", 1), R"(["\uFFFD"])");
  EXPECT_EQ(mended(R"(["\ude00\ud83d"])", 2), R"(["\uFFFD\uFFFD"])");
  EXPECT_EQ(mended(R"(["\ud83d\ud83d\ude00"])", 1), R"(["\uFFFD\ud83d\ude00"])");
  EXPECT_EQ(mended(R"(["\\\ud83d\n"])", 1), R"(["\\\uFFFD\n"])");
  EXPECT_EQ(mended("\xEF\xBB\xBF{\"a\":\"\xFF\"}", 2), "{\"a\":\"" + kR + "\"}");
  EXPECT_EQ(mended(R"(["\ud8)", 0), R"(["\ud8)");
}

EncodeJob replacing(const std::string& input, const std::string& prefix) {
  EncodeJob job;
  job.source.inputs = {input};
  job.output_prefix = prefix;
  job.tokenizer_type = "ByteTokenizer";
  job.on_bad = OnBadRecord::replace;
  job.max_bad = 0;
  return job;
}

TEST(OnErrorReplace, mends_what_can_be_mended_and_counts_it_apart) {
  const ScratchDirectory dir;
  const auto input = dir.file("in.jsonl",
                              "{\"text\":\"good\"}\n{\"text\":\"a\xFF\"}\n{\"text\":\"\\ud800b\\udc00\"}\n"
                              "\xEF\xBB\xBF{\"text\":\"c\"}\n{\"meta\":\"\xC0\",\"text\":\"d\"}\n");
  const auto right = dir.file("right.jsonl", "{\"text\":\"good\"}\n{\"text\":\"a" + kR + "\"}\n{\"text\":\"" + kR + "b" + kR +
                                                 "\"}\n{\"text\":\"c\"}\n{\"text\":\"d\"}\n");
  for (const int workers : {1, 8}) {
    EncodeJob job = replacing(input, dir / "out");
    job.force = true;
    job.workers = workers;
    job.source.chunk_bytes = 16;
    const EncodeReport report = encode_corpus(job, tokenizer::ByteTokenizer());
    EncodeJob plain = replacing(right, dir / "right");
    plain.force = true;
    const EncodeReport wanted = encode_corpus(plain, tokenizer::ByteTokenizer());
    EXPECT_EQ(read_file(report.prefixes[0] + ".bin"), read_file(wanted.prefixes[0] + ".bin"));
    EXPECT_EQ(read_file(report.prefixes[0] + ".idx"), read_file(wanted.prefixes[0] + ".idx"));
    EXPECT_EQ(report.documents, 5);
    EXPECT_EQ(report.replaced_records, 4);
    EXPECT_EQ(report.replaced_characters, 5);
    EXPECT_EQ(report.first_replaced, input + ":2");
    EXPECT_EQ(report.skipped_records, 0);
    EXPECT_EQ(wanted.replaced_records, 0);
  }
}

TEST(OnErrorReplace, what_cannot_be_mended_ends_the_run_or_is_left_out_up_to_the_limit) {
  const ScratchDirectory dir;
  const std::string broken = "{\"text\":\"a\xFF", control = "{\"text\":\"a\001\"}", other = "{\"txt\":\"\xFF\"}";
  const auto input = dir.file("in.jsonl", "{\"text\":\"\xFF\"}\n" + broken + "\n" + control + "\n" + other + "\n");
  EncodeJob job = replacing(input, dir / "out");
  job.rejects = dir / "rejects";
  try {
    encode_corpus(job, tokenizer::ByteTokenizer());
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::data);
    EXPECT_NE(std::string(e.what()).find("in.jsonl:2"), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("--max-bad"), std::string::npos) << e.what();
  }
  EXPECT_EQ(dir.names(), std::vector<std::string>{"in.jsonl"});
  job.max_bad = 2;
  EXPECT_THROW(encode_corpus(job, tokenizer::ByteTokenizer()), Error);
  job.max_bad = 3;
  const EncodeReport report = encode_corpus(job, tokenizer::ByteTokenizer());
  EXPECT_EQ(report.documents, 1);
  EXPECT_EQ(report.skipped_records, 3);
  EXPECT_EQ(report.replaced_records, 1);
  EXPECT_EQ(read_file(dir / "rejects"), broken + "\n" + control + "\n" + other + "\n");
}

TEST(OnErrorReplace, text_is_mended_too) {
  const ScratchDirectory dir;
  const EncodeReport report = encode_corpus(replacing(dir.file("a.txt", "x\xFFy"), dir / "out"), tokenizer::ByteTokenizer());
  EXPECT_EQ(report.tokens, 5);
  EXPECT_EQ(report.replaced_characters, 1);
}

std::vector<std::string> texts_of(const std::string& content) {
  const ScratchDirectory dir;
  TextSourceOptions options;
  options.inputs = {dir.file("a.jsonl", content)};
  TextSource source(options);
  RecordReader reader({"text"});
  std::vector<std::string> texts;
  while (const auto chunk = source.next()) {
    reader.start(*chunk);
    for (auto step = reader.next(); step != RecordReader::Step::end; step = reader.next())
      texts.push_back(step == RecordReader::Step::record ? std::string(reader.values()[0][0]) : "BAD " + reader.fault().reason);
  }
  return texts;
}

TEST(RecordRules, marks_nul_line_ends_and_keys_are_as_the_manual_says) {
  const std::string mark = "\xEF\xBB\xBF";
  EXPECT_EQ(texts_of(mark + "{\"text\":\"a" + mark + "\"}"), std::vector<std::string>{"a" + mark});
  EXPECT_EQ(texts_of("{\"text\":\"a\"}\n" + mark + "{\"text\":\"b\"}\n")[1].substr(0, 25), "BAD a byte order mark in ");
  EXPECT_EQ(texts_of("{\"text\":\"a\\u0000b\"}"), (std::vector<std::string>{std::string("a\0b", 3)}));
  EXPECT_EQ(texts_of(std::string("{\"text\":\"a\0b\"}", 14))[0].substr(0, 3), "BAD");
  EXPECT_EQ(texts_of("{\"text\":\"a\\r\\n\"}\r\n\r\n{\"text\":\"b\"}\r"), (std::vector<std::string>{"a\r\n", "b"}));
  EXPECT_EQ(texts_of("{\"text\":\"first\",\"text\":\"last\"}"), std::vector<std::string>{"last"});
  EXPECT_EQ(texts_of("{\"te\\u0078t\":\"escaped\"}"), std::vector<std::string>{"escaped"});
  EXPECT_EQ(texts_of("{\"text\":\"first\",\"te\\u0078t\":\"last\"}"), std::vector<std::string>{"last"});
}

}  // namespace
}  // namespace mt::data
