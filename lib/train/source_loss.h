#pragma once
// The loss of a blend by member, of token files or of chat files: sums over the samples since the last log line, whichever rank had them.
//
// A sample's tokens are added in order, a rank's samples in the order of its micro-batches, ranks in rank order, all in
// double; so layouts differ in the last bits of a double alone, and what a step costs more is one addition a token.
// Code: train/source_loss.cc. Tests: tests/train/source_loss_test.cc.

#include <cstdint>
#include <functional>
#include <vector>

#include "engine/batch.h"
#include "train/run_record.h"

namespace mt {

struct TrainingRun;

class SourceLosses {
 public:
  //   member_of  which of `members` a sample of the run is of
  SourceLosses(std::size_t members, std::function<std::size_t(std::int64_t ordinal)> member_of, std::int64_t seq_length);

  // A step's samples on this rank.
  //   needs  losses by token as the executor gives them: none where it holds no output layer
  void add(const std::vector<HostBatch>& batches, const std::vector<std::vector<float>>& losses);

  // The mean loss of each member that had a token since the last call; the sums begin anew. Collective.
  //   cost  24 bytes a member, summed over data-parallel ranks and over the pipeline
  std::vector<SourceLoss> take(TrainingRun& run);

 private:
  struct Sum {
    double loss = 0, tokens = 0, samples = 0;
  };
  std::function<std::size_t(std::int64_t)> member_of_;
  std::int64_t seq_length_;
  std::vector<Sum> sums_;  // by member
};

}  // namespace mt
