#include "optim/moment_scales.h"

#include "ops/arithmetic.h"

namespace mt {

namespace {

constexpr int kNow = 0, kNext = 1, kLargest = 2;
constexpr const char* kKinds[] = {"exp_avg", "exp_avg_sq"};

// World ranks of this rank's pipeline stage.
std::vector<int> ranks_of_stage(const Groups& groups) {
  std::vector<int> out;
  const auto& all = groups.placement.coordinates;
  for (std::size_t r = 0; r < all.size(); ++r)
    if (all[r].pp == groups.coordinate.pp) out.push_back(static_cast<int>(r));
  return out;
}

}  // namespace

MomentScales::MomentScales(const ParameterStore& store, const StateSpec& spec, Device device)
    : store_(store), dtypes_{spec.exp_avg, spec.exp_avg_sq} {
  for (const auto& s : store.specs()) {
    first_.push_back(slots_ / 2);
    slots_ += 2 * static_cast<std::int64_t>(s.pieces.size());
  }
  values_ = Tensor(device, DType::f32, {3, slots_});
  Stream stream(device);
  reset(stream);
}

std::int64_t MomentScales::slot(int param, std::size_t piece, int moment) const {
  return 2 * (first_[static_cast<std::size_t>(param)] + static_cast<std::int64_t>(piece)) + moment;
}

float* MomentScales::at(int row, std::int64_t slot) const { return values_.view().as<float>() + row * slots_ + slot; }

float* MomentScales::largest(int param, std::size_t piece, int moment) const {
  return is_scaled(dtypes_[moment]) ? at(kLargest, slot(param, piece, moment)) : nullptr;
}

ops::MomentScale MomentScales::scale(int param, std::size_t piece, int moment) const {
  if (!is_scaled(dtypes_[moment])) return {};
  const std::int64_t s = slot(param, piece, moment);
  return {at(kNow, s), at(kNext, s)};
}

void MomentScales::reset(Stream& stream) { ops::fill(stream, values_.view(), 1); }

void MomentScales::begin_step(Stream& stream) { ops::fill(stream, values_.view().rows(kLargest, kLargest + 1), 0); }

void MomentScales::agree(Stream& stream, const Groups& groups) {
  if (!group_) group_ = groups.world->make_group(ranks_of_stage(groups), "moments");
  const View largest = values_.view().rows(kLargest, kLargest + 1).reshape({slots_});
  if (group_->size() > 1) group_->all_reduce(stream, largest, Reduce::max).wait(stream);
  const View next = values_.view().rows(kNext, kNext + 1).reshape({slots_});
  ops::moment_scales(stream, {.largest = largest, .next = next, .dtype = {dtypes_[0], dtypes_[1]}});
}

void MomentScales::end_step(Stream& stream) {
  copy_bytes(stream, at(kNow, 0), at(kNext, 0), static_cast<std::size_t>(bytes_of(DType::f32, slots_)));
}

std::vector<MomentScales::Stored> MomentScales::stored() const {
  std::vector<Stored> out;
  for (int p = 0; p < store_.num_params(); ++p) {
    const auto& spec = store_.spec(p);
    for (std::size_t i = 0; i < spec.pieces.size(); ++i)
      for (int moment : {0, 1})
        if (is_scaled(dtypes_[moment]))
          out.push_back({spec.pieces[i].name, scale_kind(kKinds[moment]), at(kNow, slot(p, i, moment)), spec.tie_copy});
  }
  return out;
}

}  // namespace mt
