// BERT's and T5's samples against those of Megatron's own classes.

#include "data/masked_dataset.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "data/bert_dataset.h"
#include "data/t5_dataset.h"
#include "tokenizer/tokenizer.h"
#include "golden_samples.h"
#include "base/test_data.h"

namespace mt::data {
namespace {

// The vocabulary of make_samples.py: 0 [PAD], 1 [CLS], 2 [SEP], 3 [MASK]; every third id from 10 on goes on with a word.
WordPieces golden_pieces() {
  WordPieces w{1, 2, 3, 0, 4, 5, {}, {}, {}};
  for (Id id = 0; id < 200; ++id) {
    w.ids.push_back(id);
    w.continues.push_back(id >= 10 && id % 3 == 0 ? 1 : 0);
  }
  for (Id id = 200; id < 240; ++id) w.sentinels.push_back(id);
  return w;
}

using Ints = std::vector<std::int32_t>;

TEST(BertDataset, makes_megatrons_samples) {
  for (const std::string& line : golden_lines("bert.jsonl")) {
    const Json j = Json::parse(line);
    BertOptions o;
    o.seq_length = 32;
    o.sentence_pairs = j["pairs"];
    o.masking.mask_prob = j["prob"];
    o.masking.max_ngram = j["max_ngram"];
    o.masking.whole_words = j["whole"];
    o.masking.longer_ngrams = j["longer"];
    const BertSample s = make_bert_sample(j["sentences"].get<std::vector<std::vector<Id>>>(), j["target"], j["k"],
                                          golden_pieces(), o);
    const Json& want = j["sample"];
    EXPECT_EQ(s.text, want["text"].get<Ints>()) << line;
    EXPECT_EQ(s.types, want["types"].get<Ints>());
    EXPECT_EQ(s.labels, want["labels"].get<Ints>());
    EXPECT_EQ(s.loss_mask, want["loss_mask"].get<Ints>());
    EXPECT_EQ(s.padding_mask, want["padding_mask"].get<Ints>());
    EXPECT_EQ(s.is_random ? 1 : 0, want["is_random"].get<int>());
    EXPECT_EQ(s.truncated ? 1 : 0, want["truncated"].get<int>());
  }
}

TEST(T5Dataset, makes_megatrons_samples) {
  for (const std::string& line : golden_lines("t5.jsonl")) {
    const Json j = Json::parse(line);
    T5Options o;
    o.seq_length = 32;
    o.decoder_seq_length = 28;
    o.seed = 77;
    o.masking.mask_prob = j["prob"];
    std::vector<Id> ids;
    for (const Json& sentence : j["sentences"])
      for (const Json& id : sentence) ids.push_back(id);
    const T5Sample s = make_t5_sample(ids, j["target"], j["k"], golden_pieces(), o);
    const Json& want = j["sample"];
    EXPECT_EQ(s.text_enc, want["text_enc"].get<Ints>()) << line;
    EXPECT_EQ(s.text_dec, want["text_dec"].get<Ints>());
    EXPECT_EQ(s.labels, want["labels"].get<Ints>());
    EXPECT_EQ(s.loss_mask, want["loss_mask"].get<Ints>());
    EXPECT_EQ(s.enc_mask, want["enc_mask"].get<Ints>());
    EXPECT_EQ(s.dec_mask, want["dec_mask"].get<Ints>());
    EXPECT_EQ(s.truncated ? 1 : 0, want["truncated"].get<int>());
  }
}

TEST(T5Dataset, refuses_spans_without_sentinels_and_decoders_without_room) {
  std::vector<Id> ids(30, 7);
  T5Options o;
  o.seq_length = 32;
  o.masking.mask_prob = 0.3;
  WordPieces w = golden_pieces();
  EXPECT_NO_THROW(make_t5_sample(ids, 30, 0, w, o));
  o.decoder_seq_length = 2;
  EXPECT_THROW(make_t5_sample(ids, 30, 0, w, o), Error);
  o.decoder_seq_length = 32;
  w.sentinels.clear();
  EXPECT_THROW(make_t5_sample(ids, 30, 0, w, o), Error);
}

TEST(SentenceRuns, are_cut_and_shuffled_as_by_megatrons_helpers) {
  for (const auto& row : golden_rows("sentence_runs.tsv")) {
    const SentenceRunOptions o{std::stoll(row[0]), std::stoi(row[1]), std::stod(row[2]),
                               static_cast<std::uint32_t>(std::stoul(row[3])), std::stoi(row[4])};
    std::string runs;
    for (const SentenceRun& r : build_sentence_runs(numbers<std::int64_t>(row[5]), numbers<std::int32_t>(row[6]), o))
      runs += fmt::format("{}{}:{}:{}", runs.empty() ? "" : " ", r.first, r.end, r.target);
    EXPECT_EQ(runs, row[7]) << row[3];
  }
}

TEST(SentenceRuns, documents_that_give_nothing_end_the_search) {
  const std::int64_t bounds[] = {0, 1, 1};
  const std::int32_t lengths[] = {9};
  EXPECT_TRUE(build_sentence_runs(bounds, lengths, {100, 60, 0.1, 1, 2}).empty());
  EXPECT_EQ(build_sentence_runs(bounds, lengths, {3, 60, 0.0, 1, 1}), (std::vector<SentenceRun>(3, {0, 1, 60})));
}

// From a token file with a sequence a sentence.
class SentenceFile : public testing::Test {
 protected:
  SentenceFile() {
    std::string vocab = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";
    for (char c = 'a'; c <= 'z'; ++c) vocab += fmt::format("{}\n##{}\n", c, c);
    dir_.file("vocab.txt", vocab);
    tokenizer::TokenizerSpec spec;
    spec.type = "BertWordPieceLowerCase";
    spec.vocab_file = dir_ / "vocab.txt";
    tokenizer_ = tokenizer::make_tokenizer(spec);
    IndexedWriter writer(dir_ / "s", TokenType::u16, false);
    for (const char* document : {"ab cd|efg h|ij kl mn|op|q rst", "u vw|xyz a|bc", "only one"}) {
      std::istringstream in(document);
      for (std::string sentence; std::getline(in, sentence, '|');) writer.add_sequence(tokenizer_->encode(sentence));
      writer.end_document();
    }
    writer.commit(std::nullopt);
    file_.emplace(dir_ / "s");
  }
  ScratchDirectory dir_;
  std::unique_ptr<tokenizer::Tokenizer> tokenizer_;
  std::optional<IndexedDataset> file_;
};

TEST_F(SentenceFile, masks_whole_words_and_keeps_what_stood_there) {
  BertOptions o;
  o.num_samples = 60;
  o.seq_length = 24;
  o.masking.mask_prob = 0.3;
  const WordPieces w = word_pieces_of(*tokenizer_, 0);
  const BertDataset set(*file_, {0, 3}, w, o);
  ASSERT_GE(set.size(), 60);
  int swapped = 0, masks = 0;
  for (std::int64_t k = 0; k < set.size(); ++k) {
    const BertSample s = set.fetch(k);
    EXPECT_EQ(s.text[0], w.cls);
    std::vector<Id> plain = s.text;
    for (std::size_t i = 0; i < plain.size(); ++i)
      if (s.loss_mask[i] != 0) {
        plain[i] = s.labels[i];
        masks += s.text[i] == w.mask ? 1 : 0;
      }
    for (std::size_t i = 1; i < plain.size(); ++i)  // a piece that goes on is masked if and only if its word is
      EXPECT_TRUE(w.continues[static_cast<std::size_t>(plain[i])] == 0 || s.loss_mask[i] == s.loss_mask[i - 1]) << k;
    std::vector<Id> run;
    for (std::int64_t t = set.runs()[static_cast<std::size_t>(k)].first; t < set.runs()[static_cast<std::size_t>(k)].end; ++t) {
      std::vector<Id> sentence(static_cast<std::size_t>(file_->length(t)));
      file_->read(t, 0, sentence);
      run.insert(run.end(), sentence.begin(), sentence.end());
    }
    swapped += s.is_random ? 1 : 0;
    if (s.truncated) continue;
    std::vector<Id> a, b;  // what was taken together is all of the run's tokens, also where [PAD] was drawn for one
    for (std::size_t i = 0; i < plain.size(); ++i)
      if ((s.padding_mask[i] != 0 || s.loss_mask[i] != 0) && plain[i] != w.cls && plain[i] != w.sep) (s.types[i] == 0 ? a : b).push_back(plain[i]);
    if (s.is_random) std::swap(a, b);
    a.insert(a.end(), b.begin(), b.end());
    EXPECT_EQ(a, run) << k;
  }
  EXPECT_GT(swapped, 10);
  EXPECT_LT(swapped, 50);
  EXPECT_GT(masks, 60);
}

TEST_F(SentenceFile, t5_puts_its_spans_back_together) {
  T5Options o;
  o.num_samples = 40;
  o.seq_length = 24;
  o.short_seq_prob = 0;
  const WordPieces w = word_pieces_of(*tokenizer_, 10);
  EXPECT_EQ(w.sentinels.front(), tokenizer_->vocab_size());
  const T5Dataset set(*file_, {0, 3}, w, o);
  for (std::int64_t k = 0; k < set.size(); ++k) {
    const T5Sample s = set.fetch(k);
    std::vector<Id> text;
    std::size_t at = 0;  // in the labels
    for (std::size_t i = 0; i < s.text_enc.size() && s.enc_mask[i] != 0; ++i) {
      if (s.text_enc[i] < tokenizer_->vocab_size()) {
        text.push_back(s.text_enc[i]);
        continue;
      }
      ASSERT_EQ(s.labels[at++], s.text_enc[i]);
      while (s.labels[at] < tokenizer_->vocab_size() && s.labels[at] != w.eos) text.push_back(s.labels[at++]);
    }
    EXPECT_EQ(s.labels[at], w.eos);
    std::vector<Id> run;
    for (std::int64_t t = set.runs()[static_cast<std::size_t>(k)].first; t < set.runs()[static_cast<std::size_t>(k)].end; ++t) {
      std::vector<Id> sentence(static_cast<std::size_t>(file_->length(t)));
      file_->read(t, 0, sentence);
      run.insert(run.end(), sentence.begin(), sentence.end());
    }
    EXPECT_TRUE(s.truncated || text == run) << k;
  }
}

TEST_F(SentenceFile, a_split_without_a_pair_of_sentences_is_refused) {
  BertOptions o;
  o.seq_length = 24;
  EXPECT_THROW(BertDataset(*file_, {2, 3}, word_pieces_of(*tokenizer_, 0), o), Error);
  o.sentence_pairs = false;
  EXPECT_EQ(BertDataset(*file_, {2, 3}, word_pieces_of(*tokenizer_, 0), o).size(), 1);
  tokenizer::TokenizerSpec bytes;
  bytes.type = "ByteTokenizer";
  EXPECT_THROW(word_pieces_of(*tokenizer::make_tokenizer(bytes), 0), Error);
}

}  // namespace
}  // namespace mt::data
