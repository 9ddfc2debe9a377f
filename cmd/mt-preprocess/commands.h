#pragma once
// The commands of mt-preprocess, one file each: an option table, one call into lib/data, printing.

#include <functional>
#include <string>
#include <vector>

#include "base/cli.h"
#include "data/text_source.h"

namespace mt::preprocess {

using Run = std::function<int()>;

Run build_encode(OptionTable& table, const cli::Shared& shared);
Run build_train_tokenizer(OptionTable& table, const cli::Shared& shared);
Run build_info(OptionTable& table, const cli::Shared& shared);
Run build_cat(OptionTable& table, const cli::Shared& shared);
Run build_merge(OptionTable& table, const cli::Shared& shared);
Run build_index(OptionTable& table, const cli::Shared& shared);
Run build_samples(OptionTable& table, const cli::Shared& shared);

// Where text comes from: flags that encode and train-tokenizer share.
struct InputFlags {
  std::vector<std::string> input;
  std::string format = "auto", separator;

  void add(OptionTable& table);
  // Looks into directories and patterns each time.
  //   fails  Error{usage}: no --input; Error{io}: as data::expand_inputs
  data::TextSourceOptions options() const;
};

// "1 document", "2 documents".
std::string counted(std::int64_t n, const std::string& one);

}  // namespace mt::preprocess
