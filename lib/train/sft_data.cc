#include "train/sft_data.h"

#include <algorithm>

#include "base/error.h"
#include "base/hash.h"
#include "data/run_sets.h"

namespace mt {

namespace {

class SftSets {
 public:
  SftSets(const TrainingOptions& o, std::int64_t vocab_size, RunData& run)
      : o_(o), vocab_size_(vocab_size), run_(run) {}

  // Split `index` of a path, or nothing where it has no share.
  const data::SftDataset* set(const std::string& name, const data::DataPath& path, const std::string& split, std::size_t index,
                              std::int64_t samples) {
    const auto shares = data::parse_split(split);
    if (shares[index] == 0) return nullptr;
    data::SftDataset::Request request;
    for (const std::string& chats : path.prefixes) {
      request.files.push_back(&file(chats));
      request.ranges.push_back(data::split_ranges(shares, request.files.back()->num_lines())[index]);
    }
    request.weights = path.weights;
    request.num_samples = samples;
    request.seq_length = o_.batch.seq_length;
    request.pack_lines = o_.data.sft_options.pack_lines;
    run_.chat_sets.push_back({name, samples, std::make_unique<data::SftDataset>(request, *run_.prompt_format)});
    return run_.chat_sets.back().set.get();
  }

  // Batches of a set; with `samples` > 0 those beyond it count nothing.
  //   count_cut  where answers that do not fit are counted; may be null
  std::unique_ptr<BatchSource> batches(const data::SftDataset& set, std::int64_t samples,
                                       decltype(RunData::cut) count_cut = nullptr) const {
    return std::make_unique<BatchSource>(
        [&set, samples, vocab = vocab_size_, cut = std::move(count_cut)](std::int64_t k, data::TrainingSample& out) {
          const bool beyond = samples > 0 && k >= samples;
          set.make(beyond ? 0 : k, out);
          if (cut && out.dropped_answers > 0) {
            (*cut)[0] += 1;
            (*cut)[1] += out.dropped_answers;
          }
          if (beyond) std::fill(out.loss_mask.begin(), out.loss_mask.end(), 0.0f);
          for (const auto& ids : {std::span<const std::int32_t>(out.ids), std::span<const std::int32_t>(out.labels)})
            for (const std::int32_t id : ids)
              if (id < 0 || id >= vocab)
                throw Error(Code::data, fmt::format("sample {} holds token {}, the vocabulary has {}", k, id, vocab),
                            "--data-path", "leave out --vocab-size, or give the tokenizer's");
        },
        o_.batch);
  }

  std::unique_ptr<RunData::Set> scored(const data::DataPath& path, const std::string& split, std::size_t index,
                                       std::int64_t samples, const std::string& name, bool full) {
    if (samples == 0) return nullptr;
    const data::SftDataset* d = set(name, path, split, index, samples);
    if (d == nullptr) return nullptr;
    // A pass over several files is every file once, which no weights describe.
    const std::int64_t pass = full ? d->pass() : 0;
    if (full && path.prefixes.size() > 1)
      throw Error(Code::config, "--full-validation of several files as one set, with --sft", "",
                  "--multiple-validation-sets, or one file");
    return std::make_unique<RunData::Set>(RunData::Set{name, batches(*d, pass), pass});
  }

 private:
  const data::SftFile& file(const std::string& name) {
    for (const auto& open : run_.chats)
      if (open->path() == name) return *open;
    run_.chats.push_back(std::make_unique<data::SftFile>(name));
    const data::SftFile& opened = *run_.chats.back();
    if (opened.num_without_answer() > 0)
      run_.notices.push_back(fmt::format("{}: {} of {} conversations have no answer and count nothing", name,
                                         opened.num_without_answer(), opened.num_conversations()));
    return opened;
  }

  const TrainingOptions& o_;
  std::int64_t vocab_size_;
  RunData& run_;
};

void open_format(const TrainingOptions& o, RunData& run) {
  if (!o.data.tokenizer_given)
    throw Error(Code::config, "conversations are text, which needs the tokenizer", "--sft",
                "give --tokenizer-type and its files");
  tokenizer::TokenizerSpec spec = o.data.tokenizer;
  spec.parse_special = true;
  run.tokenizer = tokenizer::make_tokenizer(spec);
  run.tokenizer_fingerprint = hash_text(run.tokenizer->fingerprint());
  run.prompt_format = std::make_unique<data::PromptFormat>(o.data.sft_options.prompt_format, *run.tokenizer);
  for (const std::string& token : run.prompt_format->missing_tokens())
    run.notices.push_back(fmt::format("the tokenizer has no token '{}' of {}: it is encoded as text", token,
                                      o.data.sft_options.prompt_format));
}

}  // namespace

RunData open_sft_data(const TrainingOptions& o, std::int64_t vocab_size) {
  RunData run;
  open_format(o, run);
  SftSets sets(o, vocab_size, run);
  const auto wanted =
      data::samples_wanted({o.train_samples, o.train_iters, o.batch.global_batch, o.eval_iters, o.eval_interval});
  const std::int64_t train = wanted[0], valid = wanted[1], test = wanted[2];
  const bool split = o.data.train_path.empty();
  const auto path = data::parse_data_path(split ? o.data.data_path : o.data.train_path);
  const std::string shares = split ? o.data.split : "1";
  const data::SftDataset* d = sets.set("training", path, shares, 0, train);
  if (d == nullptr) throw Error(Code::config, "the training set has no share", "--split", "969,30,1");
  run.cut = std::make_shared<std::array<std::atomic<std::int64_t>, 2>>();
  run.train = sets.batches(*d, 0, run.cut);
  const auto add_valid = [&](const data::DataPath& from, std::size_t index, const std::string& name) {
    const std::int64_t samples = o.full_validation && o.eval_interval > 0 ? std::max<std::int64_t>(valid, 1) : valid;
    if (auto set = sets.scored(from, split ? shares : "1", index, samples, name, o.full_validation))
      run.valid.push_back(std::move(*set));
  };
  if (split) {
    add_valid(path, 1, "validation");
    if (auto set = sets.scored(path, shares, 2, test, "test", false)) run.test = std::move(*set);
    return run;
  }
  if (!o.data.valid_path.empty()) {
    const auto from = data::parse_data_path(o.data.valid_path);
    if (!o.multiple_validation_sets) add_valid(from, 0, "validation");
    else {
      const auto names = data::names_of_sets(from, o.validation_set_names);
      for (std::size_t i = 0; i < from.prefixes.size(); ++i) add_valid({{from.prefixes[i]}, {}}, 0, names[i]);
    }
  }
  if (!o.data.test_path.empty())
    if (auto set = sets.scored(data::parse_data_path(o.data.test_path), "1", 0, test, "test", false))
      run.test = std::move(*set);
  return run;
}

}  // namespace mt
