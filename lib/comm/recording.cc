#include <algorithm>

#include "comm/volume.h"
#include "comm/world.h"

namespace mt::comm {

void TrafficLog::add(const std::string& group, const std::string& operation, std::int64_t bytes_sent) {
  const auto it = std::find_if(rows_.begin(), rows_.end(),
                               [&](const auto& r) { return r.group == group && r.operation == operation; });
  auto& row = it == rows_.end() ? rows_.emplace_back(TrafficRow{group, operation, 0, 0}) : *it;
  ++row.calls;
  row.bytes_sent += bytes_sent;
}

std::vector<TrafficRow> TrafficLog::rows() const {
  auto sorted = rows_;
  std::sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) {
    return std::tie(a.group, a.operation) < std::tie(b.group, b.operation);
  });
  return sorted;
}

namespace {

class Recording final : public Communicator {
 public:
  Recording(std::unique_ptr<Communicator> inner, TrafficLog& log)
      : Communicator(inner->name(), inner->world_ranks()), inner_(std::move(inner)), log_(log) {}
  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  const CommOptions& options() const override { return inner_->options(); }

  Handle all_reduce(Stream& s, View x, Reduce op) override {
    add("all_reduce", all_reduce_bytes_sent(x.size(), bits_of(x.dtype) / 8, rank(), size()));
    return inner_->all_reduce(s, x, op);
  }
  Handle all_gather(Stream& s, View in, View out) override {
    add("all_gather", part(out));
    return inner_->all_gather(s, in, out);
  }
  Handle reduce_scatter(Stream& s, View in, View out, Reduce op) override {
    add("reduce_scatter", part(in));
    return inner_->reduce_scatter(s, in, out, op);
  }
  Handle all_to_all(Stream& s, View in, View out) override {
    add("all_to_all", part(in));
    return inner_->all_to_all(s, in, out);
  }
  Handle all_to_all_v(Stream& s, View in, std::span<const std::int64_t> send_rows, View out,
                      std::span<const std::int64_t> recv_rows) override {
    std::int64_t rows = 0;
    for (std::size_t r = 0; r < send_rows.size(); ++r)
      if (static_cast<int>(r) != rank()) rows += send_rows[r];
    add("all_to_all_v", in.dim(0) > 0 ? rows * (static_cast<std::int64_t>(in.bytes()) / in.dim(0)) : 0);
    return inner_->all_to_all_v(s, in, send_rows, out, recv_rows);
  }
  Handle broadcast(Stream& s, View x, int root) override {
    add("broadcast", root == rank() ? static_cast<std::int64_t>(x.bytes()) * (size() - 1) : 0);
    return inner_->broadcast(s, x, root);
  }
  Handle send(Stream& s, View x, int peer) override {
    add("send", static_cast<std::int64_t>(x.bytes()));
    return inner_->send(s, x, peer);
  }
  Handle recv(Stream& s, View x, int peer) override { return inner_->recv(s, x, peer); }
  Handle barrier(Stream& s) override { return inner_->barrier(s); }
  void progress() override { inner_->progress(); }
  std::unique_ptr<Communicator> make_group(const std::vector<int>& ranks, const std::string& name) override {
    return recording(inner_->make_group(ranks, name), log_);
  }

 private:
  std::int64_t part(const View& v) const { return parts_bytes_sent(static_cast<std::int64_t>(v.bytes()), size()); }
  void add(const char* operation, std::int64_t bytes) {
    if (size() > 1) log_.add(name(), operation, bytes);
  }
  std::unique_ptr<Communicator> inner_;
  TrafficLog& log_;
};

}  // namespace

std::unique_ptr<Communicator> recording(std::unique_ptr<Communicator> inner, TrafficLog& log) {
  return std::make_unique<Recording>(std::move(inner), log);
}

}  // namespace mt::comm
