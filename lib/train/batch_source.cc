#include "train/batch_source.h"

#include "base/error.h"
#include "base/hash.h"
#include "data/sampler.h"

namespace mt {

BatchSource::BatchSource(Fetch fetch, const BatchSpec& batch, const data::MaskOptions& masks)
    : fetch_(std::move(fetch)), batch_(batch), masks_(masks) {}

void BatchSource::append(std::int64_t ordinal, HostBatch& b) const {
  const auto l = static_cast<std::size_t>(batch_.seq_length);
  std::vector<std::int32_t> tokens(l + 1);
  const std::int64_t real = fetch_(ordinal, tokens);
  const std::size_t at = b.ids.size();
  b.ids.insert(b.ids.end(), tokens.begin(), tokens.end() - 1);
  b.labels.insert(b.labels.end(), tokens.begin() + 1, tokens.end());
  b.mask.resize(at + l);
  b.positions.resize(at + l);
  data::fill_masks(tokens, real, masks_, std::span(b.mask).subspan(at), std::span(b.positions).subspan(at));
  b.ordinals.resize(at + l, ordinal);
  const auto bounds = data::attention_bounds(tokens, masks_);
  for (std::size_t i = 1; i < bounds.size(); ++i) b.cu_seqlens.push_back(static_cast<std::int32_t>(at) + bounds[i]);
}

std::vector<HostBatch> BatchSource::step(std::int64_t consumed, int dp, int dp_rank) const {
  const data::StepSamples s{consumed, batch_.global_batch, batch_.micro_batch, dp};
  std::vector<HostBatch> out;
  for (std::int64_t m = 0; m < s.num_micro_batches(); ++m) {
    HostBatch b;
    b.cu_seqlens.push_back(0);
    for (std::int64_t i = 0; i < batch_.micro_batch; ++i) append(s.ordinal(dp_rank, m, i), b);
    out.push_back(std::move(b));
  }
  return out;
}

namespace {

data::MaskOptions mask_options(const DataOptions& o) {
  data::MaskOptions m;
  m.eod_mask_loss = o.eod_mask_loss;
  m.reset_position_ids = o.reset_position_ids;
  m.reset_attention_mask = o.reset_attention_mask;
  if (!(m.eod_mask_loss || m.reset_position_ids || m.reset_attention_mask)) return m;
  if (o.tokenizer_given) m.eod = data::make_tokenizer(o.tokenizer)->eod();
  for (const auto& prefix : o.mock_data ? std::vector<std::string>{} : data::parse_data_path(o.data_path).prefixes)
    if (const auto origin = data::IndexedDataset(prefix).origin(); origin && !m.eod) m.eod = origin->eod;
  if (!m.eod)
    throw Error(Code::config, "--eod-mask-loss, --reset-position-ids and --reset-attention-mask need the end id", "",
                "give --tokenizer-type and its files");
  return m;
}

// A token that is no row of the embedding would be looked up in padding, or beyond it.
void check_ids(std::span<const std::int32_t> tokens, std::int64_t vocab, std::int64_t ordinal) {
  for (const std::int32_t id : tokens)
    if (id < 0 || id >= vocab)
      throw Error(Code::data, fmt::format("sample {} of the data holds token {}, the vocabulary has {}", ordinal, id, vocab),
                  "--data-path", "give the --vocab-size of the tokenizer that encoded it");
}

// Made-up text that a model can learn: runs of consecutive ids, their start a hash of the sample.
std::int64_t mock_sample(std::int64_t ordinal, std::int64_t vocab, std::span<std::int32_t> out) {
  const std::uint64_t start = xxh3(&ordinal, sizeof ordinal);
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = static_cast<std::int32_t>((start + i) % static_cast<std::uint64_t>(vocab));
  return static_cast<std::int64_t>(out.size());
}

std::vector<std::string> fingerprints(const DataOptions& o) {
  std::vector<std::string> out;
  if (o.mock_data || o.data_path.empty()) return out;
  for (const auto& prefix : data::parse_data_path(o.data_path).prefixes)
    if (const auto origin = data::IndexedDataset(prefix).origin()) out.push_back(origin->fingerprint);
  return out;
}

}  // namespace

// A tokenizer given beside token files must be the one that made them.
void require_same_tokenizer(const DataOptions& o) {
  if (!o.tokenizer_given || o.mock_data || o.data_path.empty()) return;
  const std::string mine = hash_text(data::make_tokenizer(o.tokenizer)->fingerprint());
  for (const auto& prefix : data::parse_data_path(o.data_path).prefixes)
    if (const auto origin = data::IndexedDataset(prefix).origin();
        origin && !origin->fingerprint.empty() && origin->fingerprint != mine)
      throw Error(Code::config, fmt::format("{} was encoded with another tokenizer ({})", prefix, origin->tokenizer_type),
                  "--tokenizer-type", "give the tokenizer of the data, or none");
}

std::int64_t vocab_size_of(const DataOptions& o) {
  if (o.vocab_size) return *o.vocab_size;
  if (o.tokenizer_given) return data::make_tokenizer(o.tokenizer)->vocab_size();
  std::int64_t vocab = 0;
  std::string first;
  for (const auto& prefix : o.mock_data ? std::vector<std::string>{} : data::parse_data_path(o.data_path).prefixes) {
    const auto origin = data::IndexedDataset(prefix).origin();
    if (!origin) continue;
    if (vocab != 0 && origin->vocab_size != vocab)
      throw Error(Code::config, fmt::format("the vocabulary is {} in {} and {} in {}", vocab, first,
                                            origin->vocab_size, prefix), "--data-path",
                  "blend token files of one tokenizer, or give --vocab-size");
    vocab = origin->vocab_size;
    first = prefix;
  }
  if (vocab == 0)
    throw Error(Code::config, "nothing says how large the vocabulary is", "",
                "give --vocab-size N, or --tokenizer-type and its files, or token files with their .json beside them");
  return vocab;
}

RunData open_data(const TrainingOptions& o, std::int64_t vocab_size) {
  require_same_tokenizer(o.data);
  const auto masks = mask_options(o.data);
  RunData run;
  const auto source = [&](BatchSource::Fetch fetch) {
    return std::make_unique<BatchSource>(std::move(fetch), o.batch, masks);
  };
  if (o.data.mock_data) {
    const auto mock = [vocab_size](std::int64_t k, std::span<std::int32_t> out) {
      return mock_sample(k, vocab_size, out);
    };
    run.train = source(mock);
    run.valid = source([mock](std::int64_t k, std::span<std::int32_t> out) { return mock(-1 - k, out); });
    return run;
  }
  const std::int64_t batch = o.batch.global_batch;
  data::SplitsRequest request;
  request.path = data::parse_data_path(o.data.data_path);
  request.split = o.data.split;
  const std::int64_t evaluations = o.eval_interval > 0 ? o.train_iters / o.eval_interval + 1 : 0;
  request.num_samples = {o.train_iters * batch, evaluations * o.eval_iters * batch, 0};
  request.seq_length = o.batch.seq_length;
  request.seed = static_cast<std::uint32_t>(o.seed);
  run.splits = std::make_unique<data::Splits>(data::build_splits(request));
  const auto set = [&](std::optional<data::BlendedDataset>& d) -> std::unique_ptr<BatchSource> {
    if (!d) return nullptr;
    return source([&d = *d, vocab_size](std::int64_t k, std::span<std::int32_t> out) {
      const std::int64_t real = d.fetch(k % d.size(), out);
      check_ids(out.first(static_cast<std::size_t>(real)), vocab_size, k);
      return real;
    });
  };
  run.train = set(run.splits->train);
  run.valid = set(run.splits->valid);
  const auto prints = fingerprints(o.data);
  if (!prints.empty()) run.tokenizer_fingerprint = prints.front();
  return run;
}

}  // namespace mt
