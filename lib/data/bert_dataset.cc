#include "data/bert_dataset.h"

#include <algorithm>

#include "base/error.h"
#include "data/numpy_draws.h"

namespace mt::data {

namespace {

constexpr std::int64_t kAround = 3;  // [CLS] and two [SEP]

SentenceRunOptions run_options(const BertOptions& o) {
  MT_CHECK(o.seq_length >= kAround + 2, "seq_length {}", o.seq_length);
  return {o.num_samples, static_cast<std::int32_t>(o.seq_length - kAround), o.short_seq_prob, o.seed,
          o.sentence_pairs ? 2 : 1};
}

// Take one token at a time off the longer side, front or back, until both have room.
bool trim(std::vector<Id>& a, std::vector<Id>& b, std::int32_t target, NumpyRandomState& random) {
  const auto room = static_cast<std::size_t>(target);
  if (a.size() + b.size() <= room) return false;
  std::size_t front[2] = {0, 0}, back[2] = {a.size(), b.size()};
  const auto left = [&](int side) { return back[side] - front[side]; };
  while (left(0) + left(1) > room) {
    const int side = left(0) > left(1) ? 0 : 1;
    if (draw_uniform(random) < 0.5) ++front[side];
    else --back[side];
  }
  const auto cut = [&](std::vector<Id>& ids, int side) {
    ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(back[side]), ids.end());
    ids.erase(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(front[side]));
  };
  cut(a, 0);
  cut(b, 1);
  return true;
}

}  // namespace

BertSample make_bert_sample(const std::vector<std::vector<Id>>& sentences, std::int32_t target, std::int64_t k,
                            const WordPieces& pieces, const BertOptions& o) {
  MT_CHECK(sentences.size() >= (o.sentence_pairs ? 2u : 1u), "{} sentences", sentences.size());
  NumpyRandomState random(static_cast<std::uint32_t>(o.seed + static_cast<std::uint64_t>(k)));
  BertSample out;
  std::size_t pivot = sentences.size();
  if (o.sentence_pairs) {
    pivot = 1;
    if (sentences.size() >= 3) pivot += draw_up_to(random, static_cast<std::uint32_t>(sentences.size() - 2));
    out.is_random = draw_uniform(random) < 0.5;
  }
  std::vector<Id> a, b;
  for (std::size_t i = 0; i < sentences.size(); ++i) {
    std::vector<Id>& side = i < pivot ? a : b;
    side.insert(side.end(), sentences[i].begin(), sentences[i].end());
  }
  if (out.is_random) std::swap(a, b);
  out.truncated = trim(a, b, target, random);
  std::vector<Id> ids{pieces.cls};
  ids.insert(ids.end(), a.begin(), a.end());
  ids.push_back(pieces.sep);
  out.types.assign(ids.size(), 0);
  if (!b.empty()) {
    ids.insert(ids.end(), b.begin(), b.end());
    ids.push_back(pieces.sep);
    out.types.resize(ids.size(), 1);
  }
  const Masked masked = mask_tokens(ids, target, pieces, o.masking, random);
  const auto length = static_cast<std::size_t>(o.seq_length);
  MT_CHECK(ids.size() <= length, "{} tokens for {}", ids.size(), length);
  out.text = masked.ids;
  out.text.resize(length, pieces.pad);
  out.types.resize(length, pieces.pad);
  out.padding_mask.assign(length, 1);
  out.labels.assign(length, -1);
  out.loss_mask.assign(length, 0);
  // Megatron finds padding by its id: a pad token among the true ones counts as padding too.
  for (std::size_t i = 0; i < length; ++i)
    if (out.text[i] == pieces.pad) {
      out.padding_mask[i] = pieces.pad;
      out.text[i] = 0;
    }
  for (std::size_t i = 0; i < masked.places.size(); ++i) {
    const auto place = static_cast<std::size_t>(masked.places[i]);
    out.labels[place] = masked.labels[i] == pieces.pad ? 0 : masked.labels[i];
    out.loss_mask[place] = 1;
  }
  return out;
}

BertDataset::BertDataset(const IndexedDataset& tokens, SequenceRange documents, const WordPieces& pieces,
                         const BertOptions& options)
    : tokens_(&tokens),
      pieces_(pieces),
      options_(options),
      runs_(build_sentence_runs(tokens, documents, run_options(options))) {}

BertSample BertDataset::fetch(std::int64_t k) const {
  MT_CHECK(k >= 0 && k < size(), "sample {} of {}", k, size());
  const SentenceRun& run = runs_[static_cast<std::size_t>(k)];
  std::vector<std::vector<Id>> sentences;
  for (std::int64_t s = run.first; s < run.end; ++s) {
    sentences.emplace_back(static_cast<std::size_t>(tokens_->length(s)));
    tokens_->read(s, 0, sentences.back());
  }
  return make_bert_sample(sentences, run.target, k, pieces_, options_);
}

}  // namespace mt::data
