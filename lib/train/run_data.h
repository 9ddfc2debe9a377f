#pragma once
// The data of a run: training, validation and test sets out of token files or made-up samples.
//
//   full pass  every sample of a set once; the last batch is filled with samples that count nothing
// Code: train/run_data.cc. Tests: tests/train/validation_test.cc, tests/cli/mt-train.sh.

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "data/fim.h"
#include "data/mock_dataset.h"
#include "data/run_sets.h"
#include "data/sft_dataset.h"
#include "train/batch_source.h"
#include "train/training_options.h"

namespace mt {

// The data of a run: its sets, and what is known about the vocabulary.
struct RunData {
  struct Set {
    std::string name;
    std::unique_ptr<BatchSource> batches;
    std::int64_t samples = 0;  // of a full pass; 0: no end
  };
  std::unique_ptr<data::RunSets> sets;  // token files and orders, what the batches read; null: made-up samples
  std::unique_ptr<tokenizer::Tokenizer> tokenizer;  // where samples are made with it, as the rest here
  std::unique_ptr<data::FimTransform> fim;
  std::vector<std::unique_ptr<data::MockDataset>> mocks;
  std::unique_ptr<data::PromptFormat> prompt_format;
  std::vector<std::unique_ptr<data::SftFile>> chats;
  struct ChatSet {
    std::string name;
    std::int64_t samples = 0;
    std::unique_ptr<data::SftDataset> set;
  };
  std::vector<ChatSet> chat_sets;  // the training set first
  std::unique_ptr<BatchSource> train;
  std::vector<Set> valid;   // may be empty
  std::optional<Set> test;  // scored once, at the end
  std::vector<std::string> notices;
  std::string tokenizer_fingerprint;
  std::string cache_text;  // what came of the index cache; may be empty

  // Members of the training set, where it has several: how many, and whose a sample of the run is. Valid with this.
  struct Members {
    std::size_t count = 0;
    std::function<std::size_t(std::int64_t ordinal)> of;
  };
  std::optional<Members> members() const;
  // What each set is drawn of, for data::plan_json and plan_lines; of made-up samples nothing.
  std::vector<data::SetPlan> plans() const;
  // Answers that were cut off at seq_length in samples of the training set, since the last call.
  struct Cut {
    std::int64_t samples = 0, tokens = 0;
  };
  std::shared_ptr<std::array<std::atomic<std::int64_t>, 2>> cut;  // with --sft
  Cut take_cut() const;
};

// The true vocabulary size: --vocab-size, else the tokenizer's, else the token files' sidecar.
//   fails  Error{config} when nothing says it, naming the three ways; when two disagree
std::int64_t vocab_size_of(const DataOptions& options);
// Open token files (or mock data).
//   fails  as data::open_run_sets; Error{config} when there is no data path, or a token file says another tokenizer than the
//          one given or a larger vocabulary than the run has. Fetching: Error{data} for an id that the
//          vocabulary does not have
RunData open_data(const TrainingOptions& options, std::int64_t vocab_size);

// What a dry run says of the data, with nothing built.
//   gives  {"checked": bool, "words": why not, or what was looked at, "sets": [{"set", "prefix", "type", "documents",
//          "tokens", "samples_made", "samples", "epochs"}]}; files of which not one is on this machine are left aside:
//          those of a cluster are elsewhere
//   fails  as open_data, for all that can be known without an order of samples; a file is missing where others are there
//   cost   reads each .idx once or twice; with --sft a pass over the text
Json look_at_data(const TrainingOptions& options, std::int64_t vocab_size);

}  // namespace mt
