// Sums and maxima over a group: scatter shards, reduce in rank order, gather. Cut in pieces small enough that what was
// received is still in the cache when it is added, with several pieces under way.

#include <algorithm>
#include <deque>

#include "base/error.h"
#include "comm/mpi/collective.h"
#include "comm/reduction.h"
#include "comm/volume.h"

namespace mt::comm::mpi {

namespace {

constexpr std::int64_t kPiecesInFlight = 4;

// Of one shard, so that what all peers send for a piece stays in the second-level cache.
std::int64_t piece_bytes(int ranks) {
  return std::clamp<std::int64_t>((1 << 20) / std::max(1, ranks - 1), 16 << 10, 256 << 10);
}

struct Target {
  std::byte* in;
  std::byte* out;  // reduce-scatter: this rank's part; all-reduce: the same tensor as in
  std::int64_t elements;
  bool gather;
};

class Reduction final : public Operation {
 public:
  Reduction(const Group& group, const Call& call, std::int64_t number, const Target& target)
      : Operation(group, call, number),
        target_(target),
        direct_(target.gather && bytes(target.elements) <= kDirectBytes) {
    std::int64_t longest = 1;
    for (int r = 0; r < group.size; ++r) longest = std::max(longest, shard(r).size());
    const std::int64_t limit = std::min(piece_bytes(group.size), group.job->options.max_chunk_bytes);
    piece_ = direct_ ? longest : std::min(longest, std::max<std::int64_t>(1, limit / bytes(1)));
    num_pieces_ = group.size == 1 ? 0 : (longest + piece_ - 1) / piece_;
    if (group.size == 1 && target.out != target.in)
      std::copy_n(target.in, bytes(target.elements), target.out);
    advance();
  }

 private:
  enum class Stage : std::uint8_t { scatter, gather, done };
  struct Piece {
    std::int64_t index;
    Stage stage;
    Exchange exchange;
    Scratch received;
  };

  std::int64_t bytes(std::int64_t n) const { return bytes_of(call_.dtype, n); }
  // Where rank r's answer lies; a direct exchange makes every rank answer for everything.
  Shard shard(int r) const {
    return direct_ ? Shard{0, target_.elements} : shard_of(target_.elements, r, group_.size);
  }
  Shard part(int r, std::int64_t index) const {
    const Shard s = shard(r);
    return {std::min(s.end, s.begin + index * piece_), std::min(s.end, s.begin + (index + 1) * piece_)};
  }

  bool advance() override {
    bool moved = true;
    while (moved) {
      moved = false;
      while (started_ < num_pieces_ && static_cast<std::int64_t>(pieces_.size()) < kPiecesInFlight) start_piece();
      bool earlier_scattered = true;  // gathers start in order, as their messages share a tag
      for (auto& p : pieces_) {
        if (p.stage == Stage::scatter && earlier_scattered && p.exchange.test()) {
          reduce(p);
          moved = true;
        }
        if (p.stage == Stage::gather && p.exchange.test()) p.stage = Stage::done;
        earlier_scattered = earlier_scattered && p.stage != Stage::scatter;
      }
      while (!pieces_.empty() && pieces_.front().stage == Stage::done) {
        group_.job->give_back(std::move(pieces_.front().received));
        pieces_.pop_front();
        moved = true;
      }
    }
    return pieces_.empty() && started_ == num_pieces_;
  }

  void start_piece() {
    auto& p = pieces_.emplace_back(Piece{started_++, Stage::scatter, {}, {}});
    const std::int64_t mine = bytes(part(group_.rank, p.index).size());
    p.received = group_.job->take_scratch(bytes(piece_) * (group_.size - 1));
    std::byte* to = p.received.data.get();
    for (int r = 0; r < group_.size; ++r) {
      if (r == group_.rank) continue;
      if (mine > 0 || direct_) p.exchange.receive(group_, to, mine, r, tag(0));
      to += mine;
    }
    for (int step = 1; step < group_.size; ++step) {
      const int r = (group_.rank + step) % group_.size;
      const Shard theirs = part(r, p.index);
      if (theirs.size() > 0 || direct_)
        p.exchange.send(group_, target_.in + bytes(theirs.begin), bytes(theirs.size()), r, tag(0));
    }
  }

  void reduce(Piece& p) {
    const Shard mine = part(group_.rank, p.index);
    sources_.clear();
    const std::byte* received = p.received.data.get();
    for (int r = 0; r < group_.size; ++r) {
      sources_.push_back(r == group_.rank ? target_.in + bytes(mine.begin) : received);
      if (r != group_.rank) received += bytes(mine.size());
    }
    const std::int64_t at = target_.gather ? mine.begin : mine.begin - shard(group_.rank).begin;
    reduce_local(call_.dtype, call_.reduce, sources_, target_.out + bytes(at), mine.size());
    p.stage = Stage::done;
    if (!target_.gather || direct_) return;
    p.stage = Stage::gather;
    // Piece by piece the peers' shards have left (the scatter is complete), so results may land on them.
    for (int step = 1; step < group_.size; ++step) {
      const int from = (group_.rank + group_.size - step) % group_.size;
      const Shard theirs = part(from, p.index);
      if (theirs.size() > 0)
        p.exchange.receive(group_, target_.out + bytes(theirs.begin), bytes(theirs.size()), from, tag(1));
    }
    for (int step = 1; step < group_.size && mine.size() > 0; ++step)
      p.exchange.send(group_, target_.out + bytes(mine.begin), bytes(mine.size()), (group_.rank + step) % group_.size,
                      tag(1));
  }

  std::vector<int> waiting_for() const override {
    for (const auto& p : pieces_)
      if (auto ranks = p.exchange.waiting_for(); !ranks.empty()) return ranks;
    return {};
  }

  Target target_;
  bool direct_;
  std::int64_t piece_ = 1, num_pieces_ = 0, started_ = 0;
  std::deque<Piece> pieces_;
  std::vector<const std::byte*> sources_;
};

}  // namespace

Work all_reduce(const Group& group, std::int64_t number, View x, Reduce op) {
  auto* data = static_cast<std::byte*>(x.data);
  const Call call{Kind::all_reduce, x.dtype, op, static_cast<std::int64_t>(x.bytes()), 0};
  return std::make_unique<Reduction>(group, call, number, Target{data, data, x.size(), true});
}

Work reduce_scatter(const Group& group, std::int64_t number, View in, View out, Reduce op) {
  const Call call{Kind::reduce_scatter, in.dtype, op, static_cast<std::int64_t>(in.bytes()), 0};
  return std::make_unique<Reduction>(
      group, call, number,
      Target{static_cast<std::byte*>(in.data), static_cast<std::byte*>(out.data), in.size(), false});
}

}  // namespace mt::comm::mpi
