// Text in, token files out: documents, line rules, faults, worker counts.

#include "data/encode_corpus.h"

#include <fstream>

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/file_lock.h"
#include "tokenizer/byte_tokenizer.h"
#include "data/merge_files.h"
#include "base/test_data.h"

namespace mt::data {
namespace {

EncodeJob job_for(const std::string& input, const std::string& prefix) {
  EncodeJob job;
  job.source.inputs = {input};
  job.output_prefix = prefix;
  job.tokenizer_type = "ByteTokenizer";
  return job;
}

std::vector<std::int64_t> boundaries(const IndexedDataset& file) {
  std::vector<std::int64_t> all;
  for (std::int64_t d = 0; d <= file.num_documents(); ++d) all.push_back(file.document_begin(d));
  return all;
}

std::vector<std::int32_t> lengths(const IndexedDataset& file) {
  std::vector<std::int32_t> all;
  for (std::int64_t i = 0; i < file.num_sequences(); ++i) all.push_back(file.length(i));
  return all;
}

std::string both_files(const std::string& prefix) { return read_file(prefix + ".bin") + read_file(prefix + ".idx"); }

TEST(EncodeCorpus, empty_documents_are_boundaries_wherever_they_stand) {
  const ScratchDirectory dir;
  const auto input =
      dir.file("a.jsonl", "{\"text\":\"\"}\n{\"text\":\"a\"}\n{\"text\":\"\"}\n{\"text\":\"bc\"}\n{\"text\":\"\"}\n");
  for (const bool eod : {true, false}) {
    EncodeJob job = job_for(input, dir / (eod ? "with" : "without"));
    job.append_eod = eod;
    const EncodeReport report = encode_corpus(job, tokenizer::ByteTokenizer());
    const IndexedDataset file(report.prefixes.front());
    EXPECT_EQ(boundaries(file), (std::vector<std::int64_t>{0, 0, 1, 1, 2, 2}));
    EXPECT_EQ(lengths(file), eod ? (std::vector<std::int32_t>{2, 3}) : (std::vector<std::int32_t>{1, 2}));
    EXPECT_EQ(report.empty_documents, 3);
    EXPECT_EQ(report.documents, 5);
  }
}

TEST(EncodeCorpus, only_line_feeds_end_lines) {
  const ScratchDirectory dir;
  const std::string separators = "\u2028\u2029\u0085";
  const auto raw = dir.file("raw.jsonl", "\xEF\xBB\xBF{\"text\":\"a" + separators + "\"}\n{\"text\":\"b" + separators +
                                             "\"}\r\n{\"text\":\"c" + separators + "\"}");
  const std::string escaped = "\\u2028\\u2029\\u0085";
  const auto plain = dir.file("plain.jsonl", "{\"text\":\"a" + escaped + "\"}\n{\"text\":\"b" + escaped +
                                                 "\"}\n{\"text\":\"c" + escaped + "\"}\n");
  const EncodeReport a = encode_corpus(job_for(raw, dir / "raw"), tokenizer::ByteTokenizer());
  const EncodeReport b = encode_corpus(job_for(plain, dir / "plain"), tokenizer::ByteTokenizer());
  EXPECT_EQ(a.documents, 3);
  EXPECT_EQ(both_files(a.prefixes[0]), both_files(b.prefixes[0]));
}

std::string refusal(const EncodeJob& job, Code code) {
  try {
    encode_corpus(job, tokenizer::ByteTokenizer());
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), code) << e.what();
    return e.what();
  }
  return "no error";
}

TEST(EncodeCorpus, a_number_no_double_holds_is_taken_where_nobody_asks_for_it) {
  const ScratchDirectory dir;
  EncodeJob job = job_for(dir.file("a.jsonl", "{\"text\":\"a\"}\n{\"text\":\"b\",\"n\":1e999}\n{\"text\":NaN}\n"), dir / "out");
  const std::string text = refusal(job, Code::data);
  EXPECT_NE(text.find("wanted a string, found number: "), std::string::npos) << text;
  EXPECT_NE(text.find("a.jsonl:3"), std::string::npos) << text;
  job.on_bad = OnBadRecord::skip;
  const EncodeReport report = encode_corpus(job, tokenizer::ByteTokenizer());
  EXPECT_EQ(report.documents, 2);
  EXPECT_EQ(report.odd_number_records, 2);
  EXPECT_EQ(report.skipped_records, 1);
}

TEST(EncodeCorpus, what_was_likely_meant_is_said) {
  const ScratchDirectory dir;
  const auto plain = dir.file("plain.jsonl", "The cat sat.\n"), other = dir.file("other.jsonl", "{\"body\":\"a\"}\n");
  EXPECT_NE(refusal(job_for(plain, dir / "out"), Code::data).find("plain text wants --input-format text"), std::string::npos);
  const std::string text = refusal(job_for(other, dir / "out"), Code::data);
  EXPECT_NE(text.find("the keys are 'body'"), std::string::npos) << text;
  EXPECT_NE(text.find("--json-keys names the field"), std::string::npos) << text;
}

TEST(EncodeCorpus, two_processes_never_write_one_token_file) {
  const ScratchDirectory dir;
  const auto input = dir.file("a.jsonl", "{\"text\":\"a\"}\n");
  for (const bool force : {false, true}) {
    EncodeJob job = job_for(input, dir / "out");
    job.force = force;
    const auto other = FileLock::try_lock(dir / "out_text_document.lock", true);
    EXPECT_NE(refusal(job, Code::io).find("another process is writing"), std::string::npos);
  }
  encode_corpus(job_for(input, dir / "out"), tokenizer::ByteTokenizer());
  EXPECT_FALSE(fs::exists(dir / "out_text_document.lock"));
}

TEST(EncodeCorpus, files_that_appear_meanwhile_stay_and_ours_go) {
  for (const std::string ending : {".bin", ".idx", ".json"}) {
    const ScratchDirectory dir;
    const std::string prefix = dir / "out";
    {
      IndexedWriter writer(prefix, TokenType::u16, false);
      writer.add_sequence(std::vector<std::int32_t>{1, 2});
      writer.end_document();
      std::ofstream(prefix + ending) << "theirs";
      EXPECT_THROW(writer.commit(TokenFileOrigin{"ByteTokenizer", "0123456789abcdef", 257, 256, false}), Error);
    }
    EXPECT_EQ(read_file(prefix + ending), "theirs");
    EXPECT_EQ(std::distance(fs::directory_iterator(fs::path(prefix).parent_path()), {}), 1) << ending;
  }
}

struct BadLine {
  std::string line;
  std::vector<std::string> words;  // all in the message
};

TEST(EncodeCorpus, a_bad_line_stops_with_its_place_or_is_skipped_and_kept) {
  const ScratchDirectory dir;
  const std::vector<BadLine> rows = {{"{\"text\":\"c", {"in.jsonl:3:11", "missing closing quote"}},
                                     {"{\"text\":\"\xff\"}", {"in.jsonl:3:10", "UTF-8"}},
                                     {"{\"text\":\"\\ud800\"}", {"in.jsonl:3:", "surrogate"}},
                                     {"{\"text\":\"a\001b\"}", {"in.jsonl:3:11", "control character"}},
                                     {"[1]", {"in.jsonl:3", "'text'", "array"}},
                                     {"{\"text\":\"a\"} x", {"in.jsonl:3:14"}},
                                     {"{\"txt\":\"x\"}", {"in.jsonl:3", "'text'", "'txt'"}},
                                     {"{\"text\":null}", {"in.jsonl:3", "'text'", "null"}},
                                     {"{\"text\":5}", {"in.jsonl:3", "'text'", "number"}},
                                     {"{\"text\":[\"a\",1]}", {"in.jsonl:3", "'text'", "number"}}};
  for (const BadLine& row : rows) {
    const std::string good = "{\"text\":\"x\"}\n";
    const auto input = dir.file("in.jsonl", good + good + row.line + "\n" + good + good);
    std::string skipped;
    for (const int workers : {1, 8}) {
      EncodeJob job = job_for(input, dir / "out");
      job.workers = workers;
      job.source.chunk_bytes = 16;
      try {
        encode_corpus(job, tokenizer::ByteTokenizer());
        ADD_FAILURE() << "accepted: " << row.line;
      } catch (const Error& e) {
        EXPECT_EQ(e.code(), Code::data);
        for (const std::string& word : row.words)
          EXPECT_NE(std::string(e.what()).find(word), std::string::npos) << e.what();
      }
      EXPECT_EQ(dir.names(), std::vector<std::string>{"in.jsonl"});
      job.on_bad = OnBadRecord::skip;
      job.rejects = dir / "rejects";
      const EncodeReport report = encode_corpus(job, tokenizer::ByteTokenizer());
      EXPECT_EQ(report.documents, 4);
      EXPECT_EQ(report.skipped_records, 1);
      EXPECT_EQ(read_file(dir / "rejects"), row.line + "\n");
      const std::string files = both_files(report.prefixes[0]);
      if (skipped.empty()) skipped = files;
      EXPECT_EQ(files, skipped);
      for (const char* name : {"rejects", "out_text_document.bin", "out_text_document.idx", "out_text_document.json"}) {
        std::filesystem::remove(dir / name);
      }
    }
  }
}

TEST(EncodeCorpus, more_bad_records_than_allowed_end_the_run) {
  const ScratchDirectory dir;
  EncodeJob job = job_for(dir.file("in.jsonl", "{\"text\":\"a\"}\n1\n2\n3\n"), dir / "out");
  job.on_bad = OnBadRecord::skip;
  job.max_bad = 2;
  EXPECT_THROW(encode_corpus(job, tokenizer::ByteTokenizer()), Error);
  job.max_bad = 3;
  EXPECT_EQ(encode_corpus(job, tokenizer::ByteTokenizer()).skipped_records, 3);
}

TEST(EncodeCorpus, nothing_processed_is_an_error_that_says_why) {
  const ScratchDirectory dir;
  dir.file("out_text_document.keep", "");
  const std::vector<std::pair<std::string, std::string>> rows = {
      {dir.file("empty.jsonl", ""), "no documents"},
      {dir.file("blank.jsonl", "\n \n\t\n"), "3 blank lines"},
      {dir.path().string(), "directory"},
      {dir.file("text.foo", "x"), "ending"},
      {dir.file("text.gz", "x"), "unknown ending"},
      {dir / "absent.jsonl", "no such file"}};
  for (const auto& [input, word] : rows) {
    try {
      encode_corpus(job_for(input, dir / "out"), tokenizer::ByteTokenizer());
      ADD_FAILURE() << input;
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find(word), std::string::npos) << e.what();
    }
    EXPECT_FALSE(std::filesystem::exists(dir / "out_text_document.bin"));
  }
  const auto input = dir.file("a.jsonl", "{\"text\":\"a\"}\n");
  EXPECT_THROW(encode_corpus(job_for(input, dir / "no/out"), tokenizer::ByteTokenizer()), Error);
}

TEST(EncodeCorpus, width_and_largest_ids_survive) {
  const ScratchDirectory dir;
  for (const std::int32_t size : {65499, 65500, 128256}) {
    const std::string name = std::to_string(size);
    const auto input = dir.file(name + ".jsonl", "{\"text\":\"0 " + std::to_string(size - 1) + "\"}\n");
    EncodeJob job = job_for(input, dir / name);
    const IndexedDataset file(encode_corpus(job, tokenizer::NullTokenizer(size)).prefixes[0]);
    EXPECT_EQ(file.type_code(), size == 65499 ? 8 : 4);
    std::vector<std::int32_t> ids(2);
    file.read(0, 0, ids);
    EXPECT_EQ(ids, (std::vector<std::int32_t>{0, size - 1}));
  }
  EncodeJob job = job_for(dir / "128256.jsonl", dir / "narrow");
  job.type = TokenType::u16;
  EXPECT_THROW(encode_corpus(job, tokenizer::NullTokenizer(128256)), Error);
  EXPECT_FALSE(std::filesystem::exists(dir / "narrow_text_document.bin"));
}

TEST(EncodeCorpus, output_is_the_same_for_any_workers_and_chunks) {
  const ScratchDirectory dir;
  std::string lines;
  for (int i = 0; i < 3000; ++i) {
    lines +=
        "{\"text\":\"" + std::string(static_cast<std::size_t>(i * 7 % 90), static_cast<char>('a' + i % 26)) + "\"}\n";
  }
  const auto input = dir.file("in.jsonl", lines);
  std::string first;
  for (const int workers : {1, 2, 3, 8}) {
    for (const std::size_t chunk : {std::size_t{64}, std::size_t{1000}, std::size_t{1} << 22}) {
      EncodeJob job = job_for(input, dir / "out");
      job.workers = workers;
      job.source.chunk_bytes = chunk;
      job.append_eod = true;
      job.force = true;
      const std::string files = both_files(encode_corpus(job, tokenizer::ByteTokenizer()).prefixes[0]);
      if (first.empty()) first = files;
      ASSERT_EQ(files, first) << workers << " workers, chunks of " << chunk;
    }
  }
}

TEST(EncodeCorpus, special_strings_are_text_and_counted_unless_parsed) {
  const ScratchDirectory dir;
  const auto input = dir.file("in.jsonl", "{\"text\":\"x<|endoftext|>y\"}\n");
  const EncodeReport plain = encode_corpus(job_for(input, dir / "plain"), tokenizer::ByteTokenizer());
  EXPECT_EQ(plain.specials_as_text, 1);
  EXPECT_EQ(plain.tokens, 15);
  const EncodeReport parsed = encode_corpus(job_for(input, dir / "parsed"), tokenizer::ByteTokenizer(true));
  EXPECT_EQ(parsed.specials_as_text, 0);
  std::vector<std::int32_t> ids(3);
  IndexedDataset(parsed.prefixes[0]).read(0, 0, ids);
  EXPECT_EQ(ids, (std::vector<std::int32_t>{'x', 256, 'y'}));
}

TEST(EncodeCorpus, every_key_gets_its_file_and_lists_become_sequences) {
  const ScratchDirectory dir;
  EncodeJob job = job_for(dir.file("in.jsonl", "{\"b\":\"xyz\",\"a\":[\"p\",\"\",\"qr\"]}\n{\"a\":\"s\",\"b\":\"\"}\n"),
                          dir / "out");
  job.keys = {"a", "b"};
  job.append_eod = true;
  const EncodeReport report = encode_corpus(job, tokenizer::ByteTokenizer());
  EXPECT_EQ(report.prefixes, (std::vector<std::string>{dir / "out_a_document", dir / "out_b_document"}));
  EXPECT_EQ(lengths(IndexedDataset(report.prefixes[0])), (std::vector<std::int32_t>{1, 3, 2}));
  EXPECT_EQ(boundaries(IndexedDataset(report.prefixes[0])), (std::vector<std::int64_t>{0, 2, 3}));
  EXPECT_EQ(boundaries(IndexedDataset(report.prefixes[1])), (std::vector<std::int64_t>{0, 1, 1}));
}

TEST(EncodeCorpus, merging_two_outputs_is_encoding_the_joined_text) {
  const ScratchDirectory dir;
  const std::string a = "{\"text\":\"one\"}\n{\"text\":\"\"}\n", b = "{\"text\":\"\"}\n{\"text\":\"three\"}\n";
  const auto run = [&](const std::string& name, const std::string& lines) {
    return encode_corpus(job_for(dir.file(name + ".jsonl", lines), dir / name), tokenizer::ByteTokenizer()).prefixes[0];
  };
  const auto pa = run("a", a), pb = run("b", b), pj = run("joined", a + b);
  merge_files({pa, pb}, dir / "merged", false);
  EXPECT_EQ(both_files(dir / "merged"), both_files(pj));
  Json told = read_json(pj + ".json");
  told.erase("made_from");  // which files it was read from
  EXPECT_EQ(read_json(dir / "merged.json"), told);
}

TEST(TextFormat, a_file_is_a_document_or_is_cut_at_a_separator) {
  const ScratchDirectory dir;
  const auto input = dir.file("in.txt", "one\nline\n\ntwo\n\n\n\nthree");
  EXPECT_EQ(encode_corpus(job_for(input, dir / "whole"), tokenizer::ByteTokenizer()).documents, 1);
  EncodeJob job = job_for(input, dir / "cut");
  job.source.document_separator = "\n\n";
  for (const std::size_t chunk : {std::size_t{4}, std::size_t{1} << 20}) {
    job.source.chunk_bytes = chunk;
    job.force = true;
    const IndexedDataset file(encode_corpus(job, tokenizer::ByteTokenizer()).prefixes[0]);
    EXPECT_EQ(lengths(file), (std::vector<std::int32_t>{8, 3, 5}));
  }
  const auto bad = dir.file("bad.txt", "fine\nab\xff");
  try {
    encode_corpus(job_for(bad, dir / "bad"), tokenizer::ByteTokenizer());
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("bad.txt:2:3"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace mt::data
