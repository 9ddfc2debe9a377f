// Ranks as threads of one process. A rank posts where its data lies; when all have posted, each reads its peers'
// memory itself. An operation is over when every rank has read what it needs, so buffers may be reused after it.

#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>
#include <map>
#include <mutex>
#include <thread>

#include "base/clock.h"
#include "base/error.h"
#include "comm/reduction.h"
#include "comm/volume.h"
#include "comm/world.h"

namespace mt::comm {

namespace {

enum class Op : std::uint8_t { all_reduce, all_gather, reduce_scatter, all_to_all, broadcast, barrier };
constexpr const char* kOpNames[] = {"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "barrier"};

// What one rank brings to operation number n of a group.
struct Post {
  bool here = false;  // also after it gave up
  Op op = Op::barrier;
  const std::byte* in = nullptr;
  std::size_t bytes = 0;
  std::vector<std::int64_t> send_bytes;  // all_to_all: per peer
  std::unique_ptr<std::byte[]> reduced;  // this rank's shard after phase 1
  std::size_t reduced_bytes = 0;
};

struct Operation {
  std::vector<Post> posts;
  int posted = 0, phase1 = 0, phase2 = 0, left = 0;
  int readers = 0;  // ranks inside their first phase, reading the others' memory
};

struct Message {
  const std::byte* data = nullptr;
  std::size_t bytes = 0;
  bool taken = false;
};

// Shared by the ranks of a group; guarded by its mutex, except the bytes that posts point to.
struct Board {
  std::mutex mutex;
  std::map<std::int64_t, Operation> operations;
  std::map<std::pair<int, int>, std::map<std::int64_t, Message>> messages;  // (from, to) → number → message
};

// Shared by all ranks of a job.
struct Job {
  CommOptions options;
  std::mutex mutex;
  std::map<std::string, std::unique_ptr<Board>> boards;
  int failed_rank = -1;
  std::exception_ptr failure;

  Board& board(const std::string& key) {
    const std::lock_guard lock(mutex);
    auto& b = boards[key];
    if (!b) b = std::make_unique<Board>();
    return *b;
  }
  int failed() {
    const std::lock_guard lock(mutex);
    return failed_rank;
  }
};

class ThreadWork;

// What one rank has in flight over all its groups: waiting for one moves them all, or ranks could wait in a circle.
struct InFlight {
  std::vector<ThreadWork*> works;
  std::map<std::string, int> groups_made;  // by name and ranks
};

class ThreadWork : public Handle::Work {
 public:
  ThreadWork(Job& job, InFlight& in_flight, std::string what)
      : job_(job), in_flight_(in_flight), what_(std::move(what)) {
    in_flight_.works.push_back(this);
  }
  ~ThreadWork() override { std::erase(in_flight_.works, this); }

  bool test() final {
    if (!done_) done_ = advance();
    return done_;
  }
  void wait() final {
    const auto start = Clock::now();
    for (int turns = 1; !test(); ++turns) {
      for (auto* w : in_flight_.works) w->test();
      std::this_thread::yield();
      if (turns % 64 != 0) continue;
      if (const int r = job_.failed(); r >= 0)
        throw Error(Code::comm, fmt::format("rank {} failed while this rank waited", r), what_);
      const double s = seconds_since(start);
      if (s > job_.options.timeout_s)
        throw Error(Code::comm, fmt::format("no answer after {:.1f} s from {}", s, missing()), what_,
                    "look at those ranks; --distributed-timeout-minutes sets the limit");
      if (s > 0.002) std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }

 protected:
  virtual bool advance() = 0;
  virtual std::string missing() = 0;

 private:
  Job& job_;
  InFlight& in_flight_;
  std::string what_;
  bool done_ = false;
};

struct Call {
  Op op;
  DType dtype = DType::u8;
  Reduce reduce = Reduce::sum;
  View in, out;
  int root = 0;
  std::vector<std::int64_t> send_bytes, recv_bytes;
};

class Collective final : public ThreadWork {
 public:
  Collective(Job& job, InFlight& in_flight, Board& board, const std::vector<int>& ranks, int rank, std::int64_t number,
             const std::string& group, Call call)
      : ThreadWork(job, in_flight,
                   fmt::format("group {} {} number {}", group, kOpNames[static_cast<int>(call.op)], number)),
        board_(board),
        ranks_(ranks),
        rank_(rank),
        number_(number),
        call_(std::move(call)) {
    const std::lock_guard lock(board_.mutex);
    auto& o = operation();
    o.posts.resize(ranks_.size());
    for (std::size_t r = 0; r < o.posts.size(); ++r)
      if (const auto& p = o.posts[r]; p.here && (p.op != call_.op || (sizes_match() && p.bytes != call_.in.bytes())))
        throw Error(Code::comm,
                    fmt::format("rank {} calls {} of {} bytes where rank {} calls {} of {} bytes",
                                ranks_[static_cast<std::size_t>(rank_)], kOpNames[static_cast<int>(call_.op)],
                                call_.in.bytes(), ranks_[r], kOpNames[static_cast<int>(p.op)], p.bytes),
                    "group " + group);
    auto& mine = o.posts[static_cast<std::size_t>(rank_)];
    mine = {true, call_.op, static_cast<const std::byte*>(call_.in.data), call_.in.bytes(), call_.send_bytes, nullptr, 0};
    ++o.posted;
  }

  // Dropped before its end (this rank failed): its memory is going away, so nobody may read it from now on.
  ~Collective() override {
    if (over_) return;
    std::unique_lock lock(board_.mutex);
    --operation().posted;  // never complete again; its post stays, as this rank was here
    while (operation().readers > 0) {
      lock.unlock();
      std::this_thread::yield();
      lock.lock();
    }
  }

 private:
  bool sizes_match() const { return call_.op != Op::all_to_all; }
  Operation& operation() { return board_.operations[number_]; }

  bool advance() override {
    const int n = static_cast<int>(ranks_.size());
    if (state_ == 0) {
      if (!reached(&Operation::posted, n, 1)) return false;
      try {
        first_phase();
      } catch (...) {  // out of memory: nobody may wait for this reader
        const std::lock_guard lock(board_.mutex);
        --operation().readers;
        throw;
      }
      mark(&Operation::phase1, -1);
      state_ = 1;
    }
    if (state_ == 1) {
      if (!reached(&Operation::phase1, n)) return false;
      second_phase();
      mark(&Operation::phase2);
      state_ = 2;
    }
    if (!reached(&Operation::phase2, n)) return false;
    const std::lock_guard lock(board_.mutex);
    if (++operation().left == n) board_.operations.erase(number_);
    over_ = true;
    return true;
  }

  bool reached(int Operation::* count, int n, int readers = 0) {
    const std::lock_guard lock(board_.mutex);
    auto& o = operation();
    peers_ = o.posts.data();  // stable: sized once, map nodes do not move
    if (o.*count != n) return false;
    o.readers += readers;
    return true;
  }
  void mark(int Operation::* count, int readers = 0) {
    const std::lock_guard lock(board_.mutex);
    ++(operation().*count);
    operation().readers += readers;
  }

  void first_phase() {
    auto& mine = peers_[rank_];
    if (call_.op == Op::all_reduce || call_.op == Op::reduce_scatter) {
      const auto [lo, hi] = shard_of(call_.in.size(), rank_, static_cast<int>(ranks_.size()));
      std::vector<const std::byte*> sources;
      for (std::size_t r = 0; r < ranks_.size(); ++r) sources.push_back(peers_[r].in + bytes_of(call_.dtype, lo));
      mine.reduced_bytes = static_cast<std::size_t>(bytes_of(call_.dtype, hi - lo));
      mine.reduced = std::make_unique_for_overwrite<std::byte[]>(mine.reduced_bytes);
      reduce_local(call_.dtype, call_.reduce, sources, mine.reduced.get(), hi - lo);
    } else if (call_.op == Op::all_gather) {
      auto* out = static_cast<std::byte*>(call_.out.data);
      for (std::size_t r = 0; r < ranks_.size(); ++r, out += mine.bytes) copy(out, peers_[r].in, mine.bytes);
    } else if (call_.op == Op::all_to_all) {
      auto* out = static_cast<std::byte*>(call_.out.data);
      for (std::size_t r = 0; r < ranks_.size(); ++r) {
        const auto& sent = peers_[r].send_bytes;
        std::int64_t before = 0;
        for (int i = 0; i < rank_; ++i) before += sent[static_cast<std::size_t>(i)];
        const std::int64_t bytes = sent[static_cast<std::size_t>(rank_)];
        MT_CHECK(bytes == call_.recv_bytes[r], "rank {} sends {} bytes, {} expected", ranks_[r], bytes,
                 call_.recv_bytes[r]);
        copy(out, peers_[r].in + before, static_cast<std::size_t>(bytes));
        out += bytes;
      }
    } else if (call_.op == Op::broadcast && rank_ != call_.root) {
      copy(static_cast<std::byte*>(call_.out.data), peers_[call_.root].in, mine.bytes);
    }
  }

  // Only now has every rank read the inputs, so outputs that alias them may be written.
  void second_phase() {
    auto* out = static_cast<std::byte*>(call_.out.data);
    if (call_.op == Op::reduce_scatter) copy(out, peers_[rank_].reduced.get(), peers_[rank_].reduced_bytes);
    if (call_.op == Op::all_reduce)
      for (std::size_t r = 0; r < ranks_.size(); out += peers_[r].reduced_bytes, ++r)
        copy(out, peers_[r].reduced.get(), peers_[r].reduced_bytes);
  }

  static void copy(std::byte* to, const std::byte* from, std::size_t bytes) {
    if (bytes > 0 && to != from) std::memcpy(to, from, bytes);
  }

  std::string missing() override {
    const std::lock_guard lock(board_.mutex);
    std::string s;
    const auto& posts = operation().posts;
    for (std::size_t r = 0; r < posts.size(); ++r)
      if (!posts[r].here) s += fmt::format("{}{}", s.empty() ? "" : ", ", ranks_[r]);
    return s.empty() ? "ranks that entered but do not move" : "rank " + s;
  }

  Board& board_;
  const std::vector<int>& ranks_;
  int rank_;
  std::int64_t number_;
  Call call_;
  int state_ = 0;
  bool over_ = false;
  Post* peers_ = nullptr;
};

class PointToPoint final : public ThreadWork {
 public:
  PointToPoint(Job& job, InFlight& in_flight, Board& board, std::pair<int, int> from_to, std::int64_t number, View x,
               bool sending, const std::string& group)
      : ThreadWork(job, in_flight,
                   fmt::format("group {} {} number {}", group, sending ? "send" : "recv", number)),
        board_(board),
        from_to_(from_to),
        number_(number),
        x_(x),
        sending_(sending) {
    if (!sending_) return;
    const std::lock_guard lock(board_.mutex);
    board_.messages[from_to_][number_] = {static_cast<const std::byte*>(x.data), x.bytes(), false};
  }
  ~PointToPoint() override {
    if (!sending_) return;
    const std::lock_guard lock(board_.mutex);
    board_.messages[from_to_].erase(number_);
  }

 private:
  bool advance() override {
    const std::lock_guard lock(board_.mutex);
    auto& queue = board_.messages[from_to_];
    const auto it = queue.find(number_);
    if (it == queue.end()) return false;
    if (sending_) {
      if (!it->second.taken) return false;
      queue.erase(it);
      return true;
    }
    if (it->second.bytes != x_.bytes())
      throw Error(Code::comm, fmt::format("{} bytes sent, {} expected", it->second.bytes, x_.bytes()), "point to point");
    if (x_.bytes() > 0) std::memcpy(x_.data, it->second.data, static_cast<std::size_t>(x_.bytes()));
    it->second.taken = true;
    return true;
  }
  std::string missing() override { return fmt::format("peer {}", sending_ ? from_to_.second : from_to_.first); }

  Board& board_;
  std::pair<int, int> from_to_;
  std::int64_t number_;
  View x_;
  bool sending_;
};

class Threads final : public Communicator {
 public:
  Threads(Job& job, InFlight* in_flight, Board& board, std::string name, std::vector<int> ranks, int rank)
      : Communicator(std::move(name), std::move(ranks)), job_(job), in_flight_(in_flight), board_(board), rank_(rank) {
    if (!in_flight_) {
      own_in_flight_ = std::make_unique<InFlight>();
      in_flight_ = own_in_flight_.get();
    }
  }
  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(ranks_.size()); }
  const CommOptions& options() const override { return job_.options; }

  Handle all_reduce(Stream& s, View x, Reduce op) override {
    return start(s, {Op::all_reduce, x.dtype, op, x, x, 0, {}, {}});
  }
  Handle all_gather(Stream& s, View in, View out) override {
    MT_CHECK(out.bytes() == in.bytes() * static_cast<std::size_t>(size()), "{} bytes from {}", out.bytes(), in.bytes());
    return start(s, {Op::all_gather, in.dtype, Reduce::sum, in, out, 0, {}, {}});
  }
  Handle reduce_scatter(Stream& s, View in, View out, Reduce op) override {
    MT_CHECK(in.bytes() == out.bytes() * static_cast<std::size_t>(size()), "{} bytes to {}", in.bytes(), out.bytes());
    return start(s, {Op::reduce_scatter, in.dtype, op, in, out, 0, {}, {}});
  }
  Handle all_to_all(Stream& s, View in, View out) override {
    const std::vector<std::int64_t> rows(ranks_.size(), in.dim(0) / size());
    return all_to_all_v(s, in, rows, out, rows);
  }
  Handle all_to_all_v(Stream& s, View in, std::span<const std::int64_t> send_rows, View out,
                      std::span<const std::int64_t> recv_rows) override {
    return start(s, {Op::all_to_all, in.dtype, Reduce::sum, in, out, 0, row_bytes(in, send_rows),
                     row_bytes(out, recv_rows)});
  }
  Handle broadcast(Stream& s, View x, int root) override {
    return start(s, {Op::broadcast, x.dtype, Reduce::sum, x, x, root, {}, {}});
  }
  Handle send(Stream& s, View x, int peer) override { return message(s, x, {rank_, peer}, true); }
  Handle recv(Stream& s, View x, int peer) override { return message(s, x, {peer, rank_}, false); }
  Handle barrier(Stream& s) override { return start(s, {Op::barrier, DType::u8, Reduce::sum, {}, {}, 0, {}, {}}); }

  void progress() override {
    for (auto* w : in_flight_->works) w->test();
  }

  std::unique_ptr<Communicator> make_group(const std::vector<int>& world_ranks, const std::string& name) override {
    const int me = ranks_[static_cast<std::size_t>(rank_)];
    const auto at = std::find(world_ranks.begin(), world_ranks.end(), me);
    MT_CHECK(at != world_ranks.end(), "rank {} is not in group {}", me, name);
    std::string key = name;
    for (int r : world_ranks) key += fmt::format(" {}", r);
    key += fmt::format(" #{}", in_flight_->groups_made[key]++);
    return std::make_unique<Threads>(job_, in_flight_, job_.board(key), name, world_ranks,
                                     static_cast<int>(at - world_ranks.begin()));
  }

 private:
  static std::vector<std::int64_t> row_bytes(const View& v, std::span<const std::int64_t> rows) {
    const std::int64_t row = v.dim(0) > 0 ? static_cast<std::int64_t>(v.bytes()) / v.dim(0) : 0;
    std::vector<std::int64_t> out;
    for (auto r : rows) out.push_back(r * row);
    return out;
  }
  Handle start(Stream& stream, Call call) {
    stream.synchronize();
    MT_CHECK(!call.in.data || (call.in.contiguous() && call.out.contiguous()), "{} of a strided view", name_);
    return Handle(std::make_unique<Collective>(job_, *in_flight_, board_, ranks_, rank_, number_++, name_,
                                               std::move(call)));
  }
  Handle message(Stream& stream, View x, std::pair<int, int> from_to, bool sending) {
    stream.synchronize();
    auto& numbers = sending ? sent_ : received_;
    const int peer = sending ? from_to.second : from_to.first;
    return Handle(std::make_unique<PointToPoint>(job_, *in_flight_, board_, from_to, numbers[peer]++, x, sending,
                                                 name_));
  }

  Job& job_;
  std::unique_ptr<InFlight> own_in_flight_;
  InFlight* in_flight_;
  Board& board_;
  int rank_;
  std::int64_t number_ = 0;
  std::map<int, std::int64_t> sent_, received_;
};

}  // namespace

void run_local_ranks(int num_ranks, const CommOptions& options,
                     const std::function<void(std::unique_ptr<Communicator>)>& body) {
  if (num_ranks < 1 || num_ranks > kMaxLocalRanks)
    throw Error(Code::usage, fmt::format("--local-ranks {} is not in 1 to {}", num_ranks, kMaxLocalRanks), "",
                "more ranks are processes: mpiexec -n");
  Job job;
  job.options = options;
  std::vector<int> ranks;
  for (int r = 0; r < num_ranks; ++r) ranks.push_back(r);
  Board& board = job.board("world");
  std::vector<std::thread> threads;
  const auto fail = [&job](int r) {
    const std::lock_guard lock(job.mutex);
    if (job.failed_rank >= 0) return;
    job.failed_rank = r;
    job.failure = std::current_exception();
  };
  for (int r = 0; r < num_ranks; ++r) try {
      threads.emplace_back([&, r] {
        try {
          body(std::make_unique<Threads>(job, nullptr, board, "world", ranks, r));
        } catch (...) {
          fail(r);
        }
      });
    } catch (...) {  // no more threads to be had: those that run must hear of it
      fail(r);
      break;
    }
  for (auto& t : threads) t.join();
  if (job.failure) std::rethrow_exception(job.failure);
}

}  // namespace mt::comm
