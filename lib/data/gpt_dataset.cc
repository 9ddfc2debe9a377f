#include "data/gpt_dataset.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "data/numpy_random.h"

namespace mt::data {

namespace {
constexpr std::int64_t kMaxCount = 0xFFFFFFFEll;  // document order and samples are 32-bit
}

std::int64_t epochs_for(std::int64_t tokens_per_epoch, std::int64_t num_samples, std::int64_t seq_length) {
  MT_CHECK(tokens_per_epoch > 0 && seq_length > 0, "tokens {} seq_length {}", tokens_per_epoch, seq_length);
  if (num_samples <= 0) return 1;
  return (num_samples * seq_length + 1 + tokens_per_epoch - 1) / tokens_per_epoch;
}

bool separate_last_epoch(std::int64_t epochs, std::int64_t tokens_per_epoch, std::int64_t num_samples,
                         std::int64_t seq_length) {
  if (epochs <= 1 || num_samples <= 0) return false;
  const std::int64_t before_last = ((epochs - 1) * tokens_per_epoch - 1) / seq_length;
  const std::int64_t per_epoch = (tokens_per_epoch - 1) / seq_length;
  return num_samples - before_last < static_cast<std::int64_t>(0.80 * static_cast<double>(per_epoch));
}

std::vector<SampleStart> build_sample_index(std::span<const std::int32_t> lengths, std::span<const std::uint32_t> order,
                                            std::int64_t seq_length, bool drop_last_partial) {
  std::int64_t total = 0;
  for (const std::uint32_t d : order) total += lengths[d];
  const std::int64_t whole = (total - 1) / seq_length;
  const std::int64_t samples = drop_last_partial ? whole : (total - 1 + seq_length - 1) / seq_length;
  std::vector<SampleStart> starts;
  starts.reserve(static_cast<std::size_t>(samples) + 1);
  std::uint32_t position = 0;
  std::int64_t offset = 0;
  starts.push_back({0, 0});
  for (std::int64_t k = 0; k < samples; ++k) {
    std::int64_t need = seq_length + 1;
    while (need > 0) {
      const std::int64_t here = lengths[order[position]] - offset;
      need -= here;
      if (need <= 0) {  // the sample ends in this document; the next one starts on its last token
        offset += need + here - 1;
      } else if (position + 1 == order.size()) {  // a partial last sample
        offset = lengths[order[position]] - 1;
        need = 0;
      } else {
        ++position;
        offset = 0;
      }
    }
    starts.push_back({position, static_cast<std::uint32_t>(offset)});
  }
  return starts;
}

namespace {

std::vector<std::uint32_t> repeated_order(std::int64_t documents, std::int64_t epochs) {
  std::vector<std::uint32_t> order(static_cast<std::size_t>(documents * epochs));
  for (std::size_t i = 0; i < order.size(); ++i) {
    order[i] = static_cast<std::uint32_t>(i % static_cast<std::size_t>(documents));
  }
  return order;
}

void shuffle_parts(NumpyRandomState& random, std::span<std::uint32_t> values, std::int64_t first_part) {
  const auto cut = static_cast<std::size_t>(first_part);
  random.shuffle(values.subspan(0, cut));
  if (cut < values.size()) random.shuffle(values.subspan(cut));
}

}  // namespace

GptDataset::GptDataset(const IndexedDataset& tokens, SequenceRange range, const GptDatasetOptions& options)
    : tokens_(&tokens), options_(options) {
  const std::int64_t documents = range.end - range.begin;
  if (range.begin < 0 || documents <= 0 || range.end > tokens.num_sequences()) {
    throw Error(
        Code::data,
        fmt::format("sequences {} to {} of {}: nothing to read", range.begin, range.end, tokens.num_sequences()),
        tokens.prefix());
  }
  MT_CHECK(options.seq_length > 0, "seq_length {}", options.seq_length);
  std::vector<std::int32_t> lengths(static_cast<std::size_t>(documents));
  std::int64_t per_epoch = 0;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    lengths[i] = tokens.length(range.begin + static_cast<std::int64_t>(i));
    per_epoch += lengths[i];
  }
  const std::int64_t seq = options.seq_length;
  const std::int64_t least = options.drop_last_partial ? seq + 1 : 2;
  if (per_epoch == 0 || (options.num_samples <= 0 && per_epoch < least)) {
    throw Error(Code::data,
                fmt::format("{} tokens in {} sequences: no sample of {} + 1 tokens", per_epoch, documents, seq),
                tokens.prefix(), "more text, or a shorter --seq-length");
  }
  if (options.num_samples > kMaxCount)
    throw Error(Code::data, fmt::format("{} samples wanted: over 2^32", options.num_samples), tokens.prefix());
  num_epochs_ = epochs_for(per_epoch, options.num_samples, seq);
  if (documents * num_epochs_ > kMaxCount || (num_epochs_ * per_epoch - 1) / seq > kMaxCount) {
    throw Error(Code::data,
                fmt::format("{} sequences x {} epochs: over 2^32 documents or samples", documents, num_epochs_),
                tokens.prefix());
  }
  const bool apart = separate_last_epoch(num_epochs_, per_epoch, options.num_samples, seq);
  NumpyRandomState random(options.seed);
  document_index_ = repeated_order(documents, num_epochs_);
  if (options.shuffle) shuffle_parts(random, document_index_, documents * (apart ? num_epochs_ - 1 : num_epochs_));
  sample_index_ = build_sample_index(lengths, document_index_, seq, options.drop_last_partial);
  shuffle_index_.resize(sample_index_.size() - 1);
  std::iota(shuffle_index_.begin(), shuffle_index_.end(), 0u);
  const std::int64_t before_last = ((num_epochs_ - 1) * per_epoch - 1) / seq;
  if (options.shuffle) shuffle_parts(random, shuffle_index_, apart ? before_last : size());
  for (std::uint32_t& d : document_index_) d += static_cast<std::uint32_t>(range.begin);
}

std::int64_t GptDataset::fetch(std::int64_t k, std::span<std::int32_t> out) const {
  return copy_sample(k, out, nullptr);
}

std::int64_t GptDataset::fetch(std::int64_t k, std::span<std::int32_t> out,
                               std::vector<std::int32_t>& document_starts) const {
  document_starts.clear();
  return copy_sample(k, out, &document_starts);
}

std::int64_t GptDataset::copy_sample(std::int64_t k, std::span<std::int32_t> out,
                                     std::vector<std::int32_t>* starts) const {
  MT_CHECK(k >= 0 && k < size(), "sample {} of {}", k, size());
  MT_CHECK(out.size() == static_cast<std::size_t>(options_.seq_length) + 1, "{} places for {} + 1 tokens", out.size(),
           options_.seq_length);
  const SampleStart start = sample_index_[shuffle_index_[static_cast<std::size_t>(k)]];
  std::size_t position = start.position, filled = 0;
  std::int64_t offset = start.offset;
  while (filled < out.size() && position < document_index_.size()) {
    const std::int64_t sequence = document_index_[position++];
    const std::size_t here =
        std::min(out.size() - filled, static_cast<std::size_t>(tokens_->length(sequence) - offset));
    if (starts != nullptr && filled > 0 && here > 0) starts->push_back(static_cast<std::int32_t>(filled));
    tokens_->read(sequence, offset, out.subspan(filled, here));
    filled += here;
    offset = 0;
  }
  std::fill(out.begin() + static_cast<std::ptrdiff_t>(filled), out.end(), options_.pad_id);
  return static_cast<std::int64_t>(filled);
}

}  // namespace mt::data
