#include "data/mock_dataset.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "data/blend.h"
#include "data/numpy_random.h"

namespace mt::data {

namespace {

constexpr std::int64_t kDocuments = 100000;
constexpr std::int64_t kMostCount = 0xFFFFFFFEll;

using Wide = unsigned __int128;
constexpr Wide wide(std::uint64_t high, std::uint64_t low) { return (Wide{high} << 64) | low; }

// PCG64 as numpy's default_rng(0) leaves it.
class Pcg64 {
 public:
  std::uint32_t next32() {
    if (kept_) {
      kept_ = false;
      return high_;
    }
    const std::uint64_t both = next64();
    kept_ = true;
    high_ = static_cast<std::uint32_t>(both >> 32);
    return static_cast<std::uint32_t>(both);
  }

  // 0 <= n < count, by a product and rare rejection (Lemire).
  std::uint32_t below(std::uint32_t count) {
    std::uint64_t product = std::uint64_t{next32()} * count;
    const std::uint32_t least = (0u - count) % count;
    while (static_cast<std::uint32_t>(product) < least) product = std::uint64_t{next32()} * count;
    return static_cast<std::uint32_t>(product >> 32);
  }

 private:
  std::uint64_t next64() {
    state_ = state_ * wide(0x2360ED051FC65DA4u, 0x4385DF649FCCF645u) + wide(0x418ddadb3af71a82u, 0x588133bc447873a9u);
    const std::uint64_t x = static_cast<std::uint64_t>(state_ >> 64) ^ static_cast<std::uint64_t>(state_);
    const auto turn = static_cast<unsigned>(state_ >> 122);
    return (x >> turn) | (x << ((64 - turn) & 63));
  }
  Wide state_ = wide(0x1aa1b5345996452du, 0x09585eb7a69561e3u);
  bool kept_ = false;
  std::uint32_t high_ = 0;
};

}  // namespace

std::vector<std::int32_t> mock_lengths() {
  Pcg64 random;
  std::vector<std::int32_t> lengths(kDocuments);
  for (std::int32_t& n : lengths) n = static_cast<std::int32_t>(1 + random.below(4095));
  return lengths;
}

MockDataset::MockDataset(const Options& o) : options_(o) {
  MT_CHECK(o.set < 3 && o.num_samples >= 1 && o.seq_length >= 1 && o.vocab_size >= 2, "set {} samples {}", o.set,
           o.num_samples);
  const SequenceRange range = split_ranges(parse_split("1,1,1"), kDocuments)[o.set];
  const std::vector<std::int32_t> all = mock_lengths();
  lengths_.assign(all.begin() + range.begin, all.begin() + range.end);
  const auto documents = static_cast<std::int64_t>(lengths_.size());
  const std::int64_t tokens = std::accumulate(lengths_.begin(), lengths_.end(), std::int64_t{0});
  if (o.num_samples > kMostCount) throw Error(Code::data, fmt::format("{} samples wanted: over 2^32", o.num_samples));
  const std::int64_t epochs = epochs_for(tokens, o.num_samples, o.seq_length);
  if (documents * epochs > kMostCount || (epochs * tokens - 1) / o.seq_length > kMostCount)
    throw Error(Code::data, fmt::format("{} epochs of mock data: over 2^32 documents or samples", epochs));
  const bool apart = separate_last_epoch(epochs, tokens, o.num_samples, o.seq_length);
  NumpyRandomState random(o.seed);
  const auto shuffle = [&random](std::span<std::uint32_t> values, std::int64_t first) {
    const auto cut = static_cast<std::size_t>(first);
    random.shuffle(values.first(cut));
    if (cut < values.size()) random.shuffle(values.subspan(cut));
  };
  order_.resize(static_cast<std::size_t>(documents * epochs));
  for (std::size_t i = 0; i < order_.size(); ++i)
    order_[i] = static_cast<std::uint32_t>(i % static_cast<std::size_t>(documents));
  shuffle(order_, documents * (apart ? epochs - 1 : epochs));
  starts_ = build_sample_index(lengths_, order_, o.seq_length, true);
  shuffle_.resize(starts_.size() - 1);
  std::iota(shuffle_.begin(), shuffle_.end(), 0u);
  shuffle(shuffle_, apart ? ((epochs - 1) * tokens - 1) / o.seq_length : size());
}

std::int64_t MockDataset::fetch(std::int64_t k, std::span<std::int32_t> out,
                                std::vector<std::int32_t>& document_starts) const {
  MT_CHECK(k >= 0 && k < size(), "sample {} of {}", k, size());
  MT_CHECK(out.size() == static_cast<std::size_t>(options_.seq_length) + 1, "{} places", out.size());
  document_starts.clear();
  const SampleStart start = starts_[shuffle_[static_cast<std::size_t>(k)]];
  std::size_t position = start.position, filled = 0;
  std::int64_t at = start.offset;
  while (filled < out.size()) {
    const std::int64_t length = lengths_[order_[position++]];
    if (filled > 0) document_starts.push_back(static_cast<std::int32_t>(filled));
    for (; at < length && filled < out.size(); ++at)
      out[filled++] = at + 1 == length ? options_.eod : static_cast<std::int32_t>((at + 1) % options_.vocab_size);
    at = 0;
  }
  return static_cast<std::int64_t>(filled);
}

}  // namespace mt::data
