// Outputs are compared as files, not as spellings, and nothing is touched by looking.

#include "data/output_check.h"

#include <sys/wait.h>
#include <unistd.h>

#include <functional>

#include <gtest/gtest.h>

#include "base/error.h"
#include "tokenizer/byte_tokenizer.h"
#include "data/encode_corpus.h"
#include "data/merge_files.h"
#include "base/test_data.h"

namespace mt::data {
namespace {

Code refusal(const std::function<void()>& act) {
  try {
    act();
    return Code::internal;
  } catch (const Error& e) {
    return e.code();
  }
}
Code refusal(const OutputFiles& files) {
  return refusal([&files] { check_outputs(files); });
}

TEST(Outputs, are_never_an_input_or_each_other_under_any_name) {
  const ScratchDirectory dir;
  const auto in = dir.file("in", "x");
  std::filesystem::create_symlink(in, dir / "soft");
  std::filesystem::create_hard_link(in, dir / "hard");
  std::filesystem::create_directory(dir / "sub");
  std::filesystem::create_directory_symlink(dir.path(), dir / "loop");
  for (const std::string name : {"in", "soft", "hard", "sub/../in", "./in", "loop/in"}) {
    EXPECT_EQ(refusal({{in}, {dir / name}, true}), Code::usage) << name;
    EXPECT_EQ(refusal({{dir / name}, {in}, true}), Code::usage) << name;
  }
  EXPECT_EQ(refusal({{in}, {dir / "new", dir / "sub/../new"}, true}), Code::usage);
  EXPECT_EQ(refusal({{in}, {dir / "new", dir / "loop/new"}, true}), Code::usage);
  EXPECT_EQ(refusal({{in}, {dir / "new", dir / "sub/new"}, false}), Code::internal);
}

TEST(Outputs, that_exist_need_force_and_must_be_plain_files) {
  const ScratchDirectory dir;
  const auto old = dir.file("old", "x");
  EXPECT_EQ(refusal({{}, {old}, false}), Code::io);
  EXPECT_EQ(refusal({{}, {old}, true}), Code::internal);
  EXPECT_EQ(refusal({{}, {dir.path().string()}, true}), Code::io);
  EXPECT_EQ(refusal({{}, {"/dev/null"}, true}), Code::io);
  EXPECT_EQ(refusal({{}, {dir / "absent/new"}, true}), Code::io);
}

TEST(StaleTemporaries, of_dead_processes_go_and_no_others) {
  const ScratchDirectory dir;
  const pid_t dead = ::fork();
  if (dead == 0) ::_exit(0);
  ::waitpid(dead, nullptr, 0);
  const std::string pid = std::to_string(dead);
  const auto input = dir.file("in.bin.tmp." + pid, "x");
  for (const std::string& name :
       std::vector<std::string>{"a.bin.tmp." + pid, "a.bin.tmp." + std::to_string(::getpid()), "a.bin.tmp.1x",
                                "a.bin.tmp." + pid + "0x", "b.bin.tmp." + pid, "a.bin.tmp.-1"})
    dir.file(name, "x");
  EXPECT_EQ(remove_stale_temporaries({{input}, {dir / "a.bin", dir / "in.bin"}, false}), 1);
  EXPECT_FALSE(std::filesystem::exists(dir / ("a.bin.tmp." + pid)));
  EXPECT_EQ(dir.names().size(), 6u);
}

TEST(EncodeCorpus, leaves_its_inputs_alone_even_with_force) {
  const ScratchDirectory dir;
  const std::string line = "{\"text\":\"a\",\"b\":\"c\"}\n";
  const auto input = dir.file("i_text_document.json", line), tokenizer = dir.file("vocab.json", "{}");
  EncodeJob good;
  good.source.inputs = {input};
  good.also_reads = {tokenizer};
  good.output_prefix = dir / "out";
  good.on_bad = OnBadRecord::skip;
  good.force = true;
  const std::vector<std::function<void(EncodeJob&)>> mistakes = {[&](EncodeJob& j) { j.output_prefix = dir / "i"; },
                                                                 [&](EncodeJob& j) { j.rejects = input; },
                                                                 [&](EncodeJob& j) { j.rejects = tokenizer; },
                                                                 [&](EncodeJob& j) { j.rejects = dir / "out_text_document.bin"; },
                                                                 [&](EncodeJob& j) { j.keys = {"text", "b", "text"}; },
                                                                 [&](EncodeJob& j) { j.workers = 0; },
                                                                 [&](EncodeJob& j) { j.workers = kMaxWorkers + 1; },
                                                                 [&](EncodeJob& j) { j.max_bad = -5; }};
  for (std::size_t i = 0; i < mistakes.size(); ++i) {
    EncodeJob job = good;
    mistakes[i](job);
    EXPECT_EQ(refusal([&job] { encode_corpus(job, tokenizer::ByteTokenizer()); }), Code::usage) << i;
    EXPECT_EQ(dir.names(), (std::vector<std::string>{"i_text_document.json", "vocab.json"})) << i;
    EXPECT_EQ(read_file(input), line) << i;
  }
  EXPECT_EQ(encode_corpus(good, tokenizer::ByteTokenizer()).documents, 1);
}

TEST(Merge, refuses_to_write_over_an_input) {
  const ScratchDirectory dir;
  const std::string prefix = dir / "a";
  IndexedWriter writer(prefix, TokenType::u16, false);
  writer.add_sequence(std::vector<std::int32_t>{1, 2});
  writer.end_document();
  writer.commit(std::nullopt);
  EXPECT_EQ(refusal([&] { merge_files({prefix, prefix}, prefix, true); }), Code::usage);
  EXPECT_EQ(IndexedDataset(prefix).num_tokens(), 2);
  EXPECT_EQ(merge_files({prefix + ".bin", prefix + ".idx"}, dir / "b", false).tokens, 4);
}

}  // namespace
}  // namespace mt::data
