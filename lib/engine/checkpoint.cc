#include "engine/checkpoint.h"

#include <functional>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "ckpt/store.h"

namespace mt {

namespace {

constexpr std::int64_t kWholeBytes = 64 << 10;  // smaller boxes are not worth cutting

// The part of a piece's box this rank writes; may be empty.
Box written_part(const Piece& piece, const Replica& r, DType dtype) {
  if (r.count == 1) return piece.box;
  if (bytes_of(dtype, piece.box.size()) >= kWholeBytes) return part_of(piece.box, r.count, r.index);
  const auto writer = static_cast<int>(xxh3(piece.name) % static_cast<std::uint64_t>(r.count));
  if (writer == r.index) return piece.box;
  Box none = piece.box;
  if (!none.extent.empty()) none.extent[0] = 0;
  return none;
}

struct KindRow {
  const char* kind;
  DType dtype;
};

std::vector<KindRow> kinds_of(DType compute) {
  std::vector<KindRow> k{{"weight", compute}};
  if (compute != DType::f32) k.push_back({"master", DType::f32});
  k.push_back({"exp_avg", DType::f32});
  k.push_back({"exp_avg_sq", DType::f32});
  return k;
}

struct Owned {
  TensorBox what;
  int param;
  const Piece* piece;
};

std::vector<Owned> owned_boxes(const std::vector<ParamSpec>& specs, const ModelSpec& model,
                               const ParallelSpec& parallel, const Coordinate& at, DType compute) {
  std::vector<Owned> out;
  for (std::size_t i = 0; i < specs.size(); ++i)
    for (const auto& piece : specs[i].pieces)
      for (const auto& [kind, dtype] : kinds_of(compute)) {
        const Box part = written_part(piece, replica_of(piece, model, parallel, at), dtype);
        if (!part.empty()) out.push_back({{piece.name, kind, dtype, piece.shape, part}, static_cast<int>(i), &piece});
      }
  return out;
}

View state_of(const ParameterStore& store, const Optimizer& optimizer, int param, const std::string& kind) {
  if (kind == "weight") return store.weight(param);
  if (kind == "master") return optimizer.master(param);
  return kind == "exp_avg" ? optimizer.exp_avg(param) : optimizer.exp_avg_sq(param);
}

// Where the first element of `part` lies in the piece's view (rows of a piece are contiguous).
std::byte* address(const View& parameter, const Piece& piece, const Box& part) {
  const View v = piece_view(parameter, piece);
  MT_CHECK(v.contiguous(), "piece {} is not contiguous", piece.name);
  std::int64_t first = -1;
  for_each_run(piece.box, part, [&](std::int64_t outer, std::int64_t, std::int64_t) {
    if (first < 0) first = outer;
  });
  return static_cast<std::byte*>(v.data) + bytes_of(v.dtype, first);
}

// One request a piece and kind; `where` gives the destination, or an empty view when only checking.
std::vector<TensorRequest> requests(const Reader& reader, const std::vector<ParamSpec>& specs,
                                    const std::vector<KindRow>& kinds,
                                    const std::function<View(int, const std::string&)>& where) {
  std::vector<TensorRequest> out;
  for (std::size_t i = 0; i < specs.size(); ++i)
    for (const auto& piece : specs[i].pieces) {
      if (piece.box.empty()) continue;
      for (const auto& [kind, dtype] : kinds) {
        const bool from_weight = std::string(kind) == "master" && !reader.manifest().find(piece.name, "master");
        const std::string stored = from_weight ? "weight" : kind;
        TensorRequest r{{piece.name, stored, dtype, piece.shape, piece.box}, nullptr, 0, stored == "weight" || from_weight};
        if (const View v = where(static_cast<int>(i), kind); v) r.out = address(v, piece, piece.box);
        out.push_back(std::move(r));
      }
    }
  return out;
}

std::vector<KindRow> load_kinds(LoadWhat what) {
  std::vector<KindRow> k{{"master", DType::f32}};
  if (what == LoadWhat::everything) {
    k.push_back({"exp_avg", DType::f32});
    k.push_back({"exp_avg_sq", DType::f32});
  }
  return k;
}

void require_same_tensors(const Reader& reader, const ModelSpec& model) {
  std::set<std::string> wanted;
  for (const auto& t : logical_tensors(model)) wanted.insert(t.name);
  for (const auto& t : reader.manifest().tensors)
    if (t.kind == "weight" && wanted.count(t.name) == 0)
      throw Error(Code::config, fmt::format("the checkpoint holds {} {}, which this model does not have", t.name,
                                            dims_text(t.shape)),
                  reader.dir().string(), "compare the model flags with `mt-ckpt info`");
}

}  // namespace

std::vector<TensorBox> boxes_to_write(const ModelSpec& model, const ParallelSpec& parallel, const Coordinate& coordinate,
                                      DType compute) {
  const auto specs = param_specs(model, parallel, coordinate);
  std::vector<TensorBox> out;
  for (auto& o : owned_boxes(specs, model, parallel, coordinate, compute)) out.push_back(std::move(o.what));
  return out;
}

void check_loadable(const Reader& reader, const ModelSpec& model, const std::vector<ParamSpec>& specs,
                    LoadWhat what) {
  require_same_tensors(reader, model);
  reader.check(requests(reader, specs, load_kinds(what), [](int, const std::string&) { return View(); }));
}

void load_training(const Reader& reader, Stream& stream, ParameterStore& store, Optimizer& optimizer, LoadWhat what) {
  stream.synchronize();
  reader.read(requests(reader, store.specs(), load_kinds(what),
                       [&](int p, const std::string& kind) { return state_of(store, optimizer, p, kind); }));
  optimizer.publish(stream);
}

void load_weights(const Reader& reader, Stream& stream, ParameterStore& store) {
  stream.synchronize();
  reader.read(requests(reader, store.specs(), {{"weight", store.compute_dtype()}},
                       [&](int p, const std::string&) { return store.weight(p); }));
}

bool any_rank(Stream& stream, Communicator& group, bool mine) {
  std::int64_t flag = mine ? 1 : 0;
  group.all_reduce(stream, View(&flag, DType::i64, {1}), Reduce::max).wait_host();
  return flag != 0;
}

namespace {

// Run one part of a save on this rank; if it failed anywhere, undo and throw everywhere.
void together(const std::filesystem::path& root, std::int64_t iteration, Stream& stream, Communicator& world,
              const std::function<void()>& act) {
  std::optional<Error> mine;
  try {
    act();
  } catch (const Error& e) {
    mine = e;
  } catch (const std::exception& e) {  // memory, std::filesystem: the other ranks must not wait for this one
    mine = Error(Code::io, e.what(), root.string());
  }
  if (!any_rank(stream, world, mine.has_value())) return;
  if (world.rank() == 0) abort_save(root, iteration);
  if (mine) throw *mine;
  throw Error(Code::io, fmt::format("the save of iteration {} failed on another rank", iteration), root.string(),
              "its message is above; the previous checkpoint is untouched");
}

}  // namespace

std::uint64_t save_training(const std::filesystem::path& root, const CheckpointMeta& meta, const ModelSpec& model,
                            Stream& stream, const Groups& groups, const ParameterStore& store,
                            const Optimizer& optimizer) {
  stream.synchronize();
  Communicator& world = *groups.world;
  std::vector<TensorShard> shards;
  for (const auto& o :
       owned_boxes(store.specs(), model, groups.placement.spec, groups.coordinate, store.compute_dtype()))
    shards.push_back({o.what, address(state_of(store, optimizer, o.param, o.what.kind), *o.piece, o.what.box)});
  const bool first = world.rank() == 0;
  std::uint64_t bytes = 0;
  together(root, meta.iteration, stream, world, [&] {
    if (first) begin_save(root, meta.iteration);
  });
  together(root, meta.iteration, stream, world, [&] {
    bytes = write_rank(root / temporary_name(meta.iteration), world.rank(), shards).file_bytes;
  });
  together(root, meta.iteration, stream, world, [&] {
    if (first) commit(root, meta);
  });
  return bytes;
}

}  // namespace mt
