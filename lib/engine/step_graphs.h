#pragma once
// Forward and backward of a micro-batch as CUDA graphs: what an act launches is noted once and launched as a whole from
// then on.
//
//   key   what the kernels of an act depend on beside what memory holds: chunk, addresses of what comes and goes,
//         where its arenas stand. Equal keys: equal kernels and arguments
// An act runs as ever until it ran `warmup` times with its key: arenas and kernels then have the memory they need.
// Learning rate, clipping, loss scale and tokens lie in device memory or are used outside the acts; dropout is drawn by
// the tokens' places. Code: engine/step_graphs.cc. Tests: tests/nn/step_graphs_test.cc, tests/train/graphs_test.cc.

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "device/graph.h"
#include "nn/sub_layer.h"

namespace mt {

class StepGraphs {
 public:
  using Key = std::vector<std::uintptr_t>;
  // What a forward leaves behind for its backward, beside what is in memory.
  struct Left {
    std::vector<Saved> saved;
    std::vector<View> inputs;
    View y;
    std::size_t arena_bytes = 0;
    Arena::Mark arena;  // where it stands then
  };
  struct Act {
    int runs = 0;
    Graph graph;
    Left left;
  };

  explicit StepGraphs(int warmup) : warmup_(warmup < 1 ? 1 : warmup) {}

  Act& act(const Key& key) { return acts_[key]; }
  // Run `work`, or launch what it launched.   gives  true when work was called: what it does beside launching is done
  bool run(Stream& stream, Act& act, const std::function<void()>& work);

  std::size_t captured() const { return captured_; }
  std::size_t launched() const { return launched_; }

 private:
  int warmup_;
  std::map<Key, Act> acts_;
  std::size_t captured_ = 0, launched_ = 0;
};

}  // namespace mt
