#pragma once
// The training files of a run, so that a start from its checkpoint sees where they are no longer the same: the samples
// consumed then stand for another text now.
//
// Code: train/remembered_data.cc. Tests: tests/train/resume_test.cc.

#include <string>
#include <vector>

#include "base/json.h"
#include "train/run_data.h"

namespace mt {

// A row a file of the training set, in the order given: {"prefix", "sequences" or "lines", "tokens", "content"}, as far as
// the run's split cuts it out of the file; content is a hash of .idx and of some blocks of .bin. Made-up samples: none.
//   cost  as IndexedDataset::content_text, a file; nothing where the index cache has asked already
Json remembered_data(const RunData& data);
// A line for each file that has another content or another size than when the checkpoint was saved. Where it lies does not
// matter. Nothing where the number of files changed: --data-path says that.
//   fails  Json::exception where `stored` is no such list
std::vector<std::string> data_changes(const Json& stored, const Json& now);

}  // namespace mt
