#include "ckpt/reshard.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <map>
#include <memory>
#include <set>

#include "base/error.h"
#include "ckpt/box_copy.h"

namespace mt {
namespace {

// More would need more memory; a packed file needs a frame and its planes.
constexpr std::size_t kFilesTogether = 64, kPackedFilesTogether = 4;

void check_cover(const Reader& source, const Resharding& to) {
  std::vector<TensorRequest> all;
  std::map<const TensorEntry*, std::vector<Box>> boxes;
  for (const auto& rank : to.owned)
    for (const auto& t : rank) {
      TensorRequest q;
      q.what = t;
      q.convert = to.convert;
      all.push_back(std::move(q));
      boxes[source.manifest().find(t.name, t.kind)].push_back(t.box);
    }
  source.check(all);
  for (const auto& t : source.manifest().tensors) {
    if (to.weights_only && t.kind != "weight") continue;
    // A tensor without elements is covered by nothing at all, but must not get lost.
    const auto problem = boxes.count(&t) == 0 ? "no rank has it" : coverage_problem(t.shape, boxes[&t]);
    if (!problem.empty())
      throw Error(Code::config, "the new layout: " + tensor_text(t.name, t.kind) + ": " + problem,
                  source.dir().string());
  }
}

// Where a piece comes from, in an order in which ranks that go by it want the same chunks at about the same time: files
// hold wide elements first, then tensors as they are listed.
struct SourcePlace {
  int bits = std::numeric_limits<int>::min();  // of an element, negative: wide ones come first, the header before all
  std::size_t tensor = 0;
  std::int64_t element = 0;
  auto operator<=>(const SourcePlace&) const = default;
};

// Writes the files of several new ranks, always on with the one that is furthest behind in the source.
class ManyFiles {
 public:
  ManyFiles(const Reader& source, const Resharding& to, const std::filesystem::path& dir, const BytesDone& progress)
      : source_(source), to_(to), dir_(dir), progress_(progress) {
    const auto& tensors = source.manifest().tensors;
    for (std::size_t i = 0; i < tensors.size(); ++i) index_[tensors[i].name + '\n' + tensors[i].kind] = i;
    for (const auto& rank : to.owned)
      for (const auto& b : rank) total_ += b.bytes();
  }

  // The ranks [first, last).
  void write(std::size_t first, std::size_t last) {
    WriteOptions options;
    options.codec = to_.codec;
    const auto each = kPieceMemory / (last - first);
    options.piece_bytes = std::clamp<std::uint64_t>(each / kSector * kSector, kSector, kChunkBytes);
    options.block_bytes = std::clamp<std::uint64_t>(each / kSector * kSector, 256 << 10, kBlockBytes);
    std::deque<ShardFill> fills;
    std::vector<std::unique_ptr<RankFile>> files;
    std::set<std::pair<SourcePlace, std::size_t>> waiting;  // file
    for (auto rank = first; rank < last; ++rank) {
      const auto& boxes = to_.owned[rank];
      fills.push_back([&, this](std::size_t shard, std::uint64_t begin, std::uint64_t end, std::byte* out) {
        fill(boxes[shard], begin, end, out);
      });
      files.push_back(std::make_unique<RankFile>(dir_, static_cast<int>(rank), boxes, fills.back(), options));
      waiting.emplace(place_of(*files.back(), boxes), files.size() - 1);
    }
    while (!waiting.empty()) {
      const auto i = waiting.begin()->second;
      waiting.erase(waiting.begin());
      if (files[i]->done()) {
        files[i]->finish();
        files[i].reset();
        continue;
      }
      files[i]->step();
      waiting.emplace(place_of(*files[i], to_.owned[first + i]), i);
    }
  }

 private:
  static constexpr std::uint64_t kPieceMemory = 16u << 20, kSector = 4096;  // four times it in blocks

  SourcePlace place_of(const RankFile& file, const std::vector<TensorBox>& boxes) const {
    SourcePlace p;
    const auto next = file.next();
    if (!next) return p;
    const auto& b = boxes[next->shard];
    p.bits = -static_cast<int>(bits_of(b.dtype));
    p.tensor = index_.at(b.name + '\n' + b.kind);
    Dims at(b.shape.size());
    auto rest = static_cast<std::int64_t>(next->begin) / bytes_of(b.dtype, 1);
    for (std::size_t d = at.size(); d-- > 0;) {
      at[d] = b.box.offset[d] + rest % b.box.extent[d];
      rest /= b.box.extent[d];
    }
    p.element = offset_in(whole(b.shape), at);
    return p;
  }

  void fill(const TensorBox& t, std::uint64_t begin, std::uint64_t end, std::byte* out) {
    const auto elem = static_cast<std::uint64_t>(bytes_of(t.dtype, 1));
    std::vector<TensorRequest> parts;
    for (auto& range : boxes_of_range(t.box.extent, static_cast<std::int64_t>(begin / elem),
                                      static_cast<std::int64_t>(end / elem))) {
      TensorRequest q;
      q.what = t;
      q.convert = to_.convert;
      for (std::size_t i = 0; i < range.offset.size(); ++i) range.offset[i] += t.box.offset[i];
      q.what.box = std::move(range);
      q.out = out;
      out += q.what.bytes();
      parts.push_back(std::move(q));
    }
    source_.read(parts);
    done_ += end - begin;
    if (progress_) progress_(done_, total_);
  }

  const Reader& source_;
  const Resharding& to_;
  const std::filesystem::path& dir_;
  const BytesDone& progress_;
  std::map<std::string, std::size_t> index_;
  std::uint64_t done_ = 0, total_ = 0;
};

}  // namespace

std::filesystem::path reshard(const Reader& source, const std::filesystem::path& root,
                              const Resharding& to, const BytesDone& progress) {
  check_cover(source, to);
  auto meta = source.manifest().meta;
  meta.specs = to.specs;
  meta.world_size = static_cast<int>(to.owned.size());
  std::error_code ec;
  if (std::filesystem::equivalent(source.dir(), root / iteration_name(meta.iteration), ec))
    throw Error(Code::config, "source and destination are the same checkpoint", source.dir().string(),
                "write to another directory");
  return save_at_once(root, meta, [&](const std::filesystem::path& dir) {
    ManyFiles files(source, to, dir, progress);
    const std::size_t together = to.codec == Codec::none ? kFilesTogether : kPackedFilesTogether;
    for (std::size_t first = 0; first < to.owned.size(); first += together)
      files.write(first, std::min(first + together, to.owned.size()));
  });
}

std::vector<std::vector<TensorBox>> split_by_rows(const Manifest& manifest, int num_shards) {
  MT_CHECK(num_shards > 0, "{} shards", num_shards);
  std::vector<std::vector<TensorBox>> owned(static_cast<std::size_t>(num_shards));
  for (const auto& t : manifest.tensors)
    for (int i = 0; i < num_shards; ++i) {
      TensorBox b{t.name, t.kind, t.dtype, t.shape, part_of(whole(t.shape), num_shards, i)};
      const bool kept = num_elements(t.shape) == 0 ? i == 0 : !b.box.empty();
      if (num_elements(t.shape) == 0) b.box = whole(t.shape);
      if (kept)
        owned[static_cast<std::size_t>(i)].push_back(std::move(b));
    }
  return owned;
}

}  // namespace mt
