// Documents apart in a sample, fill-in-middle and conversations, in a run: the same in every layout and after a resume, and
// no part of a sample sees another.

#include "base/error.h"
#include "base/files.h"
#include "tokenizer/bpe_trainer.h"
#include "data/indexed_dataset.h"
#include "tokenizer/tokenizer_json.h"
#include "train/tiny_run.h"

namespace mt {
namespace {

using test::Curve;
using test::TempDir;

constexpr int kVocab = 270;

// A byte-level BPE with the tokens of every kind of sample, and documents of its ids.
class SampleKinds : public testing::Test {
 protected:
  SampleKinds() {
    tokenizer::BpeTrainer trainer({kVocab, 0, {"<|endoftext|>", "<fim_prefix>", "<fim_middle>", "<fim_suffix>", "<fim_pad>"}});
    trainer.add("a bad day, a bad bed; add a bead, a dad and a cab");
    tokenizer::write_tokenizer_json(dir_ / "t.json", trainer.train(), false);
    tokenizer::TokenizerSpec spec;
    spec.model = dir_ / "t.json";
    const auto tokenizer = tokenizer::make_tokenizer(spec);
    data::IndexedWriter writer(dir_ / "tokens", data::TokenType::u16, false);
    for (int d = 0; d < 60; ++d) {
      std::string text;
      for (int w = 0; w < 2 + d % 9; ++w) text += std::array{"a bad ", "day", " bed", "cab; ", "x"}[static_cast<std::size_t>((d * 7 + w * 3) % 5)];
      auto ids = tokenizer->encode(text);
      ids.push_back(*tokenizer->eod());
      writer.add_sequence(ids);
      writer.end_document();
    }
    writer.commit(std::nullopt);
  }

  TrainingOptions options() const {
    auto o = test::tiny_options(dir_);
    o.data.mock_data = false;
    o.data.data_path = {dir_ / "tokens"};
    o.data.split = "1";
    o.data.vocab_size.reset();
    o.data.tokenizer.model = dir_ / "t.json";
    o.data.tokenizer_given = true;
    o.train_iters = 6;
    return o;
  }

  TrainingOptions chat_options(const std::string& lines) const {
    auto o = options();
    write_file_atomic(dir_ / "chat.jsonl", lines);
    o.data.data_path = {dir_ / "chat.jsonl"};
    o.data.sft = true;
    o.data.sft_options.prompt_format = "identity";
    return o;
  }

  // The run in other layouts is the run in one, within the promise.
  void expect_layout_free(const TrainingOptions& o, const Curve& one) {
    for (const auto& [tp, pp, dp, sp] : {std::tuple{2, 1, 1, true}, {1, 2, 1, false}, {1, 1, 2, false}, {2, 2, 1, false}}) {
      auto at = o;
      at.parallel.tp = tp;
      at.parallel.pp = pp;
      at.parallel.sequence_parallel = sp;
      const Curve other = test::run_tiny(at, tp * pp * dp);
      const auto d = test::distance(one, other);
      EXPECT_LT(d.loss, test::kLossBound) << tp << pp << dp;
      EXPECT_LT(d.grad_norm, test::kNormBound) << tp << pp << dp;
      EXPECT_TRUE(tp > 1 || dp > 1 || one.loss == other.loss) << "pipeline stages change no bit";
    }
  }

  TempDir dir_;
};

TEST_F(SampleKinds, DocumentsApartByTheFileAreThoseApartByTheirEnds) {
  auto o = options();
  const Curve together = test::run_tiny(o, 1);
  o.data.inter_document_masking = true;
  const Curve by_file = test::run_tiny(o, 1);
  o.data.inter_document_masking = false;
  o.data.reset_attention_mask = o.data.reset_position_ids = true;
  const Curve by_ends = test::run_tiny(o, 1);
  EXPECT_EQ(by_file.loss, by_ends.loss);
  EXPECT_EQ(by_file.grad_norm, by_ends.grad_norm);
  EXPECT_NE(together.loss, by_file.loss);
  o.data.eod_mask_loss = true;
  EXPECT_NE(test::run_tiny(o, 1).loss, by_ends.loss);
}

TEST_F(SampleKinds, DocumentsApartAreTheSameInEveryLayout) {
  auto o = options();
  o.data.inter_document_masking = true;
  expect_layout_free(o, test::run_tiny(o, 1));
}

TEST_F(SampleKinds, FillInMiddleIsTheSameInEveryLayoutAndAfterAResume) {
  auto o = options();
  const Curve plain = test::run_tiny(o, 1);
  o.data.fim_data = true;
  o.data.reset_attention_mask = true;
  o.data.fim.rate = 0.8;
  const Curve one = test::run_tiny(o, 1);
  EXPECT_NE(plain.loss, one.loss);
  expect_layout_free(o, one);
  auto first = o;
  first.save = dir_ / "run";
  first.exit_interval = 3;
  test::run_tiny(first, 1);
  auto second = o;
  second.load = dir_ / "run";
  const Curve rest = test::run_tiny(second, 1);
  EXPECT_EQ(rest.loss, std::vector<double>(one.loss.begin() + 3, one.loss.end()));
}

std::string chat_line(const std::string& unanswered, const std::string& asked, const std::string& answer) {
  return Json{{"messages",
               {{{"role", "system"}, {"content", "s"}},
                {{"role", "user"}, {"content", unanswered}},
                {{"role", "system"}, {"content", "s"}},
                {{"role", "user"}, {"content", asked}},
                {{"role", "assistant"}, {"content", answer}}}}}
             .dump() +
         "\n";
}

TEST_F(SampleKinds, AConversationDoesNotSeeItsNeighbours) {
  const auto losses = [&](const std::string& beside, int tp, int pp) {
    std::string lines;
    for (int i = 0; i < 8; ++i) lines += chat_line(beside, "q" + std::to_string(i), "zyx");
    auto o = chat_options(lines);
    o.model.attention_dropout = o.model.hidden_dropout = 0;
    o.parallel.tp = tp;
    o.parallel.pp = pp;
    o.train_iters = 1;
    return test::run_tiny(o, tp * pp).loss;
  };
  for (const auto& [tp, pp] : {std::pair{1, 1}, {2, 1}, {1, 2}})
    EXPECT_EQ(losses("qrst", tp, pp), losses("wvut", tp, pp)) << tp << pp;
}

TEST_F(SampleKinds, ConversationsTrainTheSameInEveryLayoutAndTheLossFalls) {
  std::string lines;
  for (int i = 0; i < 40; ++i) lines += chat_line("?", std::string(static_cast<std::size_t>(i % 5), 'q'), "a bad day");
  auto o = chat_options(lines);
  const Curve one = test::run_tiny(o, 1);
  EXPECT_LT(one.loss.back(), one.loss.front() - 0.1);
  expect_layout_free(o, one);
  o.data.sft_options.pack_lines = true;
  EXPECT_NE(test::run_tiny(o, 1).loss, one.loss);
}

TEST_F(SampleKinds, ValidationOfConversationsIsAPassOverTheirLines) {
  auto o = chat_options(chat_line("?", "q", "a bad day") + chat_line("?", "r", "a dad") + chat_line("?", "s", "bed"));
  o.data.data_path.clear();
  o.data.train_path = o.data.valid_path = {dir_ / "chat.jsonl"};
  o.eval_interval = 2;
  o.full_validation = true;
  EXPECT_EQ(test::run_tiny(o, 1).status, 0);
}

TEST_F(SampleKinds, WhatDoesNotGoTogetherIsRefused) {
  const auto refused = [&](const TrainingOptions& o, const std::string& word) {
    try {
      test::run_tiny(o, 1);
      ADD_FAILURE() << word;
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find(word), std::string::npos) << e.what();
    }
  };
  auto o = options();
  o.data.fim_data = o.data.inter_document_masking = true;
  refused(o, "--reset-attention-mask");
  o = options();
  o.data.fim_data = true;
  o.data.fim.prefix_token = "<PRE>";
  refused(o, "--fim-prefix-token");
  o = options();
  o.data.fim_data = true;
  o.data.tokenizer_given = false;
  o.data.vocab_size = kVocab;
  refused(o, "--tokenizer-type");
  o = chat_options(chat_line("?", "q", "a"));
  o.data.reset_position_ids = true;
  refused(o, "parted already");
  o = chat_options("{\"text\": \"plain\"}\n");
  refused(o, "chat.jsonl:1");
  o = chat_options(chat_line("?", "q", "a"));
  o.data.sft_options.prompt_format = "default";
  refused(o, "chatml");
}

}  // namespace
}  // namespace mt
