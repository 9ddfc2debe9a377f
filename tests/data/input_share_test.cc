// Shares of an input and lines dealt into partitions: every record once, in the order the manual says.

#include <random>

#include <gtest/gtest.h>
#include <zlib.h>

#include "base/error.h"
#include "tokenizer/byte_tokenizer.h"
#include "data/encode_corpus.h"
#include "data/merge_files.h"
#include "base/test_data.h"

namespace mt::data {
namespace {

std::vector<std::string> texts_of(const TextSourceOptions& options, const TextPosition* from = nullptr) {
  TextSource source(options);
  if (from != nullptr) source.start_at(*from);
  RecordReader reader({"text"});
  std::vector<std::string> texts;
  std::uint64_t used = 0;
  while (const auto chunk = source.next()) {
    EXPECT_GE(chunk->used, used);
    used = chunk->used;
    reader.start(*chunk);
    for (auto step = reader.next(); step != RecordReader::Step::end; step = reader.next()) {
      EXPECT_EQ(step, RecordReader::Step::record) << reader.fault().reason;
      texts.emplace_back(reader.values()[0][0]);
    }
  }
  EXPECT_LE(used, source.total_bytes());
  return texts;
}

class Shares : public testing::Test {
 protected:
  // Files of every kind that is cut differently; texts that say which line they are.
  Shares() {
    std::mt19937 random(3);
    const auto lines = [&](const std::string& name, int count, bool last_feed) {
      std::string all;
      for (int i = 0; i < count; ++i) {
        all += "{\"text\":\"" + name + std::to_string(i) + std::string(random() % 40, '.') + "\"}";
        if (i + 1 < count || last_feed) all += i % 5 == 1 ? "\r\n" : i % 7 == 2 ? "\n\n" : "\n";
      }
      return all;
    };
    add("a.jsonl", "\xEF\xBB\xBF" + lines("a", 60, false));
    add("b.jsonl", "");
    add("c.jsonl", lines("c", 3, true));
    add("d.txt", "one text\nof two lines");
    const std::string packed_path = dir_ / "e.jsonl.gz";
    gzFile packed = ::gzopen(packed_path.c_str(), "wb");
    const std::string inside = lines("e", 50, true);
    ::gzwrite(packed, inside.data(), static_cast<unsigned>(inside.size()));
    ::gzclose(packed);
    options_.inputs.push_back(packed_path);
    add("f.jsonl", lines("f", 1, true) + std::string(300, ' ') + "\n" + lines("f'", 40, false));
    whole_ = texts_of(options_);
    EXPECT_EQ(whole_.size(), 155u);
  }
  void add(const std::string& name, const std::string& content) { options_.inputs.push_back(dir_.file(name, content)); }

  ScratchDirectory dir_;
  TextSourceOptions options_;
  std::vector<std::string> whole_;
};

TEST_F(Shares, in_order_are_the_whole_input_in_order) {
  for (const std::int64_t count : {1, 2, 3, 7, 50, 1000}) {
    for (const std::size_t chunk : {std::size_t{16}, std::size_t{200}, std::size_t{1} << 20}) {
      std::vector<std::string> all;
      options_.chunk_bytes = chunk;
      std::uint64_t bytes = 0;
      for (std::int64_t index = 0; index < count; ++index) {
        options_.share = {index, count};
        bytes += TextSource(options_).total_bytes();
        for (std::string& text : texts_of(options_)) all.push_back(std::move(text));
      }
      EXPECT_EQ(all, whole_) << count << " shares, chunks of " << chunk;
      EXPECT_LE(bytes, 2 * (std::uint64_t{1} << 13));
    }
  }
}

TEST_F(Shares, are_gone_on_with_from_every_position) {
  options_.share = {1, 3};
  options_.chunk_bytes = 64;
  const std::vector<std::string> all = texts_of(options_);
  std::vector<TextPosition> places;
  TextSource first(options_);
  while (const auto chunk = first.next()) places.push_back(chunk->after);
  for (const TextPosition& place : places) {
    TextSource source(options_);
    source.start_at(place);
    RecordReader reader({"text"});
    std::vector<std::string> rest;
    while (const auto chunk = source.next()) {
      reader.start(*chunk);
      while (reader.next() == RecordReader::Step::record) rest.emplace_back(reader.values()[0][0]);
    }
    ASSERT_LE(rest.size(), all.size());
    EXPECT_EQ(rest, std::vector<std::string>(all.end() - static_cast<std::ptrdiff_t>(rest.size()), all.end()));
  }
}

TEST(Share, a_fault_is_at_its_line_of_the_file) {
  const ScratchDirectory dir;
  std::string lines;
  for (int i = 1; i <= 200; ++i) lines += i == 150 ? "{\"text\":5}\n" : "{\"text\":\"line\"}\n";
  EncodeJob job;
  job.source.inputs = {dir.file("a.jsonl", lines)};
  job.source.chunk_bytes = 100;
  job.output_prefix = dir / "out";
  for (const std::int64_t count : {1, 2, 4, 16}) {
    job.source.share = {149 * count / 200, count};
    try {
      encode_corpus(job, tokenizer::ByteTokenizer());
      ADD_FAILURE();
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find("a.jsonl:150"), std::string::npos) << e.what();
    }
  }
}

TEST(Share, merged_outputs_are_the_bytes_of_one_run) {
  const ScratchDirectory dir;
  std::string lines;
  for (int i = 0; i < 300; ++i) lines += "{\"text\":\"" + std::string(static_cast<std::size_t>(i * 13 % 50), 'x') + "\"}\n";
  EncodeJob job;
  job.source.inputs = {dir.file("a.jsonl", lines), dir.file("b.jsonl", lines)};
  job.append_eod = true;
  job.output_prefix = dir / "whole";
  const std::string whole = encode_corpus(job, tokenizer::ByteTokenizer()).prefixes[0];
  std::vector<std::string> parts;
  for (std::int64_t i = 0; i < 5; ++i) {
    job.source.share = {i, 5};
    job.output_prefix = dir / ("part" + std::to_string(i));
    parts.push_back(encode_corpus(job, tokenizer::ByteTokenizer()).prefixes[0]);
  }
  merge_files(parts, dir / "merged", false);
  for (const std::string ending : {".bin", ".idx"}) EXPECT_EQ(read_file(dir / ("merged" + ending)), read_file(whole + ending));
  Json told = read_json(whole + ".json");
  told.erase("made_from");  // which files it was read from
  EXPECT_EQ(read_json(dir / "merged.json"), told);
}

TEST(Share, that_is_none_or_holds_nothing_is_refused) {
  const ScratchDirectory dir;
  EncodeJob job;
  job.source.inputs = {dir.file("a.jsonl", "{\"text\":\"only\"}\n")};
  job.output_prefix = dir / "out";
  const auto refused = [&](std::int64_t index, std::int64_t count, Code code, const std::string& word) {
    job.source.share = {index, count};
    try {
      encode_corpus(job, tokenizer::ByteTokenizer());
      ADD_FAILURE() << index << "/" << count;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), code);
      EXPECT_NE(std::string(e.what()).find(word), std::string::npos) << e.what();
    }
  };
  refused(2, 2, Code::usage, "from 0 to 1");
  refused(-1, 2, Code::usage, "from 0 to 1");
  refused(0, 0, Code::usage, "--shard");
  refused(1, 2, Code::data, "fewer shares");
  EXPECT_EQ(dir.names(), std::vector<std::string>{"a.jsonl"});
}

// As Megatron's script deals: line k of all files to partition k modulo N, then the partitions one after the other.
TEST(Partitions, leave_lines_in_the_order_of_megatrons) {
  const ScratchDirectory dir;
  std::vector<std::string> lines;
  for (int i = 0; i < 101; ++i) lines.push_back("line " + std::to_string(i));
  std::string a, b;
  for (int i = 0; i < 101; ++i) (i < 38 ? a : b) += "{\"text\":\"" + lines[static_cast<std::size_t>(i)] + "\"}" + (i == 37 ? "" : "\n");
  TextSourceOptions options;
  options.inputs = {dir.file("a.jsonl", a), dir.file("b.jsonl", b)};
  for (const std::int64_t n : {1, 2, 3, 8, 200}) {
    std::vector<std::vector<std::string>> partitions(static_cast<std::size_t>(n));
    for (std::size_t i = 0; i < lines.size(); ++i) partitions[i % static_cast<std::size_t>(n)].push_back(lines[i]);
    std::vector<std::string> wanted;
    for (const auto& partition : partitions) wanted.insert(wanted.end(), partition.begin(), partition.end());
    for (const std::size_t chunk : {std::size_t{50}, std::size_t{1} << 20}) {
      options.deal = n;
      options.chunk_bytes = chunk;
      EXPECT_EQ(texts_of(options), wanted) << n << " partitions, chunks of " << chunk;
      if (n > 3) continue;
      std::vector<TextPosition> places;  // from each of which reading goes on
      TextSource first(options);
      while (const auto some = first.next()) places.push_back(some->after);
      for (const TextPosition& place : places) {
        const std::vector<std::string> rest = texts_of(options, &place);
        ASSERT_LE(rest.size(), wanted.size());
        EXPECT_EQ(rest, std::vector<std::string>(wanted.end() - static_cast<std::ptrdiff_t>(rest.size()), wanted.end()));
      }
    }
  }
}

}  // namespace
}  // namespace mt::data
