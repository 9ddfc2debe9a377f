#include "comm/nccl/communicator.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "comm/nccl/operations.h"
#include "comm/staged.h"
#include "comm/status_page.h"
#include "comm/world.h"
#include "device/cuda/runtime.h"

namespace mt::comm::nccl {

namespace {

class NcclWork final : public Handle::Work {
 public:
  NcclWork(std::shared_ptr<Shared> shared, std::shared_ptr<Flight> flight)
      : shared_(std::move(shared)), flight_(std::move(flight)) {}
  bool test() override {
    shared_->domain.check();
    if (!flight_->done()) return false;
    shared_->domain.check();  // an aborted operation is done, too
    return true;
  }
  void wait() override {
    auto* status = shared_->domain.options().status;
    const What& what = flight_->what();
    if (status) status->wait_in({what.group, what.operation, what.number});
    shared_->domain.wait_host(*flight_);
    if (status) status->wait_over();
  }
  void wait_on(Stream& stream) override {
    shared_->domain.check();
    if (!stream.native()) return wait();
    const int device = stream.device().index;
    cuda::use_device(device);
    cuda::check(cudaStreamWaitEvent(cuda::native(stream), flight_->event(), 0), "cudaStreamWaitEvent", device);
  }

 private:
  std::shared_ptr<Shared> shared_;
  std::shared_ptr<Flight> flight_;
};

void need_contiguous(const View& a, const View& b) {
  MT_CHECK((!a.data || a.contiguous()) && (!b.data || b.contiguous()), "communication of a strided view");
}

std::vector<std::int64_t> row_bytes(const View& v, std::span<const std::int64_t> rows) {
  const std::int64_t row = v.dim(0) > 0 ? static_cast<std::int64_t>(v.bytes()) / v.dim(0) : 0;
  std::vector<std::int64_t> out;
  std::int64_t total = 0;
  for (auto r : rows) {
    MT_CHECK(r >= 0, "{} rows for a peer", r);
    out.push_back(r * row);
    total += r;
  }
  MT_CHECK(total <= v.dim(0), "{} rows in parts, {} there are", total, v.dim(0));
  return out;
}

ncclUniqueId fresh_id() {
  ncclUniqueId id;
  const ncclResult_t result = library().ncclGetUniqueId(&id);
  if (result != ncclSuccess)
    throw Error(Code::comm, fmt::format("ncclGetUniqueId: {}", library().ncclGetErrorString(result)), "nccl",
                "NCCL_DEBUG=WARN says more; NCCL_SOCKET_IFNAME names the network to use");
  return id;
}

View bytes_view(ncclUniqueId* ids, std::int64_t count) {
  return View(ids, DType::u8, {count * static_cast<std::int64_t>(sizeof(ncclUniqueId))});
}

}  // namespace

NcclCommunicator::NcclCommunicator(std::shared_ptr<Shared> shared, Communicator& host, std::unique_ptr<Communicator> owned)
    : Communicator(host.name(), host.world_ranks()), shared_(std::move(shared)), host_(host), owned_(std::move(owned)) {
  key_ = fmt::format("{} {}", name_, fmt::join(ranks_, " "));
  domain().board().join(key_, rank(), size());
  const bool channel = name_.rfind(kChannelPrefix, 0) == 0;
  if (channel || name_ == kPipeline) meet_ring();
  if (channel) return;
  link_ = domain().find(ranks_);
  if (link_) return;
  ncclUniqueId id{};
  if (rank() == 0) id = fresh_id();
  host_.broadcast(host_stream_, bytes_view(&id, 1), 0).wait_host();
  link_ = &domain().add(id, {rank(), size()}, false, name_);
  connect({&link_, 1});
  domain().remember(ranks_, *link_);
}

// Pairs of neighbours, before the first message.
void NcclCommunicator::meet_ring() {
  const int n = size(), next = (rank() + 1) % n, before = (rank() + n - 1) % n;
  std::vector<ncclUniqueId> ids(2 * static_cast<std::size_t>(n));  // of rank r: to the next, to the one before
  ncclUniqueId mine[2] = {fresh_id(), fresh_id()};
  host_.all_gather(host_stream_, bytes_view(mine, 2), bytes_view(ids.data(), 2 * n)).wait_host();
  const auto id = [&](int r, int way) { return ids[static_cast<std::size_t>(2 * r + way)]; };
  std::vector<Link*> links;
  const auto add = [&](const ncclUniqueId& which, bool sends) {
    links.push_back(&domain().add(which, {sends ? 0 : 1, 2}, true, name_));
    return links.back();
  };
  pairs_[next].out = add(id(rank(), 0), true);
  pairs_[before].in = add(id(before, 0), false);
  if (n > 2) {
    pairs_[before].out = add(id(rank(), 1), true);
    pairs_[next].in = add(id(next, 1), false);
  }
  connect(links);
}

Pair* NcclCommunicator::pair_with(int peer) {
  MT_CHECK(peer >= 0 && peer < size() && peer != rank(), "peer {} of {}", peer, size());
  const auto at = pairs_.find(peer);
  return at == pairs_.end() ? nullptr : &at->second;
}

bool NcclCommunicator::is_here(const View& v) const {
  if (!v.data || v.bytes() == 0) return false;
  cudaPointerAttributes a;
  if (cudaPointerGetAttributes(&a, v.data) != cudaSuccess) {
    cudaGetLastError();  // memory it does not know
    return false;
  }
  if (a.type != cudaMemoryTypeDevice) return false;
  MT_CHECK(a.device == domain().device().index, "memory of cuda:{} where ranks talk from {}", a.device,
           device_text(domain().device()));
  return true;
}

void NcclCommunicator::before_host(Stream& stream) {
  domain().wait_host(stream);
}

Handle NcclCommunicator::start(Link& link, Stream& stream, What what, const Issue& issue) {
  link.start_after(stream);
  issue(link);
  return Handle(std::make_unique<NcclWork>(shared_, link.take_off(std::move(what))));
}

What NcclCommunicator::enter(const char* operation, std::int64_t bytes) {
  const std::int64_t number = number_++;
  Board& board = domain().board();  // lives as long as the domain, which asks
  board.enter(key_, rank(), number);
  if (auto* status = options().status) status->enter({name_, operation, number});
  return {name_, operation, number, bytes, 0,
          [&board, key = key_, number, ranks = ranks_] { return board.missing(key, number, ranks); }};
}

Handle NcclCommunicator::collective(Stream& stream, const char* operation, std::size_t size, const Issue& issue) {
  MT_CHECK(link_, "{} of group {}, which is for messages", operation, name_);
  const auto bytes = static_cast<std::int64_t>(size);
  NcclGraphOperations* noted = domain().noted();
  if (!noted) return start(*link_, stream, enter(operation, bytes), issue);
  noted->add(*this, *link_, operation, bytes);
  return start(*link_, stream, {name_, operation, number_, bytes, 0, {}}, issue);
}

Handle NcclCommunicator::all_reduce(Stream& stream, View x, Reduce op) {
  need_contiguous(x, x);
  domain().check();
  if (x.bytes() == 0) return {};
  if (!is_here(x)) return before_host(stream), host_.all_reduce(host_stream_, x, op);
  return collective(stream, "all_reduce", x.bytes(), [&](Link& l) {
    nccl::all_reduce(l, x, op, shared_->options.rank_order_sums, options().max_chunk_bytes);
  });
}

Handle NcclCommunicator::all_gather(Stream& stream, View in, View out) {
  need_contiguous(in, out);
  MT_CHECK(out.bytes() == in.bytes() * static_cast<std::size_t>(size()), "{} bytes from {}", out.bytes(), in.bytes());
  domain().check();
  if (out.bytes() == 0) return {};
  if (!is_here(out)) return before_host(stream), host_.all_gather(host_stream_, in, out);
  return collective(stream, "all_gather", out.bytes(),
               [&](Link& l) { nccl::all_gather(l, in, out, options().max_chunk_bytes); });
}

Handle NcclCommunicator::reduce_scatter(Stream& stream, View in, View out, Reduce op) {
  need_contiguous(in, out);
  MT_CHECK(in.bytes() == out.bytes() * static_cast<std::size_t>(size()), "{} bytes to {}", in.bytes(), out.bytes());
  domain().check();
  if (in.bytes() == 0) return {};
  if (!is_here(in)) return before_host(stream), host_.reduce_scatter(host_stream_, in, out, op);
  return collective(stream, "reduce_scatter", in.bytes(), [&](Link& l) {
    nccl::reduce_scatter(l, in, out, op, shared_->options.rank_order_sums, options().max_chunk_bytes);
  });
}

Handle NcclCommunicator::all_to_all(Stream& stream, View in, View out) {
  MT_CHECK(in.bytes() == out.bytes() && in.dim(0) % size() == 0, "{} rows over {} ranks", in.dim(0), size());
  const std::vector<std::int64_t> rows(ranks_.size(), in.dim(0) / size());
  return all_to_all_v(stream, in, rows, out, rows);
}

Handle NcclCommunicator::all_to_all_v(Stream& stream, View in, std::span<const std::int64_t> send_rows, View out,
                                      std::span<const std::int64_t> recv_rows) {
  need_contiguous(in, out);
  MT_CHECK(send_rows.size() == ranks_.size() && recv_rows.size() == ranks_.size(), "{} and {} counts for {} ranks",
           send_rows.size(), recv_rows.size(), size());
  domain().check();
  // A rank without rows has nothing to show where its memory would be, and its peers have nothing for it.
  if (in.bytes() == 0 && out.bytes() == 0) return {};
  if (!is_here(in) && !is_here(out))
    return before_host(stream), host_.all_to_all_v(host_stream_, in, send_rows, out, recv_rows);
  const auto sent = row_bytes(in, send_rows), received = row_bytes(out, recv_rows);
  return collective(stream, "all_to_all", in.bytes(), [&](Link& l) {
    nccl::all_to_all(l, static_cast<const std::byte*>(in.data), sent, static_cast<std::byte*>(out.data), received,
                     options().max_chunk_bytes);
  });
}

Handle NcclCommunicator::broadcast(Stream& stream, View x, int root) {
  need_contiguous(x, x);
  MT_CHECK(root >= 0 && root < size(), "root {} of {}", root, size());
  domain().check();
  if (x.bytes() == 0) return {};
  if (!is_here(x)) return before_host(stream), host_.broadcast(host_stream_, x, root);
  return collective(stream, "broadcast", x.bytes(),
               [&](Link& l) { nccl::broadcast(l, x, root, options().max_chunk_bytes); });
}

Handle NcclCommunicator::message(Stream& stream, View x, int peer, bool sending) {
  need_contiguous(x, x);
  domain().check();
  if (x.bytes() == 0) return {};
  if (!is_here(x)) {
    before_host(stream);
    return sending ? host_.send(host_stream_, x, peer) : host_.recv(host_stream_, x, peer);
  }
  Pair* const met = pair_with(peer);
  if (!met) {
    if (!staged_) staged_ = staged(host_, domain().device());
    before_host(stream);
    return sending ? staged_->send(stream, x, peer) : staged_->recv(stream, x, peer);
  }
  Pair& pair = *met;
  MT_CHECK(!domain().noted(), "a message of group {} inside a graph", name_);
  const std::int64_t chunk = options().max_chunk_bytes;
  What what{name_, sending ? "send" : "recv", sending ? pair.sent++ : pair.received++,
            static_cast<std::int64_t>(x.bytes()), 0, {}};
  what.missing = [peer = ranks_[static_cast<std::size_t>(peer)]] { return fmt::format("rank {}", peer); };
  if (auto* status = options().status) status->enter({name_, what.operation, what.number});
  return sending ? start(*pair.out, stream, std::move(what), [&](Link& l) { nccl::send(l, x, 1, chunk); })
                 : start(*pair.in, stream, std::move(what), [&](Link& l) { nccl::receive(l, x, 0, chunk); });
}

Handle NcclCommunicator::send(Stream& stream, View x, int peer) { return message(stream, x, peer, true); }
Handle NcclCommunicator::recv(Stream& stream, View x, int peer) { return message(stream, x, peer, false); }

Handle NcclCommunicator::barrier(Stream& stream) {
  before_host(stream);
  return host_.barrier(host_stream_);
}

void NcclCommunicator::progress() {
  domain().check();
  host_.progress();
}

std::unique_ptr<Communicator> NcclCommunicator::make_group(const std::vector<int>& world_ranks, const std::string& name) {
  if (world_ranks.size() == 1) return solo_group(name, world_ranks[0]);
  auto group = host_.make_group(world_ranks, name);
  Communicator& plain = *group;
  return std::make_unique<NcclCommunicator>(shared_, plain, std::move(group));
}

}  // namespace mt::comm::nccl
