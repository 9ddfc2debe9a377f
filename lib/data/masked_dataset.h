#pragma once
// What BERT's and T5's samples share: runs of sentences out of documents, and tokens masked in them, draw for draw as
// Megatron does it.
//
// A token file with a sequence a sentence (mt-preprocess encode of lists of strings) is what they read.
//   target  tokens a sample aims at: the most there is room for, or with probability about short_seq_prob fewer
// Source: facts of Megatron-LM core 0.20 (build_mapping, MaskedWordPieceDataset); n-grams by a geometric distribution:
// Joshi et al., "SpanBERT", 2020. Swapping words among places (masking_do_permutation), which no entry point of
// Megatron's turns on and which draws from numpy's global state, is not here.
// Code: data/masked_dataset.cc. Tests: tests/data/masked_dataset_test.cc (vectors from Megatron's code).

#include <cstdint>
#include <span>
#include <vector>

#include "data/gpt_dataset.h"
#include "data/numpy_random.h"
#include "tokenizer/tokenizer.h"

namespace mt::data {

using tokenizer::Id;

// A sample: sentences [first, end) of the file, and its target length.
struct SentenceRun {
  std::int64_t first = 0, end = 0;
  std::int32_t target = 0;
  friend bool operator==(const SentenceRun&, const SentenceRun&) = default;
};

struct SentenceRunOptions {
  std::int64_t num_samples = 0;  // epochs go on until there are as many; 0: one epoch
  std::int32_t max_length = 0;   // tokens of the longest sample
  double short_seq_prob = 0.1;
  std::uint32_t seed = 1234;
  std::int32_t min_sentences = 2;
};

// Cut documents in samples and shuffle them. Documents of fewer than min_sentences, and of several sentences of which
// one is longer than 512 tokens, give none. A sample ends when it has its target and min_sentences and more than one
// sentence is left, or with the document.
//   needs  document_bounds: first sentence of every document, and the end; lengths of all sentences of the file;
//          max_length >= 2, 0 <= short_seq_prob <= 1 (MT_CHECK)
//   gives  num_samples or more, whole epochs; in the order training reads; nothing if no document gives a sample
//   cost   24 bytes a sample, one walk an epoch
std::vector<SentenceRun> build_sentence_runs(std::span<const std::int64_t> document_bounds,
                                             std::span<const std::int32_t> lengths, const SentenceRunOptions& options);

// The same out of documents [begin, end) of a token file.
//   fails  Error{data}: no document that gives a sample
std::vector<SentenceRun> build_sentence_runs(const IndexedDataset& tokens, SequenceRange documents,
                                             const SentenceRunOptions& options);

// What masking has to know of the vocabulary.
struct WordPieces {
  Id cls = 0, sep = 0, mask = 0, pad = 0;
  Id bos = 0, eos = 0;              // T5's; [CLS] and [SEP] where a vocabulary has none of its own
  std::vector<char> continues;      // by id: 1 for a piece that goes on with a word ("##ing")
  std::vector<Id> ids;              // all of them, sentinels too, ascending: what a random token is drawn from
  std::vector<Id> sentinels;        // T5's <extra_id_0>, <extra_id_1> ...
};

// From a vocabulary that spells [CLS], [SEP], [MASK], [PAD], or <s>, </s>, <mask>, <pad>.
//   sentinels  how many <extra_id_N> there are to be: those of the vocabulary, else ids behind it (--vocab-extra-ids)
//   fails  Error{data}: one of the four missing, naming it
WordPieces word_pieces_of(const tokenizer::Tokenizer& tokenizer, int sentinels);

struct MaskingOptions {
  double mask_prob = 0.15;
  int max_ngram = 3;
  bool whole_words = true;
  bool longer_ngrams = false;    // favour the long ones
  bool geometric = false;        // length of an n-gram by a geometric distribution, 0.2
  bool always_mask = false;      // else 80 % [MASK], 10 % a random token, 10 % the token itself
};

// Tokens masked in a sample.
struct Masked {
  std::vector<Id> ids;                    // with what stands in place of masked tokens
  std::vector<std::int32_t> places;       // ascending
  std::vector<Id> labels;                 // what stood there
  std::vector<std::vector<std::int32_t>> spans;  // places of each n-gram, by its first place
};

// Mask about mask_prob of the tokens, whole n-grams of words at a time; [CLS] and [SEP] are never masked.
//   needs  every id within pieces.continues; 1 <= max_ngram <= 128; target as of the sample (MT_CHECK)
Masked mask_tokens(std::span<const Id> ids, std::int32_t target, const WordPieces& pieces,
                   const MaskingOptions& options, NumpyRandomState& random);

}  // namespace mt::data
