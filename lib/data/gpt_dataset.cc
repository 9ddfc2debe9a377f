#include "data/gpt_dataset.h"

#include <algorithm>

#include "base/error.h"
#include "base/json.h"
#include "data/index_cache.h"

namespace mt::data {

GptDataset::GptDataset(const IndexedDataset& tokens, SequenceRange range, const GptDatasetOptions& options)
    : tokens_(&tokens), options_(options) {
  const SequenceLengths lengths(tokens);
  counts_ = count_samples(lengths, range, options, tokens.prefix());
  use(make_sample_order(lengths, range, options, counts_));
}

GptDataset::GptDataset(const IndexedDataset& tokens, SequenceRange range, const GptDatasetOptions& options,
                       IndexCache& cache, const std::string& content)
    : tokens_(&tokens), options_(options) {
  const SequenceLengths lengths(tokens);
  counts_ = count_samples(lengths, range, options, tokens.prefix());
  const fs::path prefix = tokens.prefix();
  IndexKey key;
  key.name = prefix.filename().string();
  key.beside = prefix.parent_path();
  key.text = json_line({{"order", "gpt"},
                        {"tokens", content},
                        {"begin", range.begin},
                        {"end", range.end},
                        {"num_samples", options.num_samples},
                        {"seq_length", options.seq_length},
                        {"seed", options.seed},
                        {"shuffle", options.shuffle},
                        {"drop_last_partial", options.drop_last_partial}});
  key.array_bytes = {4 * static_cast<std::uint64_t>(counts_.documents),
                     sizeof(SampleStart) * (static_cast<std::uint64_t>(counts_.samples) + 1),
                     4 * static_cast<std::uint64_t>(counts_.samples)};
  use(cache.get(key, [&] { return make_sample_order(lengths, range, options, counts_); }));
}

void GptDataset::use(IndexArrays arrays) {
  arrays_ = std::move(arrays);
  document_index_ = arrays_.array<std::uint32_t>(0);
  sample_index_ = arrays_.array<SampleStart>(1);
  shuffle_index_ = arrays_.array<std::uint32_t>(2);
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
