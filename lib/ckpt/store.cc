#include "ckpt/store.h"

#include <algorithm>
#include <cstring>
#include <unordered_map>
#include <unordered_set>

#include "base/error.h"
#include "base/files.h"
#include "base/hash.h"
#include "base/log.h"
#include "ckpt/iterations.h"
#include "ckpt/safetensors.h"

namespace mt {
namespace {

std::vector<std::uint64_t> hashes_of(const std::string& text) {
  std::vector<std::uint64_t> hashes;
  for (std::size_t i = 0; i + 16 <= text.size(); i += 16) hashes.push_back(std::stoull(text.substr(i, 16), nullptr, 16));
  return hashes;
}

// Puts the tables of all ranks together; what they say is checked as a whole by parse_manifest in commit().
class Gathering {
 public:
  explicit Gathering(Manifest& m) : m_(m) {}

  void add(const Json& table, const std::string& where) {
    if (json_field<std::string>(table, "format", where) != kRankFormat)
      throw Error(Code::corrupt, "not the table of a rank", where);
    const auto file = json_field<std::string>(table, "file", where);
    const auto index = static_cast<std::uint32_t>(m_.files.size());
    if (!file.empty()) {
      DataFile f{file, json_field<std::uint64_t>(table, "bytes", where)};
      if (table.contains("codec")) {
        f.codec = json_field<std::string>(table, "codec", where);
        f.plain_bytes = json_field<std::uint64_t>(table, "plain_bytes", where);
      }
      m_.files.push_back(std::move(f));
    }
    for (const auto& t : json_field<Json>(table, "tensors", where)) add_tensor(t, index, where);
  }

 private:
  void add_tensor(const Json& j, std::uint32_t file, const std::string& where) {
    TensorEntry t;
    t.name = json_field<std::string>(j, "name", where);
    t.kind = json_field<std::string>(j, "kind", where);
    const auto dtype = parse_dtype(json_field<std::string>(j, "dtype", where));
    if (!dtype) throw Error(Code::corrupt, "unknown dtype of " + tensor_text(t.name, t.kind), where);
    t.dtype = *dtype;
    t.shape = json_field<Dims>(j, "shape", where);
    Shard s;
    s.box = {json_field<Dims>(j, "offset", where), json_field<Dims>(j, "extent", where)};
    s.file = file;
    s.begin = json_field<std::uint64_t>(j, "begin", where);
    s.end = json_field<std::uint64_t>(j, "end", where);
    s.chunk_xxh3 = hashes_of(json_field<std::string>(j, "xxh3", where));

    const auto [it, fresh] = seen_.emplace(t.name + '\n' + t.kind, m_.tensors.size());
    if (fresh) m_.tensors.push_back(std::move(t));
    else if (m_.tensors[it->second].dtype != t.dtype || m_.tensors[it->second].shape != t.shape)
      throw Error(Code::corrupt,
                  fmt::format("ranks disagree on {}: {} {} and {} {}", tensor_text(t.name, t.kind),
                              dtype_name(m_.tensors[it->second].dtype), dims_text(m_.tensors[it->second].shape),
                              dtype_name(t.dtype), dims_text(t.shape)),
                  where);
    m_.tensors[it->second].shards.push_back(std::move(s));
  }

  Manifest& m_;
  std::unordered_map<std::string, std::size_t> seen_;
};

void remove_tree(const fs::path& path) {
  std::error_code ec;
  fs::remove_all(path, ec);
  if (ec) throw Error(Code::io, "cannot remove: " + ec.message(), path.string());
}

void make_directory(const fs::path& path) {
  std::error_code ec;
  fs::create_directories(path, ec);
  if (ec) throw Error(Code::io, "cannot create directory: " + ec.message(), path.string());
}

[[noreturn]] void refuse_existing(const fs::path& target) {
  throw Error(Code::io, "this iteration is already saved, and the file system cannot swap directories",
              target.string(), "remove that directory or save elsewhere");
}

// Swapping is tried on two empty directories, so that a refusal costs no written bytes.
void probe_exchange(const fs::path& root, const fs::path& target) {
  const auto a = root / ".exchange.a.tmp", b = root / ".exchange.b.tmp";
  make_directory(a);
  make_directory(b);
  const bool possible = rename_exchange(a, b);
  remove_tree(a);
  remove_tree(b);
  if (!possible) refuse_existing(target);
}

void require_files(const fs::path& dir, const Manifest& m) {
  for (const auto& f : m.files) {
    std::error_code ec;
    const auto bytes = fs::file_size(dir / f.name, ec);
    if (ec || bytes != f.bytes)
      throw Error(Code::corrupt, fmt::format("wanted {} bytes, found {}", f.bytes, ec ? 0 : bytes),
                  (dir / f.name).string());
  }
}

}  // namespace

std::string iteration_name(std::int64_t iteration) { return fmt::format("iter_{:07}", iteration); }
std::string temporary_name(std::int64_t iteration) { return "." + iteration_name(iteration) + ".tmp"; }
std::string data_file_name(int rank) { return fmt::format("data_{:05}.safetensors", rank); }
std::string rank_file_name(int rank) { return fmt::format("rank_{:05}.json", rank); }

fs::path begin_save(const fs::path& root, std::int64_t iteration) {
  MT_CHECK(iteration >= 0, "iteration {}", iteration);
  make_directory(root);
  const auto target = root / iteration_name(iteration), dir = root / temporary_name(iteration);
  if (fs::exists(fs::symlink_status(target))) probe_exchange(root, target);
  remove_tree(dir);
  // A tracker that a killed save was about to rename.
  for (const auto& e : fs::directory_iterator(root))
    if (e.path().filename().string().rfind(std::string(kTrackerName) + ".tmp", 0) == 0) remove_tree(e.path());
  make_directory(dir);
  return dir;
}

WriteResult write_rank_from(const fs::path& dir, int rank, std::span<const TensorBox> boxes, const ShardFill& fill,
                            const WriteOptions& options) {
  RankFile file(dir, rank, boxes, fill, options);
  while (!file.done()) file.step();
  return file.finish();
}

WriteResult write_rank(const fs::path& dir, int rank, std::span<const TensorShard> shards, const WriteOptions& options) {
  std::vector<TensorBox> boxes;
  for (const auto& s : shards) {
    MT_CHECK(s.bytes || s.what.box.empty(), "{} has no bytes", s.what.name);
    boxes.push_back(s.what);
  }
  const ShardFill copy = [&](std::size_t shard, std::uint64_t begin, std::uint64_t end, std::byte* out) {
    if (options.cancel && *options.cancel) throw Error(Code::io, "given up", (dir / rank_file_name(rank)).string());
    std::memcpy(out, shards[shard].bytes + begin, end - begin);
  };
  // Small pieces, so that a piece is still in the core's own cache when it is hashed.
  WriteOptions small = options;
  small.piece_bytes = 256 << 10;
  return write_rank_from(dir, rank, boxes, copy, small);
}

fs::path commit(const fs::path& root, const CheckpointMeta& meta) {
  const auto dir = root / temporary_name(meta.iteration);
  Manifest m;
  m.meta = meta;
  Gathering gathering(m);
  for (int rank = 0; rank < meta.world_size; ++rank) {
    const auto path = dir / rank_file_name(rank);
    if (!fs::exists(path)) throw Error(Code::corrupt, fmt::format("rank {} left no table of what it wrote", rank), path.string());
    gathering.add(read_json(path), path.string());
  }
  const auto text = manifest_text(m);
  (void)parse_manifest(text, (dir / kManifestName).string());  // what could not be read back is never published
  write_file_atomic(dir / kManifestName, text);
  for (int rank = 0; rank < meta.world_size; ++rank) remove_tree(dir / rank_file_name(rank));
  return publish(root, m);
}

fs::path publish(const fs::path& root, const Manifest& m) {
  const auto dir = root / temporary_name(m.meta.iteration), target = root / iteration_name(m.meta.iteration);
  require_files(dir, m);
  fsync_directory(dir);

  if (fs::exists(fs::symlink_status(target))) {
    if (!rename_exchange(dir, target)) refuse_existing(target);
  } else {
    std::error_code ec;
    fs::rename(dir, target, ec);
    if (ec) throw Error(Code::io, "cannot rename: " + ec.message(), dir.string());
  }
  fsync_directory(root);
  write_file_atomic(root / kTrackerName, fmt::format("{}\n", m.meta.iteration));
  // After a swap the temporary name holds the old checkpoint. The new one is published; this cannot undo it.
  std::error_code ec;
  if (const auto foreign = foreign_entry(dir); !foreign.empty()) {
    fs::path aside;
    for (int n = 1; aside.empty() || fs::exists(fs::symlink_status(aside)); ++n)
      aside = root / fmt::format("replaced-{}-{}", iteration_name(m.meta.iteration), n);
    fs::rename(dir, aside, ec);
    log::warn("{} was replaced and held {}, which no save writes: it is now {}", target.string(), foreign,
              (ec ? dir : aside).string());
    return target;
  }
  fs::remove_all(dir, ec);
  if (ec) log::warn("cannot remove {}: {}", dir.string(), ec.message());
  return target;
}

fs::path save_at_once(const fs::path& root, const CheckpointMeta& meta, const std::function<void(const fs::path&)>& write) {
  const auto dir = begin_save(root, meta.iteration);
  try {
    write(dir);
    return commit(root, meta);
  } catch (...) {
    abort_save(root, meta.iteration);
    throw;
  }
}

void abort_save(const fs::path& root, std::int64_t iteration) noexcept {
  std::error_code ec;
  fs::remove_all(root / temporary_name(iteration), ec);
}

}  // namespace mt
