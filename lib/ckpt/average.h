#pragma once
// The mean of several checkpoints of one model, as a checkpoint of weights.
//
// Code: ckpt/average.cc. Tests: tests/ckpt/average_test.cc.

#include <filesystem>
#include <vector>

#include "ckpt/reader.h"
#include "ckpt/store.h"

namespace mt {

// Write the element-wise mean of `sources`, summed in double in the order given and rounded once. Where all of them have
// master weights the mean of those is stored, and rounded to the dtype of the weights. What optimizers keep is not
// averaged and not stored. Iteration, samples and training state are those of the source of the highest iteration (the
// first of them).
//   gives  the path of the new iter_%07d; the tracker of `root` names it
//   fails  Error{config} where tensors, shapes or dtypes are not the same, or of other models; as Reader::read and write_rank
//   cost   weights are read and written once, masters read twice; 32 MiB
std::filesystem::path average_checkpoints(const std::vector<const Reader*>& sources, const std::filesystem::path& root,
                                          const BytesDone& progress = {});

}  // namespace mt
