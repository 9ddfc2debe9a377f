#include "params/parameter_store.h"

#include <algorithm>

#include "base/error.h"
#include "ops/arithmetic.h"

namespace mt {

namespace {

View flat_view(const Buffer& buffer, std::int64_t offset, DType dtype, std::int64_t n) {
  return View(buffer.data() + bytes_of(dtype, offset), dtype, {n});
}

View shaped(View flat, const Dims& dims) { return dims.size() == 2 ? flat.reshape({dims[0], dims[1]}) : flat; }

bool sums_over(const Piece& piece, Axis axis) {
  return std::find(piece.grad_sum.begin(), piece.grad_sum.end(), axis) != piece.grad_sum.end();
}

std::size_t size_of(DType d, std::int64_t n) { return static_cast<std::size_t>(bytes_of(d, n)); }

// Elements of the largest message of partial gradients, over units.
std::int64_t largest_partial(const std::vector<ParamSpec>& specs) {
  std::map<int, std::int64_t> by_unit;
  std::int64_t most = 0;
  for (const auto& s : specs)
    for (const auto& p : s.pieces)
      if (!p.grad_sum.empty()) most = std::max(most, by_unit[s.unit] += (p.local.size() + 63) / 64 * 64);
  return most;
}

}  // namespace

View piece_view(View parameter, const Piece& piece) {
  const auto& at = piece.local;
  View v = parameter;
  for (int d = 0; d < v.num_dims(); ++d) {
    const auto i = static_cast<std::size_t>(d);
    v = v.slice(d, at.offset[i], at.offset[i] + at.extent[i]);
  }
  return v;
}

ParameterStore::ParameterStore(std::vector<ParamSpec> specs, DType compute, Device device, Gradients gradients,
                               const ShardSpec& sharding)
    : specs_(std::move(specs)),
      plan_(plan_shards(specs_, sharding)),
      compute_(compute),
      grad_dtype_(gradients == Gradients::bf16 ? DType::bf16 : DType::f32),
      device_(device) {
  for (const auto& b : plan_.buckets) units_.push_back(b.unit);
  std::int64_t second = 0;
  for (const auto& s : specs_) {
    second_slot_.push_back(s.grad_slots == 2 ? second : -1);
    if (s.grad_slots == 2) second += (s.elements() + 63) / 64 * 64;
  }
  const std::int64_t own = plan_.total / (plan_.spec.sharded() ? plan_.spec.ranks : 1);
  weights_ = Buffer(device, size_of(compute, whole_weights() ? plan_.total : own));
  if (gradients == Gradients::absent) return;
  grads_ = Buffer(device, size_of(grad_dtype_, whole_grads() ? plan_.total : own));
  second_slots_ = Buffer(device, size_of(grad_dtype_, second));
  partial_ = Buffer(device, size_of(grad_dtype_, largest_partial(specs_)));
}

int ParameterStore::find(const std::string& name) const {
  for (int i = 0; i < num_params(); ++i)
    if (spec(i).name == name) return i;
  return -1;
}

std::int64_t ParameterStore::stored(const Bucket& b) const { return b.begin / std::max(1, plan_.spec.ranks); }

View ParameterStore::weight(int param) const {
  const auto& s = spec(param);
  const std::int64_t at = plan_.offset[static_cast<std::size_t>(param)];
  if (whole_weights()) return shaped(flat_view(weights_, at, compute_, s.elements()), s.shape);
  const auto it = open_weights_.find(s.unit);
  MT_CHECK(it != open_weights_.end(), "weights of unit {} are not gathered ({})", s.unit, s.name);
  return shaped(flat_view(it->second.buffer, at - plan_.bucket_of(s.unit).begin, compute_, s.elements()), s.shape);
}

View ParameterStore::grad(int param, int slot) const {
  const auto& s = spec(param);
  const auto i = static_cast<std::size_t>(param);
  MT_CHECK(slot < s.grad_slots && grads_.size() > 0, "slot {} of {}", slot, s.name);
  if (slot == 1) return shaped(flat_view(second_slots_, second_slot_[i], grad_dtype_, s.elements()), s.shape);
  if (whole_grads()) return shaped(flat_view(grads_, plan_.offset[i], grad_dtype_, s.elements()), s.shape);
  const auto it = open_grads_.find(s.unit);
  if (it == open_grads_.end())
    for (const auto& v : vectors_)
      if (v.unit == s.unit && v.current) return vector_grad(v, param);
  MT_CHECK(it != open_grads_.end(), "unit {} is not in backward ({})", s.unit, s.name);
  return shaped(flat_view(it->second.buffer, plan_.offset[i] - plan_.bucket_of(s.unit).begin, grad_dtype_, s.elements()),
                s.shape);
}

View ParameterStore::shard_weight(std::size_t shard) const {
  const OwnedRange& s = plan_.shards[shard];
  const std::int64_t at = plan_.offset[static_cast<std::size_t>(s.param)] + s.begin;
  const Bucket& b = plan_.bucket_of(spec(s.param).unit);
  return flat_view(weights_, whole_weights() ? at : stored(b) + at - plan_.own_begin(b), compute_, s.size());
}

View ParameterStore::shard_grad(std::size_t shard) const {
  const OwnedRange& s = plan_.shards[shard];
  const std::int64_t at = plan_.offset[static_cast<std::size_t>(s.param)] + s.begin;
  const Bucket& b = plan_.bucket_of(spec(s.param).unit);
  return flat_view(grads_, whole_grads() ? at : stored(b) + at - plan_.own_begin(b), grad_dtype_, s.size());
}

// A buffer for a whole bucket, reused from closed ones where one is large enough.
ParameterStore::Open& ParameterStore::open(Stream& stream, std::map<int, Open>& opens, int unit, DType dtype) {
  const std::size_t bytes = size_of(dtype, plan_.bucket_of(unit).size());
  Open& o = opens[unit];
  const auto fits = std::find_if(spare_.begin(), spare_.end(), [&](const Buffer& b) { return b.size() >= bytes; });
  if (fits != spare_.end()) {
    o.buffer = std::move(*fits);
    spare_.erase(fits);
  } else {
    if (!spare_.empty()) {  // too small: it would only pile up, but queued work may still read it
      stream.synchronize();
      spare_.pop_back();
    }
    o.buffer = Buffer(device_, bytes);
  }
  return o;
}

void ParameterStore::gather(Stream& stream, const Groups& groups, int unit) {
  if (whole_weights()) return;
  if (const auto it = open_weights_.find(unit); it != open_weights_.end()) {
    ++it->second.users;
    return;
  }
  const Bucket& b = plan_.bucket_of(unit);
  Open& o = open(stream, open_weights_, unit, compute_);
  o.users = 1;
  o.arriving = groups.dp_cp->all_gather(stream, flat_view(weights_, stored(b), compute_, plan_.own_size(b)),
                                        flat_view(o.buffer, 0, compute_, b.size()));
}

void ParameterStore::await_gather(Stream& stream, int unit) {
  if (const auto it = arriving_.find(unit); it != arriving_.end()) {
    it->second.wait(stream);
    arriving_.erase(it);
  }
  if (whole_weights()) return;
  Open& o = open_weights_.at(unit);
  o.arriving.wait(stream);
  o.arriving = Handle();
}

void ParameterStore::release(int unit) {
  if (whole_weights()) return;
  const auto it = open_weights_.find(unit);
  MT_CHECK(it != open_weights_.end(), "unit {} is released more often than gathered", unit);
  if (--it->second.users > 0) return;
  spare_.push_back(std::move(it->second.buffer));
  open_weights_.erase(it);
}

void ParameterStore::zero_grads(Stream& stream) {
  zero_bytes(stream, grads_.data(), grads_.size());
  zero_bytes(stream, second_slots_.data(), second_slots_.size());
}

std::int64_t ParameterStore::vector_elements(const Bucket& b, int before) const {
  std::int64_t n = 0;
  for (int i = b.first_param; i < before; ++i)
    if (spec(i).shape.size() == 1) n += (spec(i).elements() + 63) / 64 * 64;
  return n;
}

View ParameterStore::vector_grad(const Vectors& v, int param) const {
  const auto& s = spec(param);
  MT_CHECK(s.shape.size() == 1, "{} has its gradient before its weight gradients begin", s.name);
  return flat_view(v.buffer, vector_elements(plan_.bucket_of(s.unit), param), grad_dtype_, s.elements());
}

ParameterStore::Vectors* ParameterStore::vectors_of(int unit, int micro_batch) {
  const auto it = std::find_if(vectors_.begin(), vectors_.end(),
                               [&](const Vectors& v) { return v.unit == unit && v.micro_batch == micro_batch; });
  return it == vectors_.end() ? nullptr : &*it;
}

void ParameterStore::begin_vectors(Stream& stream, int unit, int micro_batch) {
  if (whole_grads() || std::find(units_.begin(), units_.end(), unit) == units_.end()) return;
  for (auto& v : vectors_)
    if (v.unit == unit) v.current = false;
  const Bucket& b = plan_.bucket_of(unit);
  const std::size_t bytes = size_of(grad_dtype_, vector_elements(b, b.last_param));
  if (bytes == 0) return;
  Vectors* v = vectors_of(-1, -1);
  if (v == nullptr) v = &vectors_.emplace_back();
  if (v->buffer.size() < bytes) {
    stream.synchronize();
    v->buffer = Buffer(device_, bytes);
  }
  v->unit = unit;
  v->micro_batch = micro_batch;
  v->current = true;
  zero_bytes(stream, v->buffer.data(), bytes);
}

void ParameterStore::begin_backward(Stream& stream, int unit, int micro_batch) {
  if (whole_grads() || std::find(units_.begin(), units_.end(), unit) == units_.end()) return;
  MT_CHECK(open_grads_.count(unit) == 0, "unit {} is in backward already", unit);
  const Bucket& b = plan_.bucket_of(unit);
  Open& o = open(stream, open_grads_, unit, grad_dtype_);
  zero_bytes(stream, o.buffer.data(), size_of(grad_dtype_, b.size()));
  Vectors* v = vectors_of(unit, micro_batch);
  if (v == nullptr) return;
  for (int i = b.first_param; i < b.last_param; ++i)
    if (spec(i).shape.size() == 1) ops::cast(stream, {.x = vector_grad(*v, i), .out = grad(i)});
  v->unit = v->micro_batch = -1;
  v->current = false;
}

View ParameterStore::bucket_grads(const Bucket& b) const {
  return whole_grads() ? flat_view(grads_, b.begin, grad_dtype_, b.size())
                       : flat_view(open_grads_.at(b.unit).buffer, 0, grad_dtype_, b.size());
}

// Pieces whose gradient is partial over `axis`, packed into one message.
void ParameterStore::sum_partial(Stream& stream, const Groups& groups, const Bucket& bucket, Axis axis) {
  Communicator& group = axis == Axis::kv ? *groups.kv : *groups.tp;
  if (group.size() == 1) return;
  std::vector<std::pair<View, View>> copies;
  std::int64_t at = 0;
  for (int i = bucket.first_param; i < bucket.last_param; ++i) {
    for (const auto& piece : spec(i).pieces) {
      if (!sums_over(piece, axis)) continue;
      const View g = piece_view(grad(i), piece);
      View packed(partial_.data() + bytes_of(grad_dtype_, at), grad_dtype_, g.shape);
      copies.emplace_back(g, packed);
      at += g.size();
    }
  }
  if (at == 0) return;
  for (auto& [g, packed] : copies) ops::cast(stream, {.x = g, .out = packed});
  group.all_reduce(stream, flat_view(partial_, 0, grad_dtype_, at), Reduce::sum).wait(stream);
  for (auto& [g, packed] : copies) ops::cast(stream, {.x = packed, .out = g});
}

void ParameterStore::end_backward(Stream& stream, const Groups& groups, int unit, bool last) {
  if (whole_grads() && !last) return;
  if (std::find(units_.begin(), units_.end(), unit) == units_.end()) return;  // a row without parameters
  const Bucket& b = plan_.bucket_of(unit);
  if (tied_elsewhere(groups, b)) {
    waiting_.push_back(unit);
    return;
  }
  if (whole_grads() && !overlap_.grad_reduce) {
    ready_.push_back(unit);
    return;
  }
  reduce_bucket(stream, groups, b);
}

bool ParameterStore::tied_elsewhere(const Groups& groups, const Bucket& b) const {
  if (groups.pp->size() == 1) return false;
  for (int i = b.first_param; i < b.last_param; ++i)
    if (spec(i).grad_slots == 2) return true;
  return false;
}

void ParameterStore::sum_tied(Stream& stream, const Groups& groups) {
  const auto& parallel = groups.placement.spec;
  const int last = parallel.pp_rank_of_stage(parallel.pp * parallel.vpp - 1);
  for (int unit : waiting_) {
    const Bucket& b = plan_.bucket_of(unit);
    for (int i = b.first_param; i < b.last_param; ++i) {
      if (spec(i).grad_slots != 2 || last == 0) continue;  // in a V one rank holds both sides
      const int mine = groups.pp->rank() == 0 ? 0 : 1, peer = mine == 0 ? last : 0;
      Handle sent = groups.pp->send(stream, grad(i, mine), peer);
      groups.pp->recv(stream, grad(i, 1 - mine), peer).wait(stream);
      sent.wait(stream);
    }
    reduce_bucket(stream, groups, b);
  }
  waiting_.clear();
}

void ParameterStore::reduce_bucket(Stream& stream, const Groups& groups, const Bucket& b) {
  for (int i = b.first_param; i < b.last_param; ++i)
    if (spec(i).grad_slots == 2) {
      ops::add(stream, {.a = grad(i, 0), .b = grad(i, 1), .out = grad(i, 0)});
      zero_bytes(stream, grad(i, 1).data, grad(i, 1).bytes());
    }
  sum_partial(stream, groups, b, Axis::tp);
  sum_partial(stream, groups, b, Axis::kv);
  Communicator& dp = *groups.dp_cp;
  const View all = bucket_grads(b);
  if (!plan_.spec.sharded()) {
    if (dp.size() > 1) in_flight_.push_back(dp.all_reduce(stream, all, Reduce::sum));
    return;
  }
  const View own = all.rows(plan_.own_begin(b) - b.begin, plan_.own_begin(b) - b.begin + plan_.own_size(b));
  Handle sum = dp.reduce_scatter(stream, all, own, Reduce::sum);
  if (whole_grads()) {
    in_flight_.push_back(std::move(sum));
    return;
  }
  sum.wait(stream);
  const View kept = flat_view(grads_, stored(b), grad_dtype_, plan_.own_size(b));
  ops::add(stream, {.a = kept, .b = own, .out = kept});
  const auto it = open_grads_.find(b.unit);
  spare_.push_back(std::move(it->second.buffer));
  open_grads_.erase(it);
}

void ParameterStore::finish_reduce(Stream& stream, const Groups& groups) {
  for (int unit : ready_) reduce_bucket(stream, groups, plan_.bucket_of(unit));
  ready_.clear();
  for (auto& h : in_flight_) h.wait(stream);
  in_flight_.clear();
  for (auto& [unit, h] : arriving_) h.wait(stream);
  arriving_.clear();
}

void ParameterStore::publish_weights(Stream& stream, const Groups& groups) {
  if (!plan_.spec.sharded() || !whole_weights()) return;
  for (const auto& b : plan_.buckets) {
    Handle gather = groups.dp_cp->all_gather(stream, flat_view(weights_, plan_.own_begin(b), compute_, plan_.own_size(b)),
                                             flat_view(weights_, b.begin, compute_, b.size()));
    if (overlap_.param_gather)
      arriving_[b.unit] = std::move(gather);
    else
      in_flight_.push_back(std::move(gather));
  }
  if (overlap_.param_gather) return;
  for (auto& h : in_flight_) h.wait(stream);
  in_flight_.clear();
}

}  // namespace mt
