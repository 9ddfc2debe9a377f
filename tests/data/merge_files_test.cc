// Many token files into one: directories, thousands of files with few descriptors, the bytes of one run.

#include "data/merge_files.h"

#include <fstream>

#include <sys/resource.h>

#include <gtest/gtest.h>

#include "base/error.h"
#include "tokenizer/byte_tokenizer.h"
#include "data/encode_corpus.h"
#include "base/refusal.h"
#include "base/test_data.h"

namespace mt::data {
namespace {

TEST(MergeFiles, a_directory_is_its_token_files_by_name_as_one_run_over_their_texts) {
  const ScratchDirectory dir;
  fs::create_directory(dir / "parts");
  std::string joined;
  EncodeJob job;
  job.append_eod = true;
  // Documents that are empty, first, last and alone in a file; names whose byte order is not that of numbers.
  const std::vector<std::pair<std::string, std::string>> parts = {{"p10", "{\"text\":\"\"}\n{\"text\":\"one\"}\n"},
                                                                  {"p1", "{\"text\":[\"a\",\"\",\"b\"]}\n{\"text\":\"\"}\n"},
                                                                  {"p2", "{\"text\":\"\"}\n{\"text\":[]}\n"},
                                                                  {"p3", "{\"text\":\"last\"}\n"}};
  for (const auto& [name, lines] : parts) {
    job.source.inputs = {dir.file(name + ".jsonl", lines)};
    job.output_prefix = dir / ("parts/" + name);
    encode_corpus(job, tokenizer::ByteTokenizer());
    joined += lines;
  }
  job.source.inputs = {dir.file("joined.jsonl", joined)};
  job.output_prefix = dir / "joined";
  const std::string whole = encode_corpus(job, tokenizer::ByteTokenizer()).prefixes[0];
  EXPECT_EQ(merge_files({dir / "parts"}, dir / "merged", false).files, 4);
  for (const std::string ending : {".bin", ".idx"}) EXPECT_EQ(read_file(dir / ("merged" + ending)), read_file(whole + ending));
  Json told = read_json(whole + ".json");
  told.erase("made_from");  // which files it was read from
  EXPECT_EQ(read_json(dir / "merged.json"), told);
  EXPECT_TRUE(IndexedDataset(dir / "merged").verify());
}

TEST(MergeFiles, files_made_with_other_settings_are_not_joined) {
  const ScratchDirectory dir;
  EncodeJob job;
  job.source.inputs = {dir.file("a.jsonl", "{\"text\":\"One two. Three.\"}\n")};
  job.output_prefix = dir / "plain";
  const std::string plain = encode_corpus(job, tokenizer::ByteTokenizer()).prefixes[0];
  job.output_prefix = dir / "special";
  job.parse_special = true;
  const std::string special = encode_corpus(job, tokenizer::ByteTokenizer(true)).prefixes[0];
  job.parse_special = false;
  job.split_sentences = true;
  const std::string sentences = encode_corpus(job, tokenizer::ByteTokenizer()).prefixes[0];
  EXPECT_EQ(IndexedDataset(sentences).num_sequences(), 2);
  EXPECT_TRUE(IndexedDataset(sentences).origin()->sentences);
  EXPECT_NE(refusal([&] { merge_files({plain, special}, dir / "out", false); }, Code::data).find("--parse-special"), std::string::npos);
  EXPECT_NE(refusal([&] { merge_files({plain, sentences}, dir / "out", false); }, Code::data).find("--split-sentences"), std::string::npos);
}

TEST(MergeFiles, half_a_token_file_in_a_directory_is_an_error) {
  for (const std::string ending : {".bin", ".idx"}) {
    const ScratchDirectory dir;
    fs::create_directory(dir / "parts");
    EXPECT_NE(refusal([&] { merge_files({dir / "parts"}, dir / "out", false); }, Code::data).find("no token file"), std::string::npos);
    dir.file("parts/a" + ending, "x");
    EXPECT_NE(refusal([&] { merge_files({dir / "parts"}, dir / "out", false); }, Code::data).find("a" + ending), std::string::npos);
  }
}

TEST(MergeFiles, thousands_need_no_descriptor_each) {
  const ScratchDirectory dir;
  std::vector<std::string> names;
  for (int i = 0; i < 1500; ++i) {
    names.push_back(dir / ("f" + std::to_string(i)));
    if (i >= 3) {
      for (const std::string ending : {".bin", ".idx"}) fs::create_hard_link(names[static_cast<std::size_t>(i % 3)] + ending, names.back() + ending);
      continue;
    }
    IndexedWriter writer(names.back(), TokenType::u16, false);
    writer.add_sequence(std::vector<std::int32_t>(static_cast<std::size_t>(i + 1), i));
    writer.end_document();
    writer.commit(std::nullopt);
  }
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  const rlimit few{64, limit.rlim_max};
  ::setrlimit(RLIMIT_NOFILE, &few);
  const MergeReport report = merge_files(names, dir / "all", false);
  ::setrlimit(RLIMIT_NOFILE, &limit);
  EXPECT_EQ(report.documents, 1500);
  EXPECT_EQ(report.tokens, 3000);
  std::vector<std::int32_t> ids(3);
  IndexedDataset(dir / "all").read(1499, 0, ids);
  EXPECT_EQ(ids, (std::vector<std::int32_t>{2, 2, 2}));
}

TEST(TokenFile, verify_names_the_file_that_was_changed) {
  const ScratchDirectory dir;
  const std::string prefix = dir / "a";
  IndexedWriter writer(prefix, TokenType::u16, false);
  writer.add_sequence(std::vector<std::int32_t>{1, 2, 3});
  writer.end_document();
  TokenFileOrigin origin;
  origin.tokenizer_type = "NullTokenizer";
  origin.vocab_size = 9;
  writer.commit(origin);
  EXPECT_TRUE(IndexedDataset(prefix).verify());
  std::string bin = read_file(prefix + ".bin");
  bin[2] = 7;
  dir.file("a.bin", bin);
  EXPECT_NE(refusal([&] { (void)IndexedDataset(prefix).verify(); }, Code::corrupt).find("a.bin"), std::string::npos);
  fs::remove(prefix + ".json");
  EXPECT_FALSE(IndexedDataset(prefix).verify());
}

TEST(MergeFiles, what_is_damaged_is_refused_and_what_has_no_sidecar_is_named) {
  const ScratchDirectory dir;
  TokenFileOrigin origin;
  origin.tokenizer_type = "NullTokenizer";
  origin.vocab_size = 9;
  for (const std::string name : {"a", "b", "bare"}) {
    IndexedWriter writer(dir / name, TokenType::u16, false);
    writer.add_sequence(std::vector<std::int32_t>{1, 2, 3});
    writer.end_document();
    writer.commit(name == "bare" ? std::nullopt : std::optional(origin));
  }
  EXPECT_EQ(merge_files({dir / "a", dir / "b"}, dir / "two", false).without_origin, "");
  EXPECT_TRUE(IndexedDataset(dir / "two").verify());
  EXPECT_EQ(merge_files({dir / "a", dir / "bare"}, dir / "some", false).without_origin, dir / "bare");
  EXPECT_FALSE(fs::exists(dir / "some.json"));
  EXPECT_EQ(merge_files({dir / "bare", dir / "bare"}, dir / "none", false).without_origin, "");
  std::string bin = read_file(dir / "b.bin");
  bin[2] = 7;
  dir.file("b.bin", bin);
  EXPECT_NE(refusal([&] { merge_files({dir / "a", dir / "b"}, dir / "bad", false); }, Code::corrupt).find("b.bin"), std::string::npos);
  EXPECT_FALSE(fs::exists(dir / "bad.idx"));
}

TEST(TokenFile, with_bytes_beyond_its_sequences_is_not_merged) {
  const ScratchDirectory dir;
  IndexedWriter writer(dir / "a", TokenType::u16, false);
  writer.add_sequence(std::vector<std::int32_t>{1, 2, 3});
  writer.end_document();
  writer.commit(std::nullopt);
  std::ofstream(dir / "a.bin", std::ios::app) << "zz";
  EXPECT_NE(refusal([&] { merge_files({dir / "a"}, dir / "b", false); }, Code::corrupt).find("gaps"), std::string::npos);
}

}  // namespace
}  // namespace mt::data
