#include "train/run_data.h"

#include <algorithm>
#include <filesystem>
#include <iterator>

#include "base/error.h"
#include "base/hash.h"
#include "train/sft_data.h"

namespace mt {

namespace {

// Every token file of a run, whichever set it is for.
std::vector<std::string> prefixes_of(const DataOptions& o) {
  std::vector<std::string> all;
  if (o.mock_data || o.sft) return all;
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
  m.inter_document_masking = o.inter_document_masking;
  if (!m.needs_eod()) return m;
  if (o.tokenizer_given) m.eod = tokenizer::make_tokenizer(o.tokenizer)->eod();
  if (o.mock_data && !m.eod && o.vocab_size) m.eod = static_cast<std::int32_t>(*o.vocab_size) - 1;
  for (const auto& prefix : prefixes_of(o))
    if (const auto origin = data::origin_of(prefix); origin && !m.eod) m.eod = origin->eod;
  data::require_end_id(m);
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
    const auto origin = data::origin_of(prefix);
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
  const std::string mine = hash_text(tokenizer::make_tokenizer(o.tokenizer)->fingerprint());
  for (const auto& prefix : prefixes_of(o))
    if (const auto origin = data::origin_of(prefix);
        origin && !origin->fingerprint.empty() && origin->fingerprint != mine)
      throw Error(Code::config, fmt::format("{} was encoded with another tokenizer ({})", prefix, origin->tokenizer_type),
                  "--tokenizer-type", "give the tokenizer of the data, or none");
}

// Token files that say a larger vocabulary than the run has hold ids no embedding row is for, sooner or later.
void require_vocabulary(const DataOptions& o, std::int64_t vocab_size) {
  for (const auto& prefix : prefixes_of(o))
    if (const auto origin = data::origin_of(prefix); origin && origin->vocab_size > vocab_size)
      throw Error(Code::config, fmt::format("{} was encoded with a vocabulary of {} ({}), the run has {}", prefix,
                                            origin->vocab_size, origin->tokenizer_type, vocab_size),
                  "--vocab-size", fmt::format("--vocab-size {}, or leave it out", origin->vocab_size));
}

}  // namespace

std::int64_t vocab_size_of(const DataOptions& o) {
  if (o.vocab_size) return *o.vocab_size;
  if (o.tokenizer_given) return tokenizer::make_tokenizer(o.tokenizer)->vocab_size();
  std::int64_t vocab = 0;
  std::string first;
  for (const auto& prefix : prefixes_of(o)) {
    const auto origin = data::origin_of(prefix);
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

data::RunSetsRequest sets_request(const TrainingOptions& o) {
  data::RunSetsRequest r;
  r.paths = o.data;
  r.samples = data::samples_wanted(
      {o.train_samples, o.train_iters, o.batch.global_batch, o.eval_iters, o.eval_interval});
  if (o.full_validation && o.eval_interval > 0) r.samples[1] = std::max<std::int64_t>(1, r.samples[1]);
  r.full_validation = o.full_validation;
  r.multiple_validation_sets = o.multiple_validation_sets;
  r.validation_set_names = o.validation_set_names;
  r.seq_length = o.batch.seq_length;
  r.seed = static_cast<std::uint32_t>(o.seed);
  return r;
}

// Fills seq_length + 1 tokens, says where documents start, and gives the number of true ones.
using Fetch = std::function<std::int64_t(std::int64_t ordinal, std::span<std::int32_t> out,
                                         std::vector<std::int32_t>& document_starts)>;

// Samples of a set. Of a full pass those beyond its end count nothing; another set begins anew there.
Fetch fetch_of(const data::RunSets::Set& set, const data::FimTransform* fim, std::int64_t vocab_size) {
  return [&set, fim, vocab_size](std::int64_t k, std::span<std::int32_t> out, std::vector<std::int32_t>& starts) {
    if (set.pass > 0 && k >= set.pass) {
      std::fill(out.begin(), out.end(), 0);
      return std::int64_t{0};
    }
    std::int64_t real = set.samples.fetch(k % set.samples.size(), out, starts);
    if (fim != nullptr) real = fim->apply(k, out, real);
    check_ids(out, vocab_size, k);
    return real;
  };
}

std::unique_ptr<BatchSource> batches_of(Fetch fetch, const BatchSpec& batch, const data::MaskOptions& masks) {
  const auto length = static_cast<std::size_t>(batch.seq_length);
  return std::make_unique<BatchSource>(
      [fetch = std::move(fetch), length, masks](std::int64_t k, data::TrainingSample& out) {
        std::vector<std::int32_t> tokens(length + 1), starts;
        const std::int64_t real = fetch(k, tokens, starts);
        data::make_sample(tokens, real, masks, starts, out);
      },
      batch);
}

// What turns samples into fill-in-middle ones, and its tokenizer.
void open_fim(const TrainingOptions& o, RunData& run) {
  if (!o.data.fim_data) return;
  if (!o.data.tokenizer_given)
    throw Error(Code::config, "fill-in-middle takes text apart, which needs the tokenizer", "--fim-data",
                "give --tokenizer-type and its files");
  run.tokenizer = tokenizer::make_tokenizer(o.data.tokenizer);
  run.fim = std::make_unique<data::FimTransform>(o.data.fim, *run.tokenizer, static_cast<std::uint32_t>(o.seed));
}

void open_mock_runs(const TrainingOptions& o, std::int64_t vocab_size, const data::MaskOptions& masks, RunData& run) {
  using Out = std::span<std::int32_t>;
  using Starts = std::vector<std::int32_t>;
  run.train = batches_of([vocab_size](std::int64_t k, Out out, Starts&) { return mock_sample(k, vocab_size, out); },
                         o.batch, masks);
  run.valid.push_back({"validation",
                       batches_of([vocab_size](std::int64_t k, Out out, Starts&) {
                         return mock_sample(-1 - k, vocab_size, out);
                       }, o.batch, masks), 0});
}

// Megatron's made-up documents; the end token is the tokenizer's, without one the last id.
void open_megatron_mock(const TrainingOptions& o, std::int64_t vocab_size, const data::MaskOptions& masks, RunData& run) {
  const auto wanted = sets_request(o).samples;
  auto eod = static_cast<std::int32_t>(vocab_size - 1);
  if (o.data.tokenizer_given) eod = tokenizer::require_eod(*tokenizer::make_tokenizer(o.data.tokenizer));
  const auto add = [&](std::size_t set) {
    run.mocks.push_back(std::make_unique<data::MockDataset>(
        data::MockDataset::Options{set, std::max<std::int64_t>(1, wanted[set]), o.batch.seq_length, vocab_size, eod,
                                   static_cast<std::uint32_t>(o.seed)}));
    return batches_of([&d = *run.mocks.back()](std::int64_t k, std::span<std::int32_t> out,
                                               std::vector<std::int32_t>& starts) { return d.fetch(k % d.size(), out, starts); },
                      o.batch, masks);
  };
  run.train = add(0);
  if (wanted[1] > 0) run.valid.push_back({"validation", add(1), 0});
  if (wanted[2] > 0) run.test = RunData::Set{"test", add(2), 0};
}

}  // namespace

std::optional<RunData::Members> RunData::members() const {
  if (sets && sets->train && sets->train->samples.num_members() > 1) {
    const data::BlendedDataset* blend = &sets->train->samples;
    return Members{blend->num_members(), [blend](std::int64_t k) { return blend->place(k % blend->size()).first; }};
  }
  if (!chat_sets.empty() && chat_sets[0].set->num_members() > 1) {
    const data::SftDataset* set = chat_sets[0].set.get();
    return Members{set->num_members(), [set](std::int64_t k) { return set->place(k).first; }};
  }
  return std::nullopt;
}

std::vector<data::SetPlan> RunData::plans() const {
  if (sets) return sets->plans();
  std::vector<data::SetPlan> plans;
  for (const ChatSet& s : chat_sets) plans.push_back({s.name, s.samples, &s.set->plan(), true});
  return plans;
}

RunData::Cut RunData::take_cut() const {
  if (!cut) return {};
  return {(*cut)[0].exchange(0), (*cut)[1].exchange(0)};
}

RunData open_data(const TrainingOptions& o, std::int64_t vocab_size) {
  if (o.data.sft) return open_sft_data(o, vocab_size);
  require_same_tokenizer(o.data);
  require_vocabulary(o.data, vocab_size);
  RunData run;
  open_fim(o, run);
  run.tokenizer_fingerprint = fingerprint_of(o.data);
  const data::MaskOptions masks = mask_options(o.data);
  if (o.data.mock_data) {
    if (o.data.mock_data_style == "megatron") open_megatron_mock(o, vocab_size, masks, run);
    else open_mock_runs(o, vocab_size, masks, run);
    return run;
  }
  data::IndexCache cache(o.data.cache_path);
  run.sets = data::open_run_sets(sets_request(o), cache);
  const auto batches = [&](const data::RunSets::Set& set) {
    return batches_of(fetch_of(set, run.fim.get(), vocab_size), o.batch, masks);
  };
  if (run.sets->train) run.train = batches(*run.sets->train);
  for (const auto& set : run.sets->valid) run.valid.push_back({set.name, batches(set), set.pass});
  if (run.sets->test) run.test = RunData::Set{run.sets->test->name, batches(*run.sets->test), run.sets->test->pass};
  run.notices = run.sets->notices;
  for (const auto& notice : cache.report().notices) run.notices.push_back(notice);
  run.cache_text = cache.report().text();
  return run;
}

namespace {

// Files of a run's sets that are missing, of how many.
std::pair<std::vector<std::string>, std::size_t> missing_files(const DataOptions& o) {
  std::vector<std::string> files, missing;
  for (const auto* words : {&o.data_path, &o.train_path, &o.valid_path, &o.test_path})
    if (!words->empty())
      for (const auto& name : data::parse_data_path(*words).prefixes)
        files.push_back(o.sft ? name : data::idx_path(data::token_file_prefix(name)).string());
  std::copy_if(files.begin(), files.end(), std::back_inserter(missing),
               [](const std::string& file) { return !std::filesystem::exists(file); });
  return {missing, files.size()};
}

Json look_at_chats(const TrainingOptions& o, std::int64_t vocab_size) {
  const RunData run = open_sft_data(o, vocab_size);
  Json files = Json::array();
  for (const auto& chat : run.chats)
    files.push_back({{"prefix", chat->path()}, {"lines", chat->num_lines()}, {"conversations", chat->num_conversations()},
                     {"without_answer", chat->num_without_answer()}});
  return files;
}

}  // namespace

Json look_at_data(const TrainingOptions& o, std::int64_t vocab_size) {
  const auto said = [](bool checked, const std::string& words, Json sets = Json::array()) {
    return Json{{"checked", checked}, {"words", words}, {"sets", std::move(sets)}};
  };
  if (o.data.mock_data) return said(true, "mock: made up, nothing is read");
  const auto [missing, all] = missing_files(o.data);
  if (all == 0) return said(false, "no token file is named");
  if (missing.size() == all)
    return said(false, fmt::format("not looked at: none of {} file{} is on this machine, such as {}", all, all == 1 ? "" : "s",
                                   missing.front()));
  if (!missing.empty()) throw Error(Code::io, fmt::format("no such file, as {} of {}", missing.size(), all), missing.front());
  if (o.data.sft) return said(true, "chat files are read and sound", look_at_chats(o, vocab_size));
  require_same_tokenizer(o.data);
  require_vocabulary(o.data, vocab_size);
  fingerprint_of(o.data);
  mask_options(o.data);
  RunData fim;
  open_fim(o, fim);
  const data::ExpectedSets expected = data::expect_run_sets(sets_request(o));
  Json sets = Json::array();
  for (const auto& set : expected.sets)
    for (const data::ExpectedMember& m : set.members)
      sets.push_back({{"set", set.name}, {"prefix", m.prefix}, {"type", m.type}, {"documents", m.documents}, {"tokens", m.tokens},
                      {"samples_made", m.made}, {"samples", m.samples},
                      {"epochs", static_cast<double>(m.samples) * static_cast<double>(o.batch.seq_length) /
                                     static_cast<double>(std::max<std::int64_t>(m.tokens, 1))}});
  std::string words = "token files are there, fit the vocabulary they name, and are long enough";
  for (const auto& notice : expected.notices) words += "; " + notice;
  return said(true, words, std::move(sets));
}

}  // namespace mt
