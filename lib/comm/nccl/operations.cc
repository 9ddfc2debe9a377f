#include "comm/nccl/operations.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "comm/cuda/rank_order.h"
#include "comm/volume.h"

namespace mt::comm::nccl {

namespace {

constexpr std::int64_t kSumPieceBytes = 8 << 20;  // of a shard, summed at once in rank order

// NCCL's own sums are of these types; what only moves is bytes.
std::optional<ncclDataType_t> sum_type(DType t) {
  switch (t) {
    case DType::f64: return ncclFloat64;
    case DType::f32: return ncclFloat32;
    case DType::bf16: return ncclBfloat16;
    case DType::f16: return ncclFloat16;
    case DType::i64: return ncclInt64;
    case DType::i32: return ncclInt32;
    default: return std::nullopt;
  }
}

bool is_integer(DType t) { return t == DType::i64 || t == DType::i32; }

struct Kind {
  ncclDataType_t type;
  ncclRedOp_t op;
};

Kind kind_of(DType dtype, Reduce op) {
  const auto type = sum_type(dtype);
  MT_CHECK(type && (op == Reduce::sum || is_integer(dtype) || dtype == DType::f32), "no {} over {}",
           op == Reduce::sum ? "sum" : "max", dtype_name(dtype));
  return {*type, op == Reduce::sum ? ncclSum : ncclMax};
}

std::byte* at(const View& v, std::int64_t element) {
  return static_cast<std::byte*>(v.data) + bytes_of(v.dtype, element);
}

// NCCL's results of the calls of a group: the first that went wrong.
class Results {
 public:
  void operator()(ncclResult_t r) {
    if (first_ == ncclSuccess || first_ == ncclInProgress) first_ = r == ncclSuccess ? first_ : r;
  }
  ncclResult_t first() const { return first_; }

 private:
  ncclResult_t first_ = ncclSuccess;
};

// A stretch of memory on its way to a peer, or from one.
struct Leg {
  std::byte* data;
  std::int64_t bytes;
};

// Legs r are to and from peer r, all at once, cut into rounds; those of this rank itself are not looked at.
void exchange(Link& link, const char* call, const std::vector<Leg>& out, const std::vector<Leg>& in, std::int64_t chunk) {
  std::int64_t longest = 0;
  for (int r = 0; r < link.size(); ++r)
    if (r != link.rank())
      longest = std::max({longest, out[static_cast<std::size_t>(r)].bytes, in[static_cast<std::size_t>(r)].bytes});
  for (std::int64_t lo = 0; lo < longest; lo += chunk)
    link.issue_group(call, [&](const Library& l) {
      Results results;
      for (int r = 0; r < link.size(); ++r) {
        if (r == link.rank()) continue;
        const Leg &to = out[static_cast<std::size_t>(r)], &from = in[static_cast<std::size_t>(r)];
        const auto piece = [&](const Leg& leg) { return static_cast<std::size_t>(std::clamp<std::int64_t>(leg.bytes - lo, 0, chunk)); };
        if (piece(to) > 0) results(l.ncclSend(to.data + lo, piece(to), ncclInt8, r, link.comm(), link.native()));
        if (piece(from) > 0) results(l.ncclRecv(from.data + lo, piece(from), ncclInt8, r, link.comm(), link.native()));
      }
      return results.first();
    });
}

void copy_own(Link& link, std::byte* to, const std::byte* from, std::int64_t bytes) {
  if (to != from) copy_bytes(link.stream(), to, from, static_cast<std::size_t>(bytes));
}

// Whether the sum goes through our own kernel.
bool is_ours(DType dtype, Reduce op, bool rank_order) {
  return !is_integer(dtype) && (rank_order || op == Reduce::max);
}

// Shard r of x, elements [first(r), first(r)+count(r)), is summed by rank r; results of this rank go to `out`, which may
// be its shard of x.
template <class First, class Count>
void scatter_in_rank_order(Link& link, const View& x, Reduce op, const First& first, const Count& count, std::byte* out,
                           std::int64_t chunk) {
  const int n = link.size(), me = link.rank();
  const std::int64_t width = bytes_of(x.dtype, 1), piece = std::max<std::int64_t>(1, std::min(kSumPieceBytes, chunk) / width);
  std::int64_t longest = 0;
  for (int r = 0; r < n; ++r) longest = std::max(longest, count(r));
  const std::int64_t stride = (std::min(longest, piece) * width + 255) / 256 * 256;
  std::byte* received = link.scratch(static_cast<std::size_t>(stride * n));
  for (std::int64_t lo = 0; lo < longest; lo += piece) {
    const auto length = [&](int r) { return std::clamp<std::int64_t>(count(r) - lo, 0, piece); };
    std::vector<Leg> to, from;
    for (int r = 0; r < n; ++r) {
      to.push_back({at(x, first(r) + std::min(lo, count(r))), length(r) * width});
      from.push_back({received + r * stride, length(me) * width});
    }
    exchange(link, "ncclSend and ncclRecv of shards", to, from, chunk);
    if (length(me) == 0) continue;
    reduce_in_rank_order(link.stream(), {.dtype = x.dtype, .max = op == Reduce::max, .ranks = n, .rank = me,
                                         .received = received, .own = at(x, first(me) + lo), .stride = stride,
                                         .out = out + lo * width, .count = length(me)});
  }
}

void all_reduce_in_rank_order(Link& link, const View& x, Reduce op, std::int64_t chunk) {
  const int n = link.size(), me = link.rank();
  const auto bytes = static_cast<std::int64_t>(x.bytes());
  auto* data = static_cast<std::byte*>(x.data);
  if (bytes <= kDirectBytes) {  // one exchange of everything
    const std::int64_t stride = (bytes + 255) / 256 * 256;
    std::byte* received = link.scratch(static_cast<std::size_t>(stride * n));
    std::vector<Leg> from;
    for (int r = 0; r < n; ++r) from.push_back({received + r * stride, bytes});
    exchange(link, "ncclSend and ncclRecv of everything", std::vector<Leg>(static_cast<std::size_t>(n), {data, bytes}), from,
             chunk);
    return reduce_in_rank_order(link.stream(), {.dtype = x.dtype, .max = op == Reduce::max, .ranks = n, .rank = me,
                                                .received = received, .own = data, .stride = stride, .out = data,
                                                .count = x.size()});
  }
  const auto shard = [&](int r) { return shard_of(x.size(), r, n); };
  scatter_in_rank_order(link, x, op, [&](int r) { return shard(r).begin; }, [&](int r) { return shard(r).size(); },
                        at(x, shard(me).begin), chunk);
  std::vector<Leg> to, from;
  for (int r = 0; r < n; ++r) {
    to.push_back({at(x, shard(me).begin), bytes_of(x.dtype, shard(me).size())});
    from.push_back({at(x, shard(r).begin), bytes_of(x.dtype, shard(r).size())});
  }
  exchange(link, "ncclSend and ncclRecv of sums", to, from, chunk);
}

}  // namespace

void connect(std::span<Link* const> links) {
  for (Link* l : links) l->settle(ncclInProgress, "ncclCommInitRankConfig");
  std::vector<ncclResult_t> results;
  for (Link* link : links) {
    std::byte* byte = link->scratch(256);
    results.push_back(link->begin([&](const Library& l) {
      if (!link->is_pair()) return l.ncclAllReduce(byte, byte, 1, ncclInt32, ncclSum, link->comm(), link->native());
      return link->rank() == 0 ? l.ncclSend(byte, 1, ncclInt8, 1, link->comm(), link->native())
                               : l.ncclRecv(byte, 1, ncclInt8, 0, link->comm(), link->native());
    }));
  }
  for (std::size_t i = 0; i < links.size(); ++i) links[i]->settle(results[i], "the first operation");
}

void all_reduce(Link& link, View x, Reduce op, bool rank_order, std::int64_t chunk) {
  const Kind kind = kind_of(x.dtype, op);
  if (is_ours(x.dtype, op, rank_order)) return all_reduce_in_rank_order(link, x, op, chunk);
  const std::int64_t piece = std::max<std::int64_t>(1, chunk / bytes_of(x.dtype, 1));
  for (std::int64_t lo = 0; lo < x.size(); lo += piece)
    link.issue("ncclAllReduce", [&](const Library& l) {
      return l.ncclAllReduce(at(x, lo), at(x, lo), static_cast<std::size_t>(std::min(piece, x.size() - lo)), kind.type,
                             kind.op, link.comm(), link.native());
    });
}

void reduce_scatter(Link& link, View in, View out, Reduce op, bool rank_order, std::int64_t chunk) {
  const Kind kind = kind_of(in.dtype, op);
  const std::int64_t part = out.size();
  if (is_ours(in.dtype, op, rank_order))
    return scatter_in_rank_order(link, in, op, [&](int r) { return r * part; }, [&](int) { return part; },
                                 static_cast<std::byte*>(out.data), chunk);
  const std::int64_t piece = std::max<std::int64_t>(1, chunk / bytes_of(in.dtype, 1));
  if (part <= piece)
    return link.issue("ncclReduceScatter", [&](const Library& l) {
      return l.ncclReduceScatter(in.data, out.data, static_cast<std::size_t>(part), kind.type, kind.op, link.comm(),
                                 link.native());
    });
  // Parts do not lie next to each other once they are cut, so each piece is summed to its rank.
  for (std::int64_t lo = 0; lo < part; lo += piece)
    link.issue_group("ncclReduce of parts", [&](const Library& l) {
      Results results;
      for (int r = 0; r < link.size(); ++r)
        results(l.ncclReduce(at(in, r * part + lo), r == link.rank() ? at(out, lo) : at(in, r * part + lo),
                             static_cast<std::size_t>(std::min(piece, part - lo)), kind.type, kind.op, r, link.comm(),
                             link.native()));
      return results.first();
    });
}

void all_gather(Link& link, View in, View out, std::int64_t chunk) {
  const auto bytes = static_cast<std::int64_t>(in.bytes());
  auto *from = static_cast<std::byte*>(in.data), *to = static_cast<std::byte*>(out.data);
  if (bytes <= chunk)
    return link.issue("ncclAllGather", [&](const Library& l) {
      return l.ncclAllGather(from, to, in.bytes(), ncclInt8, link.comm(), link.native());
    });
  std::vector<Leg> parts;
  for (int r = 0; r < link.size(); ++r) parts.push_back({to + r * bytes, bytes});
  copy_own(link, to + link.rank() * bytes, from, bytes);
  exchange(link, "ncclSend and ncclRecv of parts", std::vector<Leg>(parts.size(), {from, bytes}), parts, chunk);
}

void broadcast(Link& link, View x, int root, std::int64_t chunk) {
  const auto bytes = static_cast<std::int64_t>(x.bytes());
  auto* data = static_cast<std::byte*>(x.data);
  for (std::int64_t lo = 0; lo < bytes; lo += chunk)
    link.issue("ncclBroadcast", [&](const Library& l) {
      return l.ncclBroadcast(data + lo, data + lo, static_cast<std::size_t>(std::min(chunk, bytes - lo)), ncclInt8, root,
                             link.comm(), link.native());
    });
}

void all_to_all(Link& link, const std::byte* in, std::span<const std::int64_t> sent, std::byte* out,
                std::span<const std::int64_t> received, std::int64_t chunk) {
  std::vector<Leg> to, from;
  std::int64_t before_in = 0, before_out = 0;
  for (int r = 0; r < link.size(); ++r) {
    const auto i = static_cast<std::size_t>(r);
    to.push_back({const_cast<std::byte*>(in) + before_in, sent[i]});
    from.push_back({out + before_out, received[i]});
    before_in += sent[i];
    before_out += received[i];
  }
  const auto me = static_cast<std::size_t>(link.rank());
  MT_CHECK(sent[me] == received[me], "{} bytes for this rank itself, {} from it", sent[me], received[me]);
  copy_own(link, from[me].data, to[me].data, sent[me]);
  exchange(link, "ncclSend and ncclRecv", to, from, chunk);
}

void send(Link& link, View x, int peer, std::int64_t chunk) {
  const auto bytes = static_cast<std::int64_t>(x.bytes());
  for (std::int64_t lo = 0; lo < bytes; lo += chunk)
    link.issue("ncclSend", [&](const Library& l) {
      return l.ncclSend(static_cast<std::byte*>(x.data) + lo, static_cast<std::size_t>(std::min(chunk, bytes - lo)), ncclInt8,
                        peer, link.comm(), link.native());
    });
}

void receive(Link& link, View x, int peer, std::int64_t chunk) {
  const auto bytes = static_cast<std::int64_t>(x.bytes());
  for (std::int64_t lo = 0; lo < bytes; lo += chunk)
    link.issue("ncclRecv", [&](const Library& l) {
      return l.ncclRecv(static_cast<std::byte*>(x.data) + lo, static_cast<std::size_t>(std::min(chunk, bytes - lo)), ncclInt8,
                        peer, link.comm(), link.native());
    });
}

}  // namespace mt::comm::nccl
