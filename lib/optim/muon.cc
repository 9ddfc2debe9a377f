#include "optim/muon.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "ops/arithmetic.h"

namespace mt {

namespace {

// Where the flat elements [begin, end) of a matrix lie in a rank's shards; begin == end: nowhere.
struct Held {
  std::size_t shard = 0;
  std::int64_t begin = 0, end = 0;  // of the parameter
};

Held held_of(const ShardPlan& plan, const MuonMatrix& m) {
  for (std::size_t i = 0; i < plan.shards.size(); ++i) {
    const OwnedRange& s = plan.shards[i];
    if (s.param != m.param) continue;
    const Held o{i, std::max(s.begin, m.begin), std::min(s.end, m.end)};
    if (o.begin < o.end) return o;
  }
  return {};
}

// The piece as another tensor-parallel rank holds it.
Piece piece_of(Piece piece, int tp_rank) {
  for (std::size_t d = 0; d < piece.shape.size(); ++d)
    if (piece.box.extent[d] != piece.shape[d]) piece.box.offset[d] = tp_rank / piece.tp_replicas * piece.box.extent[d];
  return piece;
}

std::int64_t sum(const std::vector<std::int64_t>& v) {
  std::int64_t n = 0;
  for (const auto x : v) n += x;
  return n;
}

// World ranks that hold parts of this rank's matrices, tensor-parallel ones first.
std::vector<int> ranks_of(const Groups& groups, const MuonSharing& sharing) {
  std::vector<int> out;
  for (int d = 0; d < sharing.shards; ++d) {
    const int world_rank = sharing.shards > 1 ? groups.shards().world_ranks()[static_cast<std::size_t>(d)]
                                              : groups.world->world_ranks()[static_cast<std::size_t>(groups.world->rank())];
    Coordinate at = groups.placement.coordinates[static_cast<std::size_t>(world_rank)];
    for (int t = 0; t < sharing.ranks() / sharing.shards; ++t) {
      if (sharing.whole) at.tp = t;
      out.push_back(groups.placement.rank_of(at));
    }
  }
  return out;
}

}  // namespace

double muon_scale(const MuonOptions& o, std::int64_t rows, std::int64_t cols) {
  const auto r = static_cast<double>(rows), c = static_cast<double>(cols);
  double scale = std::sqrt(std::max(r, c));
  if (o.scale == MuonOptions::Scale::unit_rms_norm) scale = std::sqrt(r / c);
  if (o.scale == MuonOptions::Scale::shape_scaling) scale = std::sqrt(std::max(1.0, r / c));
  return scale * o.extra_scale;
}

Muon::Muon(const ParameterStore& store, const Groups& groups, const MuonOptions& options, Device device)
    : store_(store), options_(options) {
  const ShardSpec& spec = store.plan().spec;
  sharing_ = {!options.blockwise, options.split_qkv, groups.placement.spec.tp, spec.sharded() ? spec.ranks : 1};
  matrices_ = muon_matrices(store.specs(), sharing_);
  if (sharing_.ranks() > 1) group_ = groups.world->make_group(ranks_of(groups, sharing_), "muon");
  find_parts();
  find_owned();
  const int rank = group_ ? group_->rank() : 0;
  const std::int64_t mine = sum(sent_rows_);
  buffer_ = Tensor(device, DType::f32, {muon_buffer_elements(matrices_, sharing_, rank, mine)});
  std::int64_t at = 0;
  const auto take = [&](std::int64_t n) {
    const View v = buffer_.view().rows(at, at + n);
    at += (n + 15) / 16 * 16;
    return v;
  };
  if (group_) {
    sent_ = take(mine);
    gathered_ = take(sum(gathered_rows_));
  }
  std::int64_t largest = 0;
  for (const auto& o : owned_) largest = std::max(largest, matrices_[o.matrix].size());
  matrix_ = take(largest);
  scratch_ = buffer_.view().rows(at, buffer_.view().size());
}

void Muon::find_parts() {
  sent_rows_.assign(static_cast<std::size_t>(sharing_.ranks()), 0);
  std::int64_t at = 0;
  for (int owner = 0; owner < sharing_.ranks(); ++owner)
    for (std::size_t i = 0; i < matrices_.size(); ++i) {
      if (matrices_[i].owner != owner) continue;
      const Held o = held_of(store_.plan(), matrices_[i]);
      if (o.begin == o.end) continue;
      const std::int64_t shard_begin = store_.plan().shards[o.shard].begin;
      parts_.push_back({i, o.shard, o.begin - shard_begin, o.end - shard_begin, at});
      at += o.end - o.begin;
      sent_rows_[static_cast<std::size_t>(owner)] += o.end - o.begin;
    }
}

void Muon::find_owned() {
  const int rank = group_ ? group_->rank() : 0, across = sharing_.ranks() / sharing_.shards;
  for (std::size_t i = 0; i < matrices_.size(); ++i)
    if (matrices_[i].owner == rank) owned_.push_back({i, {}});
  std::int64_t at = 0;
  for (int source = 0; source < sharing_.ranks(); ++source) {
    ShardSpec spec = store_.plan().spec;
    spec.rank = source / across;
    const ShardPlan plan = plan_shards(store_.specs(), spec);
    const std::int64_t before = at;
    for (auto& owned : owned_) {
      const MuonMatrix& m = matrices_[owned.matrix];
      const Held o = held_of(plan, m);
      const ParamSpec& param = store_.spec(m.param);
      std::int64_t first_row = 0;
      for (int k = m.first_piece; k < m.last_piece; ++k) {
        const Piece& mine = param.pieces[static_cast<std::size_t>(k)];
        const bool whole = sharing_.whole;
        const Piece piece = whole ? piece_of(mine, source % across) : mine;
        const std::int64_t row0 = whole ? 0 : piece.box.offset[0], col0 = whole ? 0 : piece.box.offset[1];
        for (const auto& part : boxes_in_range(param, piece, o.begin, o.end))
          owned.boxes.push_back({at + part.at - o.begin, part.box.extent[0], part.box.extent[1],
                                 first_row + part.box.offset[0] - row0, part.box.offset[1] - col0,
                                 !whole || source % across % piece.tp_replicas == 0});
        first_row += whole ? piece.shape[0] : piece.box.extent[0];
      }
      at += o.end - o.begin;
    }
    gathered_rows_.push_back(at - before);
  }
}

View Muon::momentum_of(Stream& stream, const Part& part, const std::vector<Shard>& shards, View out,
                       const ops::AdamwScalars* scalars) const {
  ops::muon_momentum(stream, {.momentum = shards[part.shard].momentum.rows(part.begin, part.end),
                              .grad = store_.shard_grad(part.shard).rows(part.begin, part.end),
                              .out = out,
                              .scalars = scalars,
                              .momentum_factor = static_cast<float>(options_.momentum),
                              .nesterov = options_.nesterov});
  return out;
}

void Muon::apply(Stream& stream, const Part& part, const Shard& shard, View update,
                 const ops::AdamwScalars* plain) const {
  // Without momentum SGD's decay, added to the gradient, is the decoupled one.
  ops::sgd(stream, {.master = shard.master.rows(part.begin, part.end),
                    .grad = update,
                    .model = shard.model ? shard.model.rows(part.begin, part.end) : View(),
                    .scalars = plain,
                    .weight_decay = shard.weight_decay});
}

void Muon::orthogonalize(Stream& stream, const MuonMatrix& m) {
  newton_schulz(stream, matrix_.rows(0, m.size()).reshape({m.rows, m.cols}), scratch_, options_.iteration,
                static_cast<float>(muon_scale(options_, m.rows, m.cols)));
}

void Muon::update(Stream& stream, const std::vector<Shard>& shards, const ops::AdamwScalars* scalars,
                  const ops::AdamwScalars* plain) {
  if (!group_) {
    for (const Part& part : parts_) {
      const MuonMatrix& m = matrices_[part.matrix];
      const View u = momentum_of(stream, part, shards, matrix_.rows(0, m.size()), scalars);
      orthogonalize(stream, m);
      apply(stream, part, shards[part.shard], u, plain);
    }
    return;
  }
  for (const Part& part : parts_)
    momentum_of(stream, part, shards, sent_.rows(part.at, part.at + part.end - part.begin), scalars);
  group_->all_to_all_v(stream, sent_, sent_rows_, gathered_, gathered_rows_).wait(stream);
  for (const Owned& owned : owned_) {
    const MuonMatrix& m = matrices_[owned.matrix];
    const View whole = matrix_.rows(0, m.size()).reshape({m.rows, m.cols});
    const auto in_matrix = [&](const Placed& b) {
      return whole.slice(0, b.row, b.row + b.rows).slice(1, b.col, b.col + b.cols);
    };
    const auto in_gathered = [&](const Placed& b) {
      return gathered_.rows(b.at, b.at + b.rows * b.cols).reshape({b.rows, b.cols});
    };
    for (const Placed& b : owned.boxes)
      if (b.counts) ops::cast(stream, {.x = in_gathered(b), .out = in_matrix(b)});
    orthogonalize(stream, m);
    for (const Placed& b : owned.boxes) ops::cast(stream, {.x = in_matrix(b), .out = in_gathered(b)});
  }
  group_->all_to_all_v(stream, gathered_, gathered_rows_, sent_, sent_rows_).wait(stream);
  for (const Part& part : parts_)
    apply(stream, part, shards[part.shard], sent_.rows(part.at, part.at + part.end - part.begin), plain);
}

}  // namespace mt
