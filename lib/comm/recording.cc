#include <algorithm>
#include <optional>
#include <utility>

#include "comm/graph_operations.h"
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

using Rows = std::vector<TrafficRow>;

class RecordedGraph final : public GraphOperations {
 public:
  RecordedGraph(std::unique_ptr<GraphOperations> inner, Rows rows, TrafficLog& log)
      : inner_(std::move(inner)), rows_(std::move(rows)), log_(log) {}
  void before_launch(Stream& stream) override { inner_->before_launch(stream); }
  void after_launch(Stream& stream) override {
    for (const auto& r : rows_) log_.add(r.group, r.operation, r.bytes_sent);
    inner_->after_launch(stream);
  }

 private:
  std::unique_ptr<GraphOperations> inner_;
  const Rows rows_;
  TrafficLog& log_;
};

class Recording final : public Communicator, public GraphCapture {
 public:
  //   noted  what a graph that is captured now has, of all groups
  Recording(std::unique_ptr<Communicator> inner, TrafficLog& log, std::shared_ptr<std::optional<Rows>> noted)
      : Communicator(inner->name(), inner->world_ranks()), inner_(std::move(inner)), log_(log), noted_(std::move(noted)) {}
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
    return std::make_unique<Recording>(inner_->make_group(ranks, name), log_, noted_);
  }

  bool can_capture() const override { return graph_capture(*inner_) != nullptr; }
  void begin_capture() override {
    graph_capture(*inner_)->begin_capture();
    noted_->emplace();
  }
  std::unique_ptr<GraphOperations> end_capture() override {
    Rows rows = std::exchange(*noted_, std::nullopt).value_or(Rows());
    return std::make_unique<RecordedGraph>(graph_capture(*inner_)->end_capture(), std::move(rows), log_);
  }

 private:
  std::int64_t part(const View& v) const { return parts_bytes_sent(static_cast<std::int64_t>(v.bytes()), size()); }
  void add(const char* operation, std::int64_t bytes) {
    if (size() == 1) return;
    if (*noted_) (*noted_)->push_back({name(), operation, 1, bytes});
    else log_.add(name(), operation, bytes);
  }
  std::unique_ptr<Communicator> inner_;
  TrafficLog& log_;
  std::shared_ptr<std::optional<Rows>> noted_;
};

}  // namespace

std::unique_ptr<Communicator> recording(std::unique_ptr<Communicator> inner, TrafficLog& log) {
  return std::make_unique<Recording>(std::move(inner), log, std::make_shared<std::optional<Rows>>());
}

}  // namespace mt::comm
