#include <algorithm>

#include "base/error.h"
#include "device/host_side.h"
#include "engine/executor.h"
#include "ops/arithmetic.h"

namespace mt {

// The chunk's layers over x; the residual stream after them, which lives in scratch_. Sets ctx.last_logits or
// ctx.token_loss at the head.
View Executor::run_forward_only(Ctx& ctx, int chunk, View x, std::int64_t tokens) {
  const View residual[2] = {stream_view(scratch_, tokens), stream_view(scratch_, tokens)};
  const auto& layers = model(chunk).layers();
  int turn = 0;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    need(chunk, i, static_cast<std::ptrdiff_t>(i) + 1);
    ArenaScope scope(scratch_);
    Saved saved = allocate_saved(scratch_, scratch_, layers[i], x);
    Flow flow;
    flow.x = x;
    flow.y = residual[turn];
    flow.saved = &saved;
    run(layers[i].forward, ctx, flow);
    x = flow.y;
    turn = 1 - turn;
    done(chunk, i);
  }
  return x;
}

std::vector<float> Executor::score(const HostBatch& batch) {
  ArenaScope scope(scratch_);
  const Tokens tokens = upload(parts_.stream, scratch_, batch, 1.0);
  Ctx ctx = context(tokens, Mode::evaluate);
  const auto& parallel = parts_.groups.placement.spec;
  const int rank = parts_.groups.pp->rank();
  auto& channel = *parts_.groups.channels[0];
  std::vector<float> loss;
  View y;
  for (int c = 0; c < static_cast<int>(chunks_.size()); ++c) {
    const auto& content = model(c).content();
    const int stage = parallel.stage(rank, c);
    View x;
    if (fed_by(c) >= 0) {
      x = y;
    } else if (!content.embedding) {
      x = stream_view(scratch_, tokens.count());
      channel.recv(parts_.stream, x, parallel.pp_rank_of_stage(stage - 1)).wait(parts_.stream);
    }
    if (content.head) ctx.token_loss = allocate(scratch_, DType::f32, {tokens.count()});
    y = run_forward_only(ctx, c, x, tokens.count());
    if (!content.head) {
      if (const int next = parallel.pp_rank_of_stage(stage + 1); next != rank)
        channel.send(parts_.stream, y, next).wait(parts_.stream);
      continue;
    }
    HostSide side(parts_.stream, ctx.token_loss.data, ctx.token_loss.bytes());
    side.fetch();
    loss.assign(side.as<float>(), side.as<float>() + tokens.count());
  }
  parts_.stream.synchronize();
  return loss;
}

std::vector<float> Executor::next_logits(const HostBatch& batch, std::vector<KvCache>& caches) {
  MT_CHECK(parts_.groups.pp->size() == 1, "generation over {} pipeline ranks", parts_.groups.pp->size());
  ArenaScope scope(scratch_);
  const Tokens tokens = upload(parts_.stream, scratch_, batch, 1.0);
  Ctx ctx = context(tokens, Mode::generate);
  ctx.caches = &caches;
  run_forward_only(ctx, 0, View(), tokens.count());
  // The layer's scratch is free again but nothing was launched since: the last row is still there.
  const View logits = ctx.last_logits;
  auto& tp = *parts_.groups.tp;
  const std::int64_t local = logits.dim(1);
  const View last = allocate(losses_, DType::f32, {local}), all = allocate(losses_, DType::f32, {local * tp.size()});
  ops::cast(parts_.stream, {.x = logits.rows(tokens.count() - 1, tokens.count()).reshape({local}), .out = last});
  tp.all_gather(parts_.stream, last, all).wait(parts_.stream);
  HostSide side(parts_.stream, all.data, all.bytes());
  side.fetch();
  std::vector<float> out(side.as<float>(), side.as<float>() + chunks_[0]->spec().vocab_size);
  losses_.reset();
  return out;
}

std::vector<KvCache> Executor::make_caches(Arena& arena, std::int64_t capacity) const {
  const ModelSpec& spec = chunks_[0]->spec();
  std::vector<KvCache> caches(static_cast<std::size_t>(num_units(spec)));
  const auto& rows = spec.decoder().rows;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].kind != RowKind::attention) continue;
    const auto& a = rows[i].attention;
    const std::int64_t heads = std::max(1, a.kv_heads / parts_.groups.tp->size());
    for (View KvCache::* which : {&KvCache::k, &KvCache::v})
      caches[i + 1].*which = allocate(arena, parts_.params.compute_dtype(), {capacity, heads, a.head_dim});
  }
  return caches;
}

}  // namespace mt
