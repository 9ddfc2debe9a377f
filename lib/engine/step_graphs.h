#pragma once
// Forward and backward of a micro-batch as CUDA graphs: what an act launches is noted once and launched as a whole from
// then on.
//
//   key   what the kernels of an act depend on beside what memory holds: chunk, addresses of what comes and goes,
//         where its arenas stand. Equal keys: equal kernels and arguments
// With tensor parallelism its collectives lie inside too; what the host counts of them is told again at every launch
// (comm/graph_operations.h). Ranks of a group walk the same lane over equal memory, so they capture the same act at the
// same time. An act runs as ever until it ran `warmup` times with its key: arenas and kernels then have the memory they need.
// Learning rate, clipping, loss scale and tokens lie in device memory or are used outside the acts; dropout is drawn by
// the tokens' places. What is made again for a backward lies in its graph, or in one of its own where it is an act.
// Code: engine/step_graphs.cc. Tests: tests/train/graphs_test.cc.

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "comm/graph_operations.h"
#include "device/graph.h"
#include "nn/sub_layer.h"

namespace mt {

class StepGraphs {
 public:
  using Key = std::vector<std::uintptr_t>;
  // What a forward, or one that is made again, leaves behind for its backward, beside what is in memory.
  struct Left {
    std::vector<Saved> saved;
    std::vector<View> inputs;
    View y;
    std::size_t arena_bytes = 0;
    Arena::Mark arena{0, 0};  // where it stands then
    std::size_t fresh = 0;    // layers from here on have all their saved tensors
  };
  struct Act {
    int runs = 0;
    std::unique_ptr<comm::GraphOperations> operations;  // null where there are none
    Graph graph;  // ends before them
    Left left;
  };

  //   messages  of the world whose collectives lie in acts, outlives this; null where none do
  explicit StepGraphs(int warmup, comm::GraphCapture* messages = nullptr)
      : warmup_(warmup < 1 ? 1 : warmup), messages_(messages) {}

  Act& act(const Key& key) { return acts_[key]; }
  // Run `work`, or launch what it launched.   gives  true when work was called: what it does beside launching is done
  bool run(Stream& stream, Act& act, const std::function<void()>& work);

  std::size_t captured() const { return captured_; }
  std::size_t launched() const { return launched_; }

 private:
  void capture(Stream& stream, Act& act, const std::function<void()>& work);
  int warmup_;
  comm::GraphCapture* messages_;
  std::map<Key, Act> acts_;
  std::size_t captured_ = 0, launched_ = 0;
};

}  // namespace mt
