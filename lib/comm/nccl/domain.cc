#include "comm/nccl/domain.h"

#include <algorithm>
#include <exception>

#include "base/error.h"
#include "comm/status_page.h"
#include "device/cuda/runtime.h"

namespace mt::comm::nccl {

std::shared_ptr<Board> Board::of(const std::string& key) {
  static std::mutex mutex;
  static std::map<std::string, std::weak_ptr<Board>> boards;
  const std::lock_guard lock(mutex);
  std::erase_if(boards, [](const auto& b) { return b.second.expired(); });
  auto board = boards[key].lock();
  if (!board) boards[key] = board = std::make_shared<Board>();
  return board;
}

void Board::join(const std::string& group, int rank, int size) {
  const std::lock_guard lock(mutex_);
  auto& e = entered_[group];
  if (e.empty()) e.assign(static_cast<std::size_t>(size), -1);
  e[static_cast<std::size_t>(rank)] = 0;
}

void Board::enter(const std::string& group, int rank, std::int64_t number) {
  const std::lock_guard lock(mutex_);
  entered_[group][static_cast<std::size_t>(rank)] = number + 1;
}

std::string Board::missing(const std::string& group, std::int64_t number, const std::vector<int>& world_ranks) {
  const std::lock_guard lock(mutex_);
  std::string late;
  bool elsewhere = false;
  const auto& entered = entered_[group];
  for (std::size_t r = 0; r < entered.size(); ++r) {
    elsewhere = elsewhere || entered[r] < 0;
    if (entered[r] >= 0 && entered[r] <= number) late += fmt::format("{}{}", late.empty() ? "rank " : ", ", world_ranks[r]);
  }
  if (!late.empty()) return late;
  return elsewhere ? "" : "ranks that entered but do not move";
}

void Board::fail(int world_rank) {
  int nobody = -1;
  failed_.compare_exchange_strong(nobody, world_rank);
}

Domain::Domain(Device device, int world_rank, const CommOptions& options, std::shared_ptr<Board> board)
    : device_(device), world_rank_(world_rank), options_(options), board_(std::move(board)),
      events_(std::make_shared<Events>(device.index)), exceptions_(std::uncaught_exceptions()) {
  watcher_ = std::thread([this] { watch(); });
}

Domain::~Domain() {
  if (std::uncaught_exceptions() > exceptions_) {
    board_->fail(world_rank_);
    failed_ = true;  // links abort
  }
  {
    const std::lock_guard lock(mutex_);
    leaving_ = true;
  }
  wake_.notify_all();
  watcher_.join();
  for (auto& t : aborting_) t.join();
  if (failed_)
    for (const auto& l : links_) l->abort();
}

void Domain::check() const {
  if (!failed_) return;
  const std::lock_guard lock(mutex_);
  throw Error(Code::comm, message_, where_, "look at those ranks; --distributed-timeout-minutes sets the limit");
}

void Domain::fail(const std::string& message, const std::string& where) {
  const std::lock_guard lock(mutex_);
  if (failed_) return;
  message_ = message;
  where_ = where;
  failed_ = true;  // before the aborts: what they end is never taken for a result
  for (const auto& l : links_) aborting_.emplace_back([link = l.get()] { link->abort(); });
}

std::vector<Link*> Domain::links() const {
  const std::lock_guard lock(mutex_);
  std::vector<Link*> all;
  for (const auto& l : links_)
    if (!l->is_pair()) all.push_back(l.get());
  return all;
}

void Domain::begin_capture() {
  check();
  MT_CHECK(!noted_, "a graph is captured inside another");
  for (Link* l : links()) l->begin_capture();
  noted_ = std::make_unique<NcclGraphOperations>(*this);
}

std::unique_ptr<GraphOperations> Domain::end_capture() {
  for (Link* l : links()) l->end_capture();
  return std::move(noted_);
}

Link& Domain::add(const ncclUniqueId& id, Place place, bool pair, const std::string& name) {
  check();
  auto link = std::make_unique<Link>(*this, id, place, pair, name);
  Link& there = *link;
  {
    const std::lock_guard lock(mutex_);
    links_.push_back(std::move(link));
  }
  if (failed_) there.abort();
  return there;
}

Link* Domain::find(const std::vector<int>& world_ranks) const {
  const auto at = of_ranks_.find(world_ranks);
  return at == of_ranks_.end() ? nullptr : at->second;
}

// Ends in any case: what does not come is aborted by the watching thread, and then it is done, too.
void Domain::wait_host(Flight& flight) {
  check();
  flight.synchronize();
  check();
}

void Domain::wait_host(Stream& stream) {
  check();
  if (!stream.native()) return stream.synchronize();
  Flight mark(events_, {});
  mark.record(cuda::native(stream));
  wait_host(mark);
}

std::string Domain::late_text(double seconds, const What& what) const {
  std::string who = what.missing ? what.missing() : "";
  const std::string page = options_.page ? options_.page->peers_text(world_rank_) : "";
  if (who.empty()) who = page.empty() ? "ranks of other processes" : "its peers";
  return fmt::format("no answer after {:.1f} s from {}{}{}", seconds, who, page.empty() ? "" : "; ", page);
}

void Domain::watch() {
#if !defined(MT_CUDA_EMULATED)
  // What this thread asks of events must not end the capture of a graph by another.
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  cudaThreadExchangeStreamCaptureMode(&mode);
#endif
  const double tick_s = std::clamp(options_.timeout_s / 20, 0.005, 0.2);
  while (true) {
    std::vector<Link*> links;
    {
      std::unique_lock lock(mutex_);
      wake_.wait_for(lock, std::chrono::duration<double>(tick_s), [this] { return leaving_; });
      if (leaving_ || failed_) return;
      for (const auto& l : links_) links.push_back(l.get());
    }
    try {
      if (const int r = board_->failed(); r >= 0 && r != world_rank_)
        return fail(fmt::format("rank {} failed while this rank waited", r), fmt::format("rank {}", world_rank_));
      for (Link* l : links)
        if (const auto fault = l->fault(options_.timeout_s))
          return fail(fault->message, fmt::format("{}, rank {}", fault->where, world_rank_));
      // A rank whose host waits for the device is not silent: it waits for others, who are watched themselves.
      if (options_.status && std::any_of(links.begin(), links.end(), [](Link* l) { return l->is_busy(); }))
        options_.status->beat();
    } catch (const Error& e) {
      return fail(e.message(), fmt::format("{}, rank {}", e.where(), world_rank_));
    }
  }
}

}  // namespace mt::comm::nccl
