#pragma once
// Collectives and point-to-point over a group of ranks: one of the two virtual seams of the house.
//
//   group   an ordered list of world ranks; `rank()` is the position in it
//   counts  elements, 64-bit; a backend cuts what its library cannot count into chunks
//
// Every call returns a Handle. The call starts the operation on data that is valid in `stream` order at the call; the
// result may be read by work launched on `stream` after handle.wait(stream), by the host after wait_host(). Input and
// output stay untouched by the caller until then. All ranks of a group make the same calls in the same order.
//
// Sums: f32, f64, bf16 and f16 add in rank order, in f32 (f64 for f64), rounded once; i32, i64 exactly; so
// the result is the same on every rank, for every backend, chunk size and bucketing; on every rank, but in an order of its
// own, by NCCL's fast path (comm/nccl.h). max: f32 (a NaN wins), i32, i64.
// Reduce-scatter = all-to-all of shards + local sum; all-reduce adds an all-gather.
//
// Bytes sent per rank, n ranks, S bytes of the whole tensor (comm/volume.h; the recording wrapper of comm/world.h counts them):
//   all_gather, reduce_scatter, all_to_all  S(n−1)/n      all_reduce  2S(n−1)/n, S(n−1) up to 2 KiB
//   broadcast  root S(n−1)      send  S
//
// Fails: Error{comm} naming group, operation, its number, bytes, and the ranks that did not enter, after `timeout_s`.
// Backends: comm/solo.*, comm/threads.*, comm/mpi/, comm/nccl/. One conformance suite: tests/comm/.

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "device/stream.h"
#include "tensor/view.h"

namespace mt {

namespace comm {
class StatusSlot;
class StatusPage;
}

struct CommOptions {
  double timeout_s = 600;                        // an operation not complete by then is Error{comm}
  std::int64_t max_chunk_bytes = std::int64_t{1} << 30;  // largest single library call; tests set it tiny
  comm::StatusSlot* status = nullptr;            // where to say what this rank is in (comm/status_page.h); may be null
  comm::StatusPage* page = nullptr;              // what the ranks of this host are in, for messages; may be null
};

enum class Reduce : std::uint8_t { sum, max };

// What is in flight. Move only; dropping one that was never waited for is a bug (MT_CHECK), since its buffers may
// still be written.
class Handle {
 public:
  struct Work {  // what a backend implements
    virtual ~Work() = default;
    virtual bool test() = 0;       // move it on; true when complete
    virtual void wait() = 0;       // block the host; may throw Error{comm}
    virtual void wait_on(Stream& stream) { (void)stream; wait(); }
  };
  Handle() = default;  // already complete
  explicit Handle(std::unique_ptr<Work> work);
  Handle(Handle&&) noexcept;
  Handle& operator=(Handle&&) noexcept;
  ~Handle();
  // Work launched on `stream` from now on sees the result. May block the host (CPU backends do).
  void wait(Stream& stream);
  void wait_host();
  [[nodiscard]] bool test();

 private:
  std::unique_ptr<Work> work_;
};

// The ranks of a pipeline, whose neighbours in the ring send each other messages. Groups with the prefix carry nothing else
// and share nothing with other groups of the same ranks.
inline constexpr std::string_view kPipeline = "pp", kChannelPrefix = "pp-channel-";

class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  // What the job was started with.
  virtual const CommOptions& options() const = 0;
  const std::string& name() const { return name_; }             // "tp", "dp", "world"
  const std::vector<int>& world_ranks() const { return ranks_; }  // ascending position

  // x is replaced by the reduction over the group, same bits on every rank.   needs  contiguous
  virtual Handle all_reduce(Stream& stream, View x, Reduce op) = 0;
  // out[r] = in of rank r; out is in's shape with the first dimension times size().   in may be its own part of out.
  virtual Handle all_gather(Stream& stream, View in, View out) = 0;
  // out = part rank() of the reduction of in, cut along the first dimension.   needs  in.dim(0) divisible by size();
  // out may be its own part of in
  virtual Handle reduce_scatter(Stream& stream, View in, View out, Reduce op) = 0;
  // part r of in goes to rank r; part r of out comes from rank r; equal parts along the first dimension.
  virtual Handle all_to_all(Stream& stream, View in, View out) = 0;
  // As above with counts of first-dimension rows per peer; both spans have size() entries.
  virtual Handle all_to_all_v(Stream& stream, View in, std::span<const std::int64_t> send_rows, View out,
                              std::span<const std::int64_t> recv_rows) = 0;
  virtual Handle broadcast(Stream& stream, View x, int root) = 0;
  // Point to point; a channel is a communicator of its own, so order within it is all that matters.
  virtual Handle send(Stream& stream, View x, int peer) = 0;
  virtual Handle recv(Stream& stream, View x, int peer) = 0;
  virtual Handle barrier(Stream& stream) = 0;

  // Move what is in flight; never blocks. The engine calls it between acts, long ops through Stream::poll.
  virtual void progress() = 0;

  // A new group from world ranks, a subset of this group's, in the given order. Collective over exactly those ranks.
  //   needs  the caller's own world rank among them; the same list and name on all of them
  virtual std::unique_ptr<Communicator> make_group(const std::vector<int>& world_ranks, const std::string& name) = 0;

 protected:
  Communicator(std::string name, std::vector<int> ranks) : name_(std::move(name)), ranks_(std::move(ranks)) {}
  std::string name_;
  std::vector<int> ranks_;
};

}  // namespace mt
