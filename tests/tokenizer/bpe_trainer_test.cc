// Learned merges against hand counts, and a vocabulary that comes back from its file.

#include "tokenizer/bpe_trainer.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "tokenizer/tokenizer_json.h"
#include "peer_vectors.h"
#include "base/test_data.h"

namespace mt::tokenizer {
namespace {

TrainedBpe train(const std::vector<std::string>& documents, std::int32_t vocab_size, std::int64_t min_frequency = 0) {
  BpeTrainer trainer({vocab_size, min_frequency, {"<|endoftext|>"}});
  for (const std::string& d : documents) trainer.add(d);
  return trainer.train();
}

std::vector<std::string> learned(const TrainedBpe& bpe) { return {bpe.tokens.begin() + 257, bpe.tokens.end()}; }

TEST(BpeTrainer, takes_the_most_frequent_pair_and_the_lowest_ids_on_a_tie) {
  const TrainedBpe bpe = train({"hug hug pug hugs hugs"}, 257 + 4);
  // "ug" 5 against "hu" 4; then "hug" 4, " hug" 3, " hugs" 2.
  EXPECT_EQ(learned(bpe), (std::vector<std::string>{"ug", "hug", " hug", " hugs"}));
}

TEST(BpeTrainer, ties_go_to_the_lowest_left_then_right_id) {
  const TrainedBpe bpe = train({"ba ab", "cd"}, 257 + 3);
  // "ba", " a", "ab", "cd" are seen once each; the bytes' ids follow their written characters, the space's is 0x0120.
  EXPECT_EQ(learned(bpe), (std::vector<std::string>{"ab", "ba", "cd"}));
}

TEST(BpeTrainer, stops_when_no_pair_is_left_or_frequent_enough) {
  EXPECT_EQ(train({"aaaa"}, 1000).tokens.size(), 257u + 2u);
  EXPECT_EQ(train({"ab ab xy"}, 1000, 2).tokens.size(), 257u + 1u);
  EXPECT_THROW(BpeTrainer({200, 0, {}}), Error);
}

TEST(BpeTrainer, refuses_special_tokens_without_a_name_of_their_own) {
  for (const std::vector<std::string>& special :
       std::vector<std::vector<std::string>>{{""}, {"<a>", "<b>", "<a>"}, {"a"}, {"\u0120"}, {"\xff<"}}) {
    EXPECT_THROW(BpeTrainer({300, 0, special}), Error) << special.front();
  }
  EXPECT_THROW(BpeTrainer({300, -1, {"<a>"}}), Error);
  BpeTrainer({300, 0, {"<a>", "<b>"}});
}

TEST(BpeTrainer, its_file_reads_back_and_encodes_losslessly) {
  const ScratchDirectory dir;
  const std::string text =
      "It's the end of the world as we know it: 12 \"worlds\", \\ and é, 中文, \t tabs.\n\nThe end.";
  const TrainedBpe bpe = train({text, text}, 300);
  write_tokenizer_json(dir / "tokenizer.json", bpe);
  TokenizerSpec spec;
  spec.model = dir.path();
  const auto tokenizer = make_tokenizer(spec);
  EXPECT_EQ(tokenizer->vocab_size(), 300);
  EXPECT_EQ(tokenizer->eod(), 0);
  const std::vector<Id> ids = tokenizer->encode(text);
  EXPECT_LT(ids.size(), text.size());
  EXPECT_EQ(tokenizer->decode(ids), text);
  spec.parse_special = true;
  EXPECT_EQ(make_tokenizer(spec)->encode("<|endoftext|>"), std::vector<Id>{0});
}

// Vocabulary and merges of the reference, token by token, over characters and over bytes.
TEST(BpeTrainer, learns_what_the_reference_learns) {
  const std::vector<Json> all = peer_vectors("bpe_trainer");
  ASSERT_GE(all.size(), 5u);
  for (const Json& j : all) {
    const bool pieces = j.at("style") == "sentencepiece";
    BpeTrainerOptions options;
    options.vocab_size = j.at("vocab_size");
    options.min_frequency = j.at("min_frequency");
    options.limit_alphabet = j.at("limit_alphabet");
    options.style = pieces ? BpeStyle::sentencepiece : BpeStyle::byte_level;
    if (pieces) options.special = {"<unk>", "<s>", "</s>"};
    BpeTrainer trainer(options);
    for (const Json& document : j.at("documents")) trainer.add(document.get<std::string>());
    const ScratchDirectory dir;
    write_tokenizer_json(dir / "tokenizer.json", trainer.train());
    const Json made = read_json(dir / "tokenizer.json").at("model");
    std::vector<std::string> tokens;
    for (const auto& [token, id] : made.at("vocab").items()) {
      ASSERT_EQ(id.get<std::size_t>(), tokens.size());
      tokens.push_back(token);
    }
    EXPECT_EQ(tokens, j.at("tokens").get<std::vector<std::string>>()) << j.at("vocab_size");
    EXPECT_EQ(made.at("merges"), j.at("merges")) << j.at("vocab_size");
  }
}

TEST(BpeTrainer, a_vocabulary_of_pieces_reads_back_and_spells_what_it_never_saw_with_bytes) {
  const ScratchDirectory dir;
  BpeTrainerOptions options;
  options.vocab_size = 300;
  options.style = BpeStyle::sentencepiece;
  options.special = {"<unk>", "<s>", "</s>"};
  BpeTrainer trainer(options);
  trainer.add("the end of the end");
  write_tokenizer_json(dir / "tokenizer.json", trainer.train());
  TokenizerSpec spec;
  spec.model = dir.path();
  const auto tokenizer = make_tokenizer(spec);
  EXPECT_EQ(tokenizer->eod(), 2);
  for (const char* text : {"the end", "é 中 the", "a  b"}) EXPECT_EQ(tokenizer->decode(tokenizer->encode(text)), text);
  EXPECT_EQ(tokenizer->encode("é").size(), 3u);
}

TEST(BpeTrainer, refuses_options_of_pieces_that_cannot_be) {
  BpeTrainerOptions options;
  options.vocab_size = 300;
  options.limit_alphabet = 5;
  EXPECT_THROW(BpeTrainer{options}, Error);  // over bytes there is no alphabet to limit
  options.style = BpeStyle::sentencepiece;
  for (const char* special : {"", "x", "a b", "<0x41>", "\xff<"}) {
    options.special = {special};
    EXPECT_THROW(BpeTrainer{options}, Error) << special;
  }
  options = {262, 0, {"<unk>"}, BpeStyle::sentencepiece, 0};
  BpeTrainer crowded(options);
  crowded.add("more letters than there is room");
  EXPECT_THROW(crowded.train(), Error);
}

}  // namespace
}  // namespace mt::tokenizer
