#pragma once
// The data of a run: training, validation and test sets out of token files or made-up samples.
//
//   full pass  every sample of a set once; the last batch is filled with samples that count nothing
// Code: train/run_data.cc. Tests: tests/train/validation_test.cc, tests/cli/mt-train.sh.

#include <memory>
#include <optional>
#include <string>
#include <vector>

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
  std::vector<std::unique_ptr<data::SftDataset>> chat_sets;
  std::unique_ptr<BatchSource> train;
  std::vector<Set> valid;   // may be empty
  std::optional<Set> test;  // scored once, at the end
  std::vector<std::string> notices;
  std::string tokenizer_fingerprint;
  std::string cache_text;  // what came of the index cache; may be empty

  // The training set where it has several members, else null.
  const data::BlendedDataset* blend() const {
    return sets && sets->train && sets->train->samples.num_members() > 1 ? &sets->train->samples : nullptr;
  }
};

// The true vocabulary size: --vocab-size, else the tokenizer's, else the token files' sidecar.
//   fails  Error{config} when nothing says it, naming the three ways; when two disagree
std::int64_t vocab_size_of(const DataOptions& options);
// Open token files (or mock data).
//   fails  as data::open_run_sets; Error{config} when there is no data path, or a token file says another tokenizer than the
//          one given or a larger vocabulary than the run has. Fetching: Error{data} for an id that the
//          vocabulary does not have
RunData open_data(const TrainingOptions& options, std::int64_t vocab_size);

}  // namespace mt
