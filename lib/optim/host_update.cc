// The part of an update whose state lies in host memory beside an accelerator.

#include "base/error.h"
#include "ops/arithmetic.h"
#include "optim/optimizer.h"

namespace mt {

namespace {

View stretch(const View& v, std::int64_t begin, std::int64_t end) { return v ? v.rows(begin, end) : v; }

View at_host(std::byte* data, const View& like) { return View(data, like.dtype, like.shape); }

}  // namespace

void Optimizer::prepare_host(Device device) {
  const HostSlot slot = host_slot(store_.plan(), spec_, options_.host.largest_piece);
  if (slot.elements == 0) return;
  MT_CHECK(spec_.rule != UpdateRule::muon && scale_kinds(spec_).empty(), "the host updates no {}", state_name(spec_));
  for (std::size_t i = 0; i < on_host_.size(); ++i) {
    if (!on_host_[i]) continue;
    const View grad = store_.shard_grad(i), weight = store_.shard_weight(i);
    for (std::int64_t lo = 0; lo < grad.size(); lo += slot.elements) {
      const std::int64_t hi = std::min(lo + slot.elements, grad.size());
      const View g = grad.rows(lo, hi), w = weight.rows(lo, hi);
      stretches_.push_back({i, lo, hi});
      // Weights in f32 are their own masters, and stay on the device.
      pieces_.push_back({g.data, g.bytes(), w.data, w.bytes(), !spec_.own_master()});
    }
  }
  host_pieces_ = std::make_unique<HostPieces>(device, kHostSlots, static_cast<std::size_t>(slot.grad_bytes),
                                              static_cast<std::size_t>(slot.weight_bytes), options_.host.pieces);
}

void Optimizer::update_on_host(Stream& stream, const ops::AdamwScalars& scalars, double weight_decay) {
  if (!host_pieces_) return;
  Stream host({}, stream.threads());
  host.set_poll([&stream] { stream.poll(); });
  host_pieces_->run(stream, pieces_, [&](std::size_t i, std::byte* in, std::byte* out) {
    const HostStretch& s = stretches_[i];
    ShardViews v = views_of(s.shard);
    for (View* part : {&v.master, &v.exp_avg, &v.exp_avg_sq, &v.momentum, &v.grad, &v.model})
      *part = stretch(*part, s.begin, s.end);
    v.grad = at_host(in, v.grad);
    View& weight = spec_.own_master() ? v.model : v.master;
    weight = at_host(out, weight);
    update(host, v, &scalars, decay_of(s.shard, weight_decay));
  });
}

void Optimizer::publish_from_host(Stream& stream) {
  if (!host_pieces_ || !spec_.own_master()) return;
  Stream host({}, stream.threads());
  std::vector<HostPiece> pieces = pieces_;
  for (auto& p : pieces) p.in_bytes = 0;
  host_pieces_->run(stream, pieces, [&](std::size_t i, std::byte*, std::byte* out) {
    const HostStretch& s = stretches_[i];
    const View weight = store_.shard_weight(s.shard).rows(s.begin, s.end);
    ops::cast(host, {.x = shard_master(s.shard).rows(s.begin, s.end), .out = at_host(out, weight)});
  });
}

}  // namespace mt
