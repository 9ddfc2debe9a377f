#include "data/t5_dataset.h"

#include "base/error.h"

namespace mt::data {

namespace {

constexpr std::int64_t kAround = 2;  // room Megatron keeps for a begin and an end

SentenceRunOptions run_options(const T5Options& o) {
  MT_CHECK(o.seq_length >= kAround + 2, "seq_length {}", o.seq_length);
  return {o.num_samples, static_cast<std::int32_t>(o.seq_length - kAround), o.short_seq_prob, o.seed, 1};
}

void pad_to(std::vector<Id>& ids, std::vector<std::int32_t>& mask, std::int64_t length, Id pad) {
  ids.resize(static_cast<std::size_t>(length), pad);
  mask.assign(ids.size(), 1);
  for (std::size_t i = 0; i < ids.size(); ++i)
    if (ids[i] == pad) {
      mask[i] = 0;
      ids[i] = 0;
    }
}

}  // namespace

T5Sample make_t5_sample(std::vector<Id> ids, std::int32_t target, std::int64_t k, const WordPieces& pieces,
                        const T5Options& o) {
  NumpyRandomState random(static_cast<std::uint32_t>(o.seed + static_cast<std::uint64_t>(k)));
  T5Sample out;
  out.truncated = ids.size() > static_cast<std::size_t>(target);
  if (out.truncated) ids.resize(static_cast<std::size_t>(target));
  const Masked masked = mask_tokens(ids, target, pieces, o.masking, random);
  if (masked.spans.size() > pieces.sentinels.size())
    throw Error(Code::data, fmt::format("sample {} has {} spans, the vocabulary {} sentinels", k, masked.spans.size(),
                                        pieces.sentinels.size()),
                "--vocab-extra-ids", "100 is usual");
  out.text_dec.push_back(pieces.bos);
  std::size_t at = 0;
  for (std::size_t s = 0; s < masked.spans.size(); ++s) {
    const auto& span = masked.spans[s];
    const auto first = static_cast<std::size_t>(span.front()), after = static_cast<std::size_t>(span.back()) + 1;
    out.text_enc.insert(out.text_enc.end(), masked.ids.begin() + static_cast<std::ptrdiff_t>(at),
                        masked.ids.begin() + static_cast<std::ptrdiff_t>(first));
    out.text_enc.push_back(pieces.sentinels[s]);
    out.text_dec.push_back(pieces.sentinels[s]);
    for (const std::int32_t place : span) out.text_dec.push_back(ids[static_cast<std::size_t>(place)]);
    at = after;
  }
  out.text_enc.insert(out.text_enc.end(), masked.ids.begin() + static_cast<std::ptrdiff_t>(at), masked.ids.end());
  out.labels.assign(out.text_dec.begin() + 1, out.text_dec.end());
  out.labels.push_back(pieces.eos);
  const auto decoder = static_cast<std::size_t>(o.decoder_seq_length);
  if (out.text_dec.size() > decoder)
    throw Error(Code::data, fmt::format("sample {} has {} tokens for a decoder of {}", k, out.text_dec.size(), decoder),
                "--decoder-seq-length", "a longer one");
  MT_CHECK(out.text_enc.size() <= static_cast<std::size_t>(o.seq_length), "{} tokens", out.text_enc.size());
  out.loss_mask.assign(decoder, 0);
  std::fill_n(out.loss_mask.begin(), out.labels.size(), 1);
  for (Id& label : out.labels)
    if (label == pieces.pad) label = 0;
  out.labels.resize(decoder, -1);
  pad_to(out.text_enc, out.enc_mask, o.seq_length, pieces.pad);
  pad_to(out.text_dec, out.dec_mask, o.decoder_seq_length, pieces.pad);
  return out;
}

T5Dataset::T5Dataset(const IndexedDataset& tokens, SequenceRange documents, const WordPieces& pieces,
                     const T5Options& options)
    : tokens_(&tokens),
      pieces_(pieces),
      options_(options),
      runs_(build_sentence_runs(tokens, documents, run_options(options))) {}

T5Sample T5Dataset::fetch(std::int64_t k) const {
  MT_CHECK(k >= 0 && k < size(), "sample {} of {}", k, size());
  const SentenceRun& run = runs_[static_cast<std::size_t>(k)];
  std::vector<Id> ids;
  for (std::int64_t s = run.first; s < run.end; ++s) {
    const std::size_t at = ids.size();
    ids.resize(at + static_cast<std::size_t>(tokens_->length(s)));
    tokens_->read(s, 0, std::span(ids).subspan(at));
  }
  return make_t5_sample(std::move(ids), run.target, k, pieces_, options_);
}

}  // namespace mt::data
