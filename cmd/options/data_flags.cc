#include "options/data_flags.h"

namespace mt::options {

void add_sets(OptionTable& t, data::SetOptions& s) {
  t.group("Data");
  t.add("data-path", s.data_path, "PREFIX", "token files, or weights and token files in turn").multiple = true;
  t.add("data-args-path", s.data_args_path, "FILE", "the words of data-path are in this file");
  t.add("split", s.split, "A,B,C", "shares of training, validation and test");
  t.add("train-data-path", s.train_path, "PREFIX", "token files of the training set, instead of data-path");
  t.add("valid-data-path", s.valid_path, "PREFIX", "of the validation set");
  t.add("test-data-path", s.test_path, "PREFIX", "of the test set");
  t.add("per-split-data-args-path", s.per_split_data_args_path, "FILE",
        "the words of these three are in this JSON file, under train, valid and test");
  t.add("mid-level-dataset-surplus", s.surplus, "X", "share of samples that is made beyond what a weighted blend draws")
      .at_least(0);
  t.add("data-cache-path", s.cache_path, "DIR",
        "keep orders of samples here; default: cache beside a token file, for large ones; none: nowhere");
}

}  // namespace mt::options
