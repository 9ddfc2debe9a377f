#include "comm/nccl/graph_operations.h"

#include <algorithm>

#include "comm/nccl/communicator.h"
#include "comm/status_page.h"

namespace mt::comm::nccl {

void NcclGraphOperations::add(NcclCommunicator& group, Link& link, const char* operation, std::int64_t bytes) {
  auto at = std::find(links_.begin(), links_.end(), &link);
  if (at == links_.end()) at = links_.insert(links_.end(), &link);
  operations_.push_back({&group, static_cast<std::size_t>(at - links_.begin()), operation, bytes});
}

// A communicator's operations run one after another, whether a graph holds them or not.
void NcclGraphOperations::before_launch(Stream& stream) {
  domain_.check();
  for (Link* l : links_) l->finish_before(stream);
}

// The first operation of each link stands for those behind it: who has not launched the graph has not entered it either.
void NcclGraphOperations::after_launch(Stream& stream) {
  std::vector<What> first(links_.size());
  std::vector<int> count(links_.size(), 0);
  for (const Operation& o : operations_) {
    What what = o.group->enter(o.name, o.bytes);
    if (count[o.link]++ == 0) first[o.link] = std::move(what);
  }
  for (std::size_t i = 0; i < links_.size(); ++i) {
    first[i].more = count[i] - 1;
    links_[i]->follow(stream, std::move(first[i]));
  }
}

}  // namespace mt::comm::nccl
