#pragma once
// The NCCL collectives of one graph, as the host watches them: one flight a link and launch.
//
// Code: comm/nccl/graph_operations.cc. Included only inside comm/nccl/.

#include <vector>

#include "comm/graph_operations.h"
#include "comm/nccl/link.h"

namespace mt::comm::nccl {

class Domain;
class NcclCommunicator;

class NcclGraphOperations final : public GraphOperations {
 public:
  explicit NcclGraphOperations(Domain& domain) : domain_(domain) {}
  void add(NcclCommunicator& group, Link& link, const char* operation, std::int64_t bytes);
  void before_launch(Stream& stream) override;
  void after_launch(Stream& stream) override;

 private:
  struct Operation {
    NcclCommunicator* group;
    std::size_t link;
    const char* name;
    std::int64_t bytes;
  };
  Domain& domain_;
  std::vector<Link*> links_;
  std::vector<Operation> operations_;
};

}  // namespace mt::comm::nccl
