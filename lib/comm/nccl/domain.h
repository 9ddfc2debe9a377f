#pragma once
// What the NCCL communicators of one rank share: the links by rank list, the thread that watches them, and its verdict.
//
// Code: comm/nccl/domain.cc. Included only inside comm/nccl/.

#include <condition_variable>
#include <map>
#include <thread>

#include "comm/nccl/graph_operations.h"
#include "comm/nccl/link.h"

namespace mt::comm::nccl {

// What ranks of this process know of each other: how many operations of each group they entered, and who failed.
class Board {
 public:
  // Those who give the same key share one.
  static std::shared_ptr<Board> of(const std::string& key);

  void join(const std::string& group, int rank, int size);
  void enter(const std::string& group, int rank, std::int64_t number);
  // "rank 1, 3": members of this process that have not entered operation `number`; "ranks that entered but do not move"
  // when all have; "" where a member is of another process.   world_ranks  of the group
  std::string missing(const std::string& group, std::int64_t number, const std::vector<int>& world_ranks);

  void fail(int world_rank);
  int failed() const { return failed_; }  // -1: nobody

 private:
  std::mutex mutex_;
  std::map<std::string, std::vector<std::int64_t>> entered_;
  std::atomic<int> failed_{-1};
};

class Domain {
 public:
  Domain(Device device, int world_rank, const CommOptions& options, std::shared_ptr<Board> board);
  ~Domain();  // while an exception unwinds: aborts, since peers may be gone

  Device device() const { return device_; }
  int world_rank() const { return world_rank_; }
  const CommOptions& options() const { return options_; }
  Board& board() { return *board_; }
  const std::shared_ptr<Events>& events() const { return events_; }

  // Throws the verdict, once there is one.
  void check() const;
  bool failed() const { return failed_; }
  // The first verdict stays; all links are aborted, each by a thread: NCCL's abort waits for the end of graphs that know
  // the link, and their owner may wait for another link.
  void fail(const std::string& message, const std::string& where);

  Link& add(const ncclUniqueId& id, Place place, bool pair, const std::string& name);
  // The link of a rank list, null when there is none yet.
  Link* find(const std::vector<int>& world_ranks) const;
  void remember(const std::vector<int>& world_ranks, Link& link) { of_ranks_[world_ranks] = &link; }

  // See comm/graph_operations.h. Pairs are left alone: messages lie in no graph.
  void begin_capture();
  std::unique_ptr<GraphOperations> end_capture();
  NcclGraphOperations* noted() const { return noted_.get(); }  // null while nothing is captured

  // Wait, on the host, for what `stream` holds, or for `flight`.   fails  the verdict
  void wait_host(Stream& stream);
  void wait_host(Flight& flight);
  // "no answer after 3.0 s from rank 1"
  std::string late_text(double seconds, const What& what) const;

 private:
  void watch();
  std::vector<Link*> links() const;
  Device device_;
  int world_rank_;
  CommOptions options_;
  std::shared_ptr<Board> board_;
  std::shared_ptr<Events> events_;
  int exceptions_;
  std::unique_ptr<NcclGraphOperations> noted_;

  mutable std::mutex mutex_;  // of what stands below
  std::condition_variable wake_;
  bool leaving_ = false;
  std::atomic<bool> failed_{false};
  std::string message_, where_;
  std::vector<std::unique_ptr<Link>> links_;
  std::map<std::vector<int>, Link*> of_ranks_;
  std::vector<std::thread> aborting_;
  std::thread watcher_;
};

}  // namespace mt::comm::nccl
