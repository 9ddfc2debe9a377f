#pragma once
// The global batch size as a function of consumed samples, and the iterations and samples that follow from it.
//
// Ramp-up is Megatron's rule up to core 0.15: with n = (full − start) / increment, the batch grows by `increment` every
// ramp_samples / n samples. Or the batch changes where it is told to (Megatron's --step-batch-size-schedule): T:N is N
// samples from T tokens on. A step's batch is decided by the samples consumed before it.
// Code: data/batch_schedule.cc. Tests: tests/train/batch_schedule_test.cc.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace mt::data {

class BatchSchedule {
 public:
  BatchSchedule() = default;
  explicit BatchSchedule(int batch) : parts_{{0, batch}} {}
  // START INCREMENT SAMPLES.   needs  ramp_up_problem is empty
  static BatchSchedule ramp_up(const std::vector<std::int64_t>& words, int full);
  // Samples a run can count: whole numbers up to here are exact in double, which the ramp divides in.
  static constexpr std::int64_t kMostSamples = std::int64_t{1} << 53;

  // Why these words and the full batch make no ramp, or empty.
  static std::string ramp_up_problem(const std::vector<std::int64_t>& words, int full);

  // T:N words, each T with K, M, B or T (1e3 … 1e12) behind it or nothing; of tokens, the first 0, ascending.
  struct Steps {
    std::vector<std::pair<std::int64_t, int>> parts;  // first sample that is no longer of the part before, batch
    std::string problem;                              // why the words make no schedule, or empty
    int largest() const;                              // batch; at least 1
  };
  //   needs  seq_length >= 1
  static Steps read_steps(const std::vector<std::string>& words, int seq_length);
  static BatchSchedule of_steps(const Steps& steps);  // needs  no problem

  int at(std::int64_t consumed_samples) const;
  // Samples consumed after so many steps from the beginning of a run.
  std::int64_t samples_after(std::int64_t iterations) const;
  // Whole steps that so many samples are enough for.
  std::int64_t iterations_within(std::int64_t samples) const;
  // Every size there is; of a ramp ascending.
  std::vector<int> sizes() const;

 private:
  struct Part {
    std::int64_t from;  // samples
    int batch;
  };
  std::vector<Part> parts_;
};

}  // namespace mt::data
