#include "data/sample_order.h"

#include <numeric>

#include "base/error.h"
#include "data/indexed_dataset.h"
#include "data/numpy_random.h"

namespace mt::data {

namespace {

constexpr std::int64_t kMaxCount = 0xFFFFFFFEll;  // document order and samples are 32-bit

std::int64_t samples_in(std::int64_t tokens, std::int64_t seq_length, bool drop_last_partial) {
  return (tokens - 1 + (drop_last_partial ? 0 : seq_length - 1)) / seq_length;
}

}  // namespace

SequenceLengths::SequenceLengths(const IndexedDataset& tokens)
    : at_(tokens.length_bytes()), size_(tokens.num_sequences()) {}

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

SampleCounts count_samples(const SequenceLengths& lengths, SequenceRange range, const GptDatasetOptions& o,
                           const std::string& file) {
  const std::int64_t documents = range.end - range.begin;
  if (range.begin < 0 || documents <= 0 || range.end > lengths.size())
    throw Error(Code::data,
                fmt::format("sequences {} to {} of {}: nothing to read", range.begin, range.end, lengths.size()), file);
  MT_CHECK(o.seq_length > 0, "seq_length {}", o.seq_length);
  SampleCounts c;
  for (std::int64_t i = range.begin; i < range.end; ++i) c.tokens_per_epoch += lengths[static_cast<std::size_t>(i)];
  const std::int64_t per_epoch = c.tokens_per_epoch, least = o.drop_last_partial ? o.seq_length + 1 : 2;
  if (per_epoch == 0 || (o.num_samples <= 0 && per_epoch < least))
    throw Error(Code::data,
                fmt::format("{} tokens in {} sequences: no sample of {} + 1 tokens", per_epoch, documents, o.seq_length),
                file, "more text, or a shorter --seq-length");
  if (o.num_samples > kMaxCount)
    throw Error(Code::data, fmt::format("{} samples wanted: over 2^32 - 2", o.num_samples), file);
  c.epochs = epochs_for(per_epoch, o.num_samples, o.seq_length);
  if (documents > kMaxCount / c.epochs || (c.epochs * per_epoch - 1) / o.seq_length > kMaxCount)
    throw Error(Code::data,
                fmt::format("{} sequences x {} epochs: over 2^32 - 2 documents or samples", documents, c.epochs), file,
                "fewer samples, or parts of the file as members of a blend");
  c.documents = documents * c.epochs;
  c.samples = samples_in(c.epochs * per_epoch, o.seq_length, o.drop_last_partial);
  const bool apart = separate_last_epoch(c.epochs, per_epoch, o.num_samples, o.seq_length);
  c.whole_epochs = apart ? c.epochs - 1 : c.epochs;
  c.whole_samples = apart ? (c.whole_epochs * per_epoch - 1) / o.seq_length : c.samples;
  return c;
}

// A sample starts in the document that holds the last token of the one before, so a document has the starts that fall on
// its tokens. Lengths of documents in a random order are far apart in memory: they are asked for ahead.
void fill_sample_starts(const SequenceLengths& lengths, std::span<const std::uint32_t> order, std::int64_t seq_length,
                        std::span<SampleStart> starts) {
  constexpr std::size_t kAhead = 48;
  starts[0] = {0, 0};
  std::size_t next = 1;
  std::int64_t to_next = seq_length;  // tokens from the document at hand to that start
  for (std::size_t p = 0; p < order.size() && next < starts.size(); ++p) {
    if (p + kAhead < order.size()) lengths.prefetch(order[p + kAhead]);
    const std::int64_t here = lengths[order[p]];
    for (; to_next < here && next < starts.size(); to_next += seq_length)
      starts[next++] = {static_cast<std::uint32_t>(p), static_cast<std::uint32_t>(to_next)};
    to_next -= here;
  }
  if (next == starts.size()) return;
  // A partial last sample ends on the last token there is.
  MT_CHECK(next + 1 == starts.size(), "{} starts for {} samples", next, starts.size() - 1);
  starts[next] = {static_cast<std::uint32_t>(order.size() - 1), static_cast<std::uint32_t>(lengths[order.back()] - 1)};
}

std::vector<SampleStart> build_sample_index(std::span<const std::int32_t> lengths, std::span<const std::uint32_t> order,
                                            std::int64_t seq_length, bool drop_last_partial) {
  std::int64_t total = 0;
  for (const std::uint32_t d : order) total += lengths[d];
  std::vector<SampleStart> starts(static_cast<std::size_t>(samples_in(total, seq_length, drop_last_partial)) + 1);
  fill_sample_starts(SequenceLengths(lengths), order, seq_length, starts);
  return starts;
}

namespace {

void shuffle_parts(NumpyRandomState& random, std::span<std::uint32_t> values, std::int64_t first_part) {
  const auto cut = static_cast<std::size_t>(first_part);
  random.shuffle(values.subspan(0, cut));
  if (cut < values.size()) random.shuffle(values.subspan(cut));
}

}  // namespace

IndexArrays make_sample_order(const SequenceLengths& lengths, SequenceRange range, const GptDatasetOptions& o,
                              const SampleCounts& c) {
  std::vector<IndexMemory> memory;
  memory.emplace_back(4 * static_cast<std::size_t>(c.documents));
  memory.emplace_back(sizeof(SampleStart) * (static_cast<std::size_t>(c.samples) + 1));
  memory.emplace_back(4 * static_cast<std::size_t>(c.samples));
  NumpyRandomState random(o.seed);
  const auto order = memory[0].as<std::uint32_t>(), shuffle = memory[2].as<std::uint32_t>();
  const std::int64_t documents = range.end - range.begin;
  for (std::int64_t e = 0; e < c.epochs; ++e) {
    const auto copy = order.subspan(static_cast<std::size_t>(e * documents), static_cast<std::size_t>(documents));
    std::iota(copy.begin(), copy.end(), static_cast<std::uint32_t>(range.begin));
  }
  if (o.shuffle) shuffle_parts(random, order, documents * c.whole_epochs);
  fill_sample_starts(lengths, order, o.seq_length, memory[1].as<SampleStart>());
  std::iota(shuffle.begin(), shuffle.end(), 0u);
  if (o.shuffle) shuffle_parts(random, shuffle, c.whole_samples);
  return IndexArrays(std::move(memory));
}

}  // namespace mt::data
