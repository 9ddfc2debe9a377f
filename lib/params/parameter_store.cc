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
  std::int64_t second = 0;
  for (std::size_t i = 0; i < plan_.buckets.size(); ++i) {
    const int unit = bucket(i).unit;
    if (units_.empty() || units_.back() != unit) units_.push_back(unit);
    const ParamSpec& first = spec(bucket(i).first_param);
    auto& own = written_by_[unit];
    if (!first.tie_copy) own.push_back({i, 0});
    if (tied(bucket(i))) written_by_[first.output_unit].push_back({i, 1});
  }
  for (int p = 0; p < num_params(); ++p) {
    const bool has = spec(p).grad_slots == 2;
    second_slot_.push_back(has ? second : -1);
    if (!has) continue;
    second += whole_grads() ? (spec(p).elements() + 63) / 64 * 64 : plan_.bucket_of_param(p).own_size();
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
  const auto it = open_weights_.find(plan_.bucket[static_cast<std::size_t>(param)]);
  MT_CHECK(it != open_weights_.end(), "weights of unit {} are not gathered ({})", s.unit, s.name);
  return shaped(flat_view(buckets_.at(it->second.place), at - plan_.bucket_of_param(param).begin, compute_, s.elements()), s.shape);
}

View ParameterStore::grad(int param, int slot) const {
  const auto& s = spec(param);
  const auto i = static_cast<std::size_t>(param);
  MT_CHECK(slot < s.grad_slots && grads_.size() > 0, "slot {} of {}", slot, s.name);
  if (whole_grads())
    return shaped(slot == 1 ? flat_view(second_slots_, second_slot_[i], grad_dtype_, s.elements())
                            : flat_view(grads_, plan_.offset[i], grad_dtype_, s.elements()),
                  s.shape);
  const auto it = open_grads_.find({plan_.bucket[i], slot});
  if (it == open_grads_.end())
    for (const auto& v : vectors_)
      if (v.unit == s.unit && v.current) return vector_grad(v, param);
  MT_CHECK(it != open_grads_.end(), "unit {} is not in backward ({})", s.unit, s.name);
  return shaped(flat_view(buckets_.at(it->second.place), plan_.offset[i] - plan_.bucket_of_param(param).begin, grad_dtype_,
                          s.elements()),
                s.shape);
}

View ParameterStore::shard_weight(std::size_t shard) const {
  const OwnedRange& s = plan_.shards[shard];
  const std::int64_t at = plan_.offset[static_cast<std::size_t>(s.param)] + s.begin;
  const Bucket& b = plan_.bucket_of_param(s.param);
  return flat_view(weights_, whole_weights() ? at : stored(b) + at - b.own_begin(), compute_, s.size());
}

View ParameterStore::shard_grad(std::size_t shard) const {
  const OwnedRange& s = plan_.shards[shard];
  const std::int64_t at = plan_.offset[static_cast<std::size_t>(s.param)] + s.begin;
  const Bucket& b = plan_.bucket_of_param(s.param);
  return flat_view(grads_, whole_grads() ? at : stored(b) + at - b.own_begin(), grad_dtype_, s.size());
}

// What is queued may still read a place that grows; an accelerator keeps its memory until then.
int ParameterStore::take(Stream& stream, Pool& pool, std::size_t bytes) const {
  const int place = pool.places.take(static_cast<std::int64_t>(bytes));
  pool.memory.resize(static_cast<std::size_t>(pool.places.size()));
  Buffer& b = pool.memory[static_cast<std::size_t>(place)];
  if (b.size() >= bytes) return place;
  if (b.size() > 0 && device_.kind == DeviceKind::cpu) stream.synchronize();
  b = Buffer();
  b = Buffer(device_, bytes);
  return place;
}

void ParameterStore::gather(Stream& stream, const Groups& groups, int unit) {
  if (whole_weights()) return;
  const auto [first, last] = plan_.buckets_of_unit(unit);
  for (std::size_t i = first; i < last; ++i) {
    Open& o = open_weights_[i];
    if (o.users++ > 0) continue;
    const Bucket& b = bucket(i);
    o.place = take(stream, buckets_, size_of(compute_, b.size()));
    o.arriving = groups.shards().all_gather(stream, flat_view(weights_, stored(b), compute_, b.own_size()),
                                          flat_view(buckets_.at(o.place), 0, compute_, b.size()));
  }
}

void ParameterStore::await_gather(Stream& stream, int unit) {
  const auto [first, last] = plan_.buckets_of_unit(unit);
  for (std::size_t i = first; i < last; ++i) {
    if (const auto it = arriving_.find(i); it != arriving_.end()) {
      it->second.wait(stream);
      arriving_.erase(it);
    }
    if (whole_weights()) continue;
    Open& o = open_weights_.at(i);
    o.arriving.wait(stream);
    o.arriving = Handle();
  }
}

void ParameterStore::release(int unit) {
  if (whole_weights()) return;
  const auto [first, last] = plan_.buckets_of_unit(unit);
  for (std::size_t i = first; i < last; ++i) {
    const auto it = open_weights_.find(i);
    MT_CHECK(it != open_weights_.end(), "unit {} is released more often than gathered", unit);
    if (--it->second.users > 0) continue;
    buckets_.places.give_back(it->second.place);
    open_weights_.erase(it);
  }
}

void ParameterStore::zero_grads(Stream& stream) {
  zero_bytes(stream, grads_.data(), grads_.size());
  zero_bytes(stream, second_slots_.data(), second_slots_.size());
}

std::pair<int, int> ParameterStore::params_of(int unit) const {
  const auto [first, last] = plan_.buckets_of_unit(unit);
  return {bucket(first).first_param, bucket(last - 1).last_param};
}

std::int64_t ParameterStore::vector_elements(int unit, int before) const {
  std::int64_t n = 0;
  for (int i = params_of(unit).first; i < before; ++i)
    if (spec(i).shape.size() == 1) n += (spec(i).elements() + 63) / 64 * 64;
  return n;
}

View ParameterStore::vector_grad(const Vectors& v, int param) const {
  const auto& s = spec(param);
  MT_CHECK(s.shape.size() == 1, "{} has its gradient before its weight gradients begin", s.name);
  return flat_view(vector_pool_.at(v.place), vector_elements(s.unit, param), grad_dtype_, s.elements());
}

void ParameterStore::begin_vectors(Stream& stream, int unit, int micro_batch) {
  if (whole_grads() || !has_parameters(unit)) return;
  for (auto& v : vectors_)
    if (v.unit == unit) v.current = false;
  const std::size_t bytes = size_of(grad_dtype_, vector_elements(unit, params_of(unit).second));
  if (bytes == 0) return;
  const int place = take(stream, vector_pool_, bytes);
  vectors_.push_back({unit, micro_batch, true, place});
  zero_bytes(stream, vector_pool_.at(place).data(), bytes);
}

void ParameterStore::begin_backward(Stream& stream, int unit, int micro_batch) {
  if (whole_grads() || !has_parameters(unit)) return;
  for (const auto& place : written_by_.at(unit)) {
    MT_CHECK(open_grads_.count(place) == 0, "unit {} is in backward already", unit);
    const std::size_t bytes = size_of(grad_dtype_, bucket(place.bucket).size());
    Open& o = open_grads_[place];
    o.place = take(stream, buckets_, bytes);
    zero_bytes(stream, buckets_.at(o.place).data(), bytes);
  }
  const auto v = std::find_if(vectors_.begin(), vectors_.end(),
                              [&](const Vectors& x) { return x.unit == unit && x.micro_batch == micro_batch; });
  if (v == vectors_.end()) return;
  const auto [first, last] = params_of(unit);
  for (int i = first; i < last; ++i)
    if (spec(i).shape.size() == 1) ops::cast(stream, {.x = vector_grad(*v, i), .out = grad(i)});
  vector_pool_.places.give_back(v->place);
  vectors_.erase(v);
}

View ParameterStore::bucket_grads(std::size_t i, int slot) const {
  const Bucket& b = bucket(i);
  return whole_grads() ? flat_view(grads_, b.begin, grad_dtype_, b.size())
                       : flat_view(buckets_.at(open_grads_.at({i, slot}).place), 0, grad_dtype_, b.size());
}

View ParameterStore::own_part(const Bucket& b, View whole) const {
  const std::int64_t at = b.own_begin() - b.begin;
  return whole.rows(at, at + b.own_size());
}

View ParameterStore::kept_part(const Bucket& b, int slot) const {
  const auto first = static_cast<std::size_t>(b.first_param);
  return slot == 1 ? flat_view(second_slots_, second_slot_[first], grad_dtype_, b.own_size())
                   : flat_view(grads_, stored(b), grad_dtype_, b.own_size());
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
  if (!has_parameters(unit)) return;  // a row without
  if (!whole_grads()) {
    for (const auto& place : written_by_.at(unit)) {
      reduce_and_close(stream, groups, place);
      const Bucket& b = bucket(place.bucket);
      if (last && groups.inter && !tied(b))
        in_flight_.push_back(groups.inter->all_reduce(stream, kept_part(b, 0), Reduce::sum));
    }
    return;
  }
  if (!last) return;
  const auto [first, end] = plan_.buckets_of_unit(unit);
  for (std::size_t i = first; i < end; ++i) {
    if (tied_elsewhere(groups, bucket(i)))
      waiting_.push_back(i);
    else if (!overlap_.grad_reduce)
      ready_.push_back(i);
    else
      reduce_bucket(stream, groups, i);
  }
}

// On this rank or another: in a V, of the same rank but other chunks, whose last backwards are in any order.
bool ParameterStore::tied_elsewhere(const Groups& groups, const Bucket& b) const {
  return groups.pp->size() > 1 && tied(b);
}

void ParameterStore::exchange_slots(Stream& stream, const Groups& groups, View slot0, View slot1) {
  const auto& parallel = groups.placement.spec;
  const int last = parallel.pp_rank_of_stage(parallel.pp * parallel.vpp - 1);
  if (last == 0) return;  // in a V one rank holds both sides
  const bool first = groups.pp->rank() == 0;
  Handle sent = groups.pp->send(stream, first ? slot0 : slot1, first ? last : 0);
  groups.pp->recv(stream, first ? slot1 : slot0, first ? last : 0).wait(stream);
  sent.wait(stream);
}

void ParameterStore::sum_tied(Stream& stream, const Groups& groups) {
  if (!whole_grads())
    for (const auto& b : plan_.buckets)
      if (tied_elsewhere(groups, b)) exchange_slots(stream, groups, kept_part(b, 0), kept_part(b, 1));
  for (std::size_t i : waiting_) {
    const int param = bucket(i).first_param;
    exchange_slots(stream, groups, grad(param, 0), grad(param, 1));
    reduce_bucket(stream, groups, i);
  }
  waiting_.clear();
}

// Stages 0 and 1.
void ParameterStore::reduce_bucket(Stream& stream, const Groups& groups, std::size_t i) {
  const Bucket& b = bucket(i);
  if (tied(b)) {
    const View first = grad(b.first_param, 0), second = grad(b.first_param, 1);
    ops::add(stream, {.a = first, .b = second, .out = first});
    zero_bytes(stream, second.data, second.bytes());
  }
  sum_partial(stream, groups, b, Axis::tp);
  sum_partial(stream, groups, b, Axis::kv);
  const View all = bucket_grads(i, 0);
  if (!plan_.spec.sharded()) {
    if (groups.dp_cp->size() > 1) in_flight_.push_back(groups.dp_cp->all_reduce(stream, all, Reduce::sum));
    return;
  }
  const View own = own_part(b, all);
  Handle sum = groups.shards().reduce_scatter(stream, all, own, Reduce::sum);
  if (!groups.inter) return in_flight_.push_back(std::move(sum));
  go_across(stream, groups);
  scattering_ = std::move(sum);
  scattered_ = own;
}

// One behind: the bucket before goes across while this one is summed inside, in the same order on every rank.
void ParameterStore::go_across(Stream& stream, const Groups& groups) {
  if (!scattered_) return;
  scattering_.wait(stream);
  scattering_ = Handle();
  in_flight_.push_back(groups.inter->all_reduce(stream, scattered_, Reduce::sum));
  scattered_ = View();
}

// Stages 2 and 3: this micro-batch's gradients are summed, and added to those of the micro-batches before.
void ParameterStore::reduce_and_close(Stream& stream, const Groups& groups, const GradPlace& place) {
  const Bucket& b = bucket(place.bucket);
  if (!tied(b)) {  // the parts of a vocabulary are partial nowhere
    sum_partial(stream, groups, b, Axis::tp);
    sum_partial(stream, groups, b, Axis::kv);
  }
  const View all = bucket_grads(place.bucket, place.slot), own = own_part(b, all), kept = kept_part(b, place.slot);
  groups.shards().reduce_scatter(stream, all, own, Reduce::sum).wait(stream);
  ops::add(stream, {.a = kept, .b = own, .out = kept});
  const auto it = open_grads_.find(place);
  buckets_.places.give_back(it->second.place);
  open_grads_.erase(it);
}

void ParameterStore::finish_reduce(Stream& stream, const Groups& groups) {
  for (std::size_t i : ready_) reduce_bucket(stream, groups, i);
  ready_.clear();
  go_across(stream, groups);
  for (auto& h : in_flight_) h.wait(stream);
  in_flight_.clear();
  await_gathers(stream);
  if (whole_grads()) return;
  for (const auto& b : plan_.buckets) {
    if (!tied(b)) continue;
    const View first = kept_part(b, 0), second = kept_part(b, 1);
    ops::add(stream, {.a = first, .b = second, .out = first});
    zero_bytes(stream, second.data, second.bytes());
    if (groups.inter) groups.inter->all_reduce(stream, first, Reduce::sum).wait(stream);
  }
}

void ParameterStore::await_gathers(Stream& stream) {
  for (auto& [i, h] : arriving_) h.wait(stream);
  arriving_.clear();
}

void ParameterStore::publish_weights(Stream& stream, const Groups& groups) {
  if (!plan_.spec.sharded() || !whole_weights()) return;
  for (std::size_t i = 0; i < plan_.buckets.size(); ++i) {
    const Bucket& b = bucket(i);
    Handle gather = groups.shards().all_gather(stream, flat_view(weights_, b.own_begin(), compute_, b.own_size()),
                                             flat_view(weights_, b.begin, compute_, b.size()));
    if (overlap_.param_gather)
      arriving_[i] = std::move(gather);
    else
      in_flight_.push_back(std::move(gather));
  }
  if (overlap_.param_gather) return;
  for (auto& h : in_flight_) h.wait(stream);
  in_flight_.clear();
}

}  // namespace mt
