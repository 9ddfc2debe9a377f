#include "train/run_data.h"

#include <filesystem>
#include <set>

#include "base/error.h"
#include "base/hash.h"

namespace mt {

namespace {

// Every token file of a run, whichever set it is for.
std::vector<std::string> prefixes_of(const DataOptions& o) {
  std::vector<std::string> all;
  if (o.mock_data) return all;
  for (const auto* words : {&o.data_path, &o.train_path, &o.valid_path, &o.test_path})
    if (!words->empty())
      for (auto& prefix : data::parse_data_path(*words).prefixes) all.push_back(std::move(prefix));
  return all;
}

data::MaskOptions mask_options(const DataOptions& o) {
  data::MaskOptions m;
  m.eod_mask_loss = o.eod_mask_loss;
  m.reset_position_ids = o.reset_position_ids;
  m.reset_attention_mask = o.reset_attention_mask;
  if (!(m.eod_mask_loss || m.reset_position_ids || m.reset_attention_mask)) return m;
  if (o.tokenizer_given) m.eod = data::make_tokenizer(o.tokenizer)->eod();
  for (const auto& prefix : prefixes_of(o))
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

// The tokenizer that made the token files, "" when none says; all that say one say the same, in whichever set.
std::string fingerprint_of(const DataOptions& o) {
  std::string found, first;
  for (const auto& prefix : prefixes_of(o)) {
    const auto origin = data::IndexedDataset(prefix).origin();
    if (!origin || origin->fingerprint.empty()) continue;
    if (!found.empty() && origin->fingerprint != found)
      throw Error(Code::config, fmt::format("{} and {} were made by different tokenizers, {} and {}: one id means two things",
                                            first, prefix, found, origin->fingerprint),
                  "--data-path", "encode both with one tokenizer");
    found = origin->fingerprint;
    if (first.empty()) first = prefix;
  }
  return found;
}

// A tokenizer given beside token files must be the one that made them.
void require_same_tokenizer(const DataOptions& o) {
  if (!o.tokenizer_given || prefixes_of(o).empty()) return;
  const std::string mine = hash_text(data::make_tokenizer(o.tokenizer)->fingerprint());
  for (const auto& prefix : prefixes_of(o))
    if (const auto origin = data::IndexedDataset(prefix).origin();
        origin && !origin->fingerprint.empty() && origin->fingerprint != mine)
      throw Error(Code::config, fmt::format("{} was encoded with another tokenizer ({})", prefix, origin->tokenizer_type),
                  "--tokenizer-type", "give the tokenizer of the data, or none");
}

}  // namespace

std::int64_t vocab_size_of(const DataOptions& o) {
  if (o.vocab_size) return *o.vocab_size;
  if (o.tokenizer_given) return data::make_tokenizer(o.tokenizer)->vocab_size();
  std::int64_t vocab = 0;
  std::string first;
  for (const auto& prefix : prefixes_of(o)) {
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

namespace {

// Makes sets and keeps the files they read from.
class SetMaker {
 public:
  SetMaker(const TrainingOptions& o, std::int64_t vocab_size, RunData& run)
      : o_(o), vocab_size_(vocab_size), masks_(mask_options(o.data)), run_(run) {}

  std::unique_ptr<BatchSource> source(BatchSource::Fetch fetch) const {
    return std::make_unique<BatchSource>(std::move(fetch), o_.batch, masks_);
  }

  // Training, validation and test set of one request, as far as they are asked for.
  data::Splits& build(const data::DataPath& path, const std::string& split, const std::array<std::int64_t, 3>& samples) {
    data::SplitsRequest request;
    request.path = path;
    request.split = split;
    request.num_samples = samples;
    request.seq_length = o_.batch.seq_length;
    request.seed = static_cast<std::uint32_t>(o_.seed);
    run_.files.push_back(std::make_unique<data::Splits>(data::build_splits(request)));
    return *run_.files.back();
  }

  // Batches of a set. With `samples` > 0 those beyond it count nothing; without, the set begins anew at its end.
  std::unique_ptr<BatchSource> batches(const std::optional<data::BlendedDataset>& set, std::int64_t samples) const {
    if (!set) return nullptr;
    return source([&d = *set, vocab = vocab_size_, samples](std::int64_t k, std::span<std::int32_t> out) {
      if (samples > 0 && k >= samples) {
        std::fill(out.begin(), out.end(), 0);
        return std::int64_t{0};
      }
      const std::int64_t real = d.fetch(k % d.size(), out);
      check_ids(out.first(static_cast<std::size_t>(real)), vocab, k);
      return real;
    });
  }

  // Whole samples in one epoch of split `index`.
  std::int64_t epoch(const data::DataPath& path, const std::string& split, std::size_t index) const {
    std::int64_t samples = 0;
    for (const auto& prefix : path.prefixes) {
      const data::IndexedDataset file(prefix);
      const auto range = data::split_ranges(data::parse_split(split), file.num_sequences())[index];
      std::int64_t tokens = 0;
      for (std::int64_t i = range.begin; i < range.end; ++i) tokens += file.length(i);
      samples += std::max<std::int64_t>(0, (tokens - 1) / o_.batch.seq_length);
    }
    if (samples == 0)
      throw Error(Code::config, fmt::format("--full-validation: no whole sample of {} tokens in {}", o_.batch.seq_length,
                                            path.prefixes.front()),
                  "", "a smaller --seq-length, or more validation data");
    return samples;
  }

 private:
  const TrainingOptions& o_;
  std::int64_t vocab_size_;
  data::MaskOptions masks_;
  RunData& run_;
};

// How many samples the sets need.
struct Wanted {
  std::int64_t train = 0, valid = 0, test = 0;
};

Wanted samples_wanted(const TrainingOptions& o) {
  const std::int64_t batch = o.batch.global_batch;
  if (o.eval_interval == 0) return {o.train_samples.value_or(o.train_iters * batch), 0, 0};
  return {o.train_samples.value_or(o.train_iters * batch), (o.train_iters / o.eval_interval + 1) * o.eval_iters * batch,
          o.eval_iters * batch};
}

// The test set is scored if there is one; a run without is none the worse.
void add_test_set(SetMaker& make, const data::DataPath& path, const std::string& split, const Wanted& wanted,
                  RunData& run) {
  if (wanted.test == 0 || data::parse_split(split)[2] == 0) return;
  try {
    auto& files = make.build(path, split, {0, 0, wanted.test});
    if (files.test) run.test = RunData::Set{"test", make.batches(files.test, 0), 0};
  } catch (const Error& e) {
    run.notices.push_back(fmt::format("there will be no test loss: {}", e.message()));
  }
}

void open_one_path(const TrainingOptions& o, SetMaker& make, RunData& run) {
  const auto path = data::parse_data_path(o.data.data_path);
  const Wanted wanted = samples_wanted(o);
  const std::int64_t pass = o.full_validation && wanted.valid > 0 ? make.epoch(path, o.data.split, 1) : 0;
  auto& files = make.build(path, o.data.split, {wanted.train, pass > 0 ? pass : wanted.valid, 0});
  run.train = make.batches(files.train, 0);
  if (files.valid) run.valid.push_back({"validation", make.batches(files.valid, pass), pass});
  add_test_set(make, path, o.data.split, wanted, run);
}

std::vector<std::string> set_names(const TrainingOptions& o, const std::vector<std::string>& prefixes) {
  if (!o.validation_set_names.empty()) return o.validation_set_names;
  std::vector<std::string> names;
  for (const auto& prefix : prefixes) names.push_back(std::filesystem::path(prefix).filename().string());
  return std::set<std::string>(names.begin(), names.end()).size() == names.size() ? names : prefixes;
}

void open_path_a_split(const TrainingOptions& o, SetMaker& make, RunData& run) {
  const Wanted wanted = samples_wanted(o);
  run.train = make.batches(make.build(data::parse_data_path(o.data.train_path), "1", {wanted.train, 0, 0}).train, 0);
  const auto add_valid = [&](const data::DataPath& path, const std::string& name) {
    const std::int64_t pass = o.full_validation ? make.epoch(path, "1", 0) : 0;
    const auto& files = make.build(path, "1", {pass > 0 ? pass : wanted.valid, 0, 0});
    run.valid.push_back({name, make.batches(files.train, pass), pass});
  };
  if (wanted.valid > 0 && !o.data.valid_path.empty()) {
    const auto path = data::parse_data_path(o.data.valid_path);
    const auto names = set_names(o, path.prefixes);
    if (o.multiple_validation_sets)
      for (std::size_t i = 0; i < path.prefixes.size(); ++i) add_valid({{path.prefixes[i]}, {}}, names[i]);
    else
      add_valid(path, "validation");
  }
  if (wanted.test > 0 && !o.data.test_path.empty())
    run.test = RunData::Set{
        "test", make.batches(make.build(data::parse_data_path(o.data.test_path), "1", {wanted.test, 0, 0}).train, 0), 0};
}

}  // namespace

RunData open_data(const TrainingOptions& o, std::int64_t vocab_size) {
  require_same_tokenizer(o.data);
  RunData run;
  run.tokenizer_fingerprint = fingerprint_of(o.data);
  SetMaker make(o, vocab_size, run);
  if (o.data.mock_data) {
    const auto mock = [vocab_size](std::int64_t k, std::span<std::int32_t> out) {
      return mock_sample(k, vocab_size, out);
    };
    run.train = make.source(mock);
    run.valid.push_back(
        {"validation", make.source([mock](std::int64_t k, std::span<std::int32_t> out) { return mock(-1 - k, out); }), 0});
    return run;
  }
  if (o.data.train_path.empty()) open_one_path(o, make, run);
  else open_path_a_split(o, make, run);
  return run;
}

}  // namespace mt
