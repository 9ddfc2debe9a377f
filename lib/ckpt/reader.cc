#include "ckpt/reader.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

#include "base/error.h"
#include "base/files.h"
#include "base/hash.h"
#include "ckpt/box_copy.h"
#include "ckpt/data_files.h"

namespace mt {
namespace {

// Where a part of a shard goes.
struct Piece {
  const TensorRequest* request;
  Box part;
};
struct ShardRead {
  const TensorEntry* tensor;
  const Shard* shard;
  std::vector<Piece> pieces;
};
struct ChunkTask {
  const ShardRead* read;
  std::uint64_t chunk;
};

// What a thread works with.
struct Desk {
  DataFiles files;
  std::unique_ptr<std::byte[]> chunk;  // for shards that do not lie in their destination as in the file
};

double load_as_double(DType t, const std::byte* p) {
  const auto bits = [&](auto v) {
    std::memcpy(&v, p, sizeof v);
    return v;
  };
  switch (t) {
    case DType::f64: return bits(double{});
    case DType::f32: return static_cast<double>(bits(float{}));
    case DType::bf16: return static_cast<double>(to_f32(bits(bf16{})));
    default: return static_cast<double>(to_f32(bits(f16{})));
  }
}

// The nearest f32 with an odd last bit when inexact, so that rounding it once more to 8 or 11 bits cannot double-round.
float round_to_odd(double v) {
  const float f = static_cast<float>(v);
  if (static_cast<double>(f) == v || v != v || f - f != 0) return f;
  auto u = std::bit_cast<std::uint32_t>(f);
  if ((u & 1u) == 0) {
    const bool too_large = (v < 0 ? -v : v) < static_cast<double>(f < 0 ? -f : f);
    u = too_large ? u - 1 : u + 1;
  }
  return std::bit_cast<float>(u);
}

void store_from_double(DType t, double v, std::byte* p) {
  const auto put = [&](auto x) { std::memcpy(p, &x, sizeof x); };
  switch (t) {
    case DType::f64: return put(v);
    case DType::f32: return put(static_cast<float>(v));
    case DType::bf16: return put(to_bf16(round_to_odd(v)));
    default: return put(to_f16(round_to_odd(v)));
  }
}

// Gives how many finite elements became infinite.
std::int64_t convert(DType from, const std::byte* src, DType to, std::byte* dst, std::int64_t count) {
  const auto a = bytes_of(from, 1), b = bytes_of(to, 1);
  std::int64_t overflowed = 0;
  if (from == DType::f32 && to == DType::bf16) {
    for (std::int64_t i = 0; i < count; ++i) {
      float f;
      std::memcpy(&f, src + i * 4, 4);
      const auto h = to_bf16(f);
      std::memcpy(dst + i * 2, &h, 2);
      overflowed += std::isfinite(f) && !std::isfinite(to_f32(h));
    }
  } else if (from == DType::bf16 && to == DType::f32) {
    for (std::int64_t i = 0; i < count; ++i) {
      bf16 h;
      std::memcpy(&h, src + i * 2, 2);
      const float f = to_f32(h);
      std::memcpy(dst + i * 4, &f, 4);
    }
  } else {
    for (std::int64_t i = 0; i < count; ++i) {
      const double v = load_as_double(from, src + i * a);
      store_from_double(to, v, dst + i * b);
      overflowed += std::isfinite(v) && !std::isfinite(load_as_double(to, dst + i * b));
    }
  }
  return overflowed;
}

class ReadJob {
 public:
  ReadJob(const fs::path& dir, const Manifest& manifest, bool verify, ChunkCache* cache)
      : dir_(dir), manifest_(manifest), verify_(verify), cache_(cache) {}

  std::int64_t num_overflowed() const { return overflowed_; }

  void plan(std::span<const TensorRequest> requests) {
    std::map<const TensorEntry*, std::vector<const TensorRequest*>> by_tensor;
    for (const auto& r : requests)
      if (!r.what.box.empty()) by_tensor[manifest_.find(r.what.name, r.what.kind)].push_back(&r);
    for (const auto& [tensor, wanted] : by_tensor)
      for (const auto& shard : tensor->shards) {
        if (shard.box.empty()) continue;
        ShardRead read{tensor, &shard, {}};
        for (const auto* r : wanted)
          if (auto part = intersect(shard.box, r->what.box)) read.pieces.push_back({r, std::move(*part)});
        if (!read.pieces.empty()) reads_.push_back(std::make_unique<ShardRead>(std::move(read)));
      }
    std::sort(reads_.begin(), reads_.end(), [](const auto& a, const auto& b) {
      return a->shard->file != b->shard->file ? a->shard->file < b->shard->file : a->shard->begin < b->shard->begin;
    });
    for (const auto& r : reads_) {
      std::int64_t first = r->shard->box.size(), last = 0;  // elements of the shard, between which all pieces lie
      for (const auto& p : r->pieces) {
        Dims end = p.part.offset;
        for (std::size_t i = 0; i < end.size(); ++i) end[i] += p.part.extent[i] - 1;
        first = std::min(first, offset_in(r->shard->box, p.part.offset));
        last = std::max(last, offset_in(r->shard->box, end));
      }
      const auto chunk_of = [&](std::int64_t element) {
        return static_cast<std::uint64_t>(bytes_of(r->tensor->dtype, element)) / manifest_.chunk_bytes;
      };
      for (auto c = chunk_of(first); c <= chunk_of(last); ++c) tasks_.push_back({r.get(), c});
    }
  }

  void run(int num_threads) {
    const auto n = std::min<std::size_t>(static_cast<std::size_t>(num_threads), tasks_.size());
    std::vector<std::thread> threads;
    for (std::size_t i = 1; i < n; ++i) threads.emplace_back([this] { work(); });
    work();
    for (auto& t : threads) t.join();
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  void work() {
    Desk here{DataFiles(dir_, manifest_), {}};
    try {
      for (;;) {
        const auto i = next_.fetch_add(1);
        if (i >= tasks_.size() || failed_) return;
        read_chunk(tasks_[i], here);
      }
    } catch (...) {
      const std::lock_guard lock(failure_mutex_);
      if (!failure_) failure_ = std::current_exception();
      failed_ = true;
    }
  }

  void read_chunk(const ChunkTask& task, Desk& here) {
    const auto& shard = *task.read->shard;
    const auto elem = static_cast<std::uint64_t>(bytes_of(task.read->tensor->dtype, 1));
    const auto begin = task.chunk * manifest_.chunk_bytes;
    const auto end = std::min(begin + manifest_.chunk_bytes, shard.end - shard.begin);
    if (auto* place = in_place(*task.read)) return fetch(task, here, begin, end, place + begin);
    auto parts = parts_in(*task.read, begin / elem, end / elem);
    if (parts.empty()) return;
    if (cache_) {
      return cache_->with(shard, task.chunk, [&](std::byte* out) { fetch(task, here, begin, end, out); },
                          [&](const std::byte* bytes) {
                            for (const auto& p : parts) place(*task.read, p, bytes, begin);
                          });
    }
    auto lo = begin, hi = end;
    if (!verify_) {  // only the bytes from the first wanted element to the last
      lo = end, hi = begin;
      for (const auto& p : parts) {
        Dims last = p.part.offset;
        for (std::size_t i = 0; i < last.size(); ++i) last[i] += p.part.extent[i] - 1;
        lo = std::min(lo, static_cast<std::uint64_t>(offset_in(shard.box, p.part.offset)) * elem);
        hi = std::max(hi, static_cast<std::uint64_t>(offset_in(shard.box, last) + 1) * elem);
      }
    }
    if (!here.chunk) here.chunk = std::make_unique_for_overwrite<std::byte[]>(manifest_.chunk_bytes);
    fetch(task, here, lo, hi, here.chunk.get());
    for (const auto& p : parts) place(*task.read, p, here.chunk.get(), lo);
  }

  // Destination of a shard that is wanted whole, once, unconverted and in one piece.
  std::byte* in_place(const ShardRead& r) const {
    if (r.pieces.size() != 1) return nullptr;
    const auto& q = *r.pieces[0].request;
    if (q.what.dtype != r.tensor->dtype || !(r.pieces[0].part == r.shard->box)) return nullptr;
    const auto elem = bytes_of(r.tensor->dtype, 1);
    const auto& ext = q.what.box.extent;
    if (q.row_stride_bytes != 0 && !ext.empty() && q.row_stride_bytes != ext.back() * elem) return nullptr;
    const auto off = contiguous_offset(q.what.box, r.shard->box);
    return off ? q.out + *off * elem : nullptr;
  }

  // The wanted parts among elements [begin, end) of a shard's storage.
  static std::vector<Piece> parts_in(const ShardRead& r, std::uint64_t begin, std::uint64_t end) {
    std::vector<Piece> parts;
    const auto& shard = *r.shard;
    for (auto range : boxes_of_range(shard.box.extent, static_cast<std::int64_t>(begin), static_cast<std::int64_t>(end))) {
      for (std::size_t i = 0; i < range.offset.size(); ++i) range.offset[i] += shard.box.offset[i];
      for (const auto& p : r.pieces)
        if (auto part = intersect(range, p.part)) parts.push_back({p.request, std::move(*part)});
    }
    return parts;
  }

  // `bytes` holds the shard's bytes from `first` on.
  void place(const ShardRead& r, const Piece& p, const std::byte* bytes, std::uint64_t first) {
    const auto& q = *p.request;
    const auto from = r.tensor->dtype, to = q.what.dtype;
    const auto src_elem = bytes_of(from, 1), dst_elem = bytes_of(to, 1);
    const bool rows = q.row_stride_bytes != 0 && !q.what.box.extent.empty();
    const auto row = rows ? q.what.box.extent.back() : 1;
    for_each_common_run(r.shard->box, q.what.box, p.part, rows, [&](auto src, auto dst, auto count) {
      const auto* s = bytes + (src * src_elem - static_cast<std::int64_t>(first));
      auto* d = q.out + (rows ? dst / row * q.row_stride_bytes + dst % row * dst_elem : dst * dst_elem);
      if (from == to) std::memcpy(d, s, static_cast<std::size_t>(count * src_elem));
      else if (const auto n = convert(from, s, to, d, count); n > 0) overflowed_ += n;
    });
  }

  // Bytes [begin, end) of the shard; a whole chunk when hashes are compared. A piece is hashed while the core's cache
  // still has it.
  void fetch(const ChunkTask& task, Desk& here, std::uint64_t begin, std::uint64_t end, std::byte* out) {
    const auto& shard = *task.read->shard;
    Xxh3Stream hash;
    here.files.read({shard.file, shard.begin + begin, shard.begin + end}, out, [&](const std::byte* piece, std::size_t size) {
      if (verify_) hash.update(piece, size);
    });
    if (verify_) check_hash(task, hash.digest(), end - begin);
  }

  void check_hash(const ChunkTask& task, std::uint64_t found, std::uint64_t size) const {
    const auto& r = *task.read;
    const auto wanted = r.shard->chunk_xxh3[task.chunk];
    if (found == wanted) return;
    throw Error(Code::corrupt,
                fmt::format("{} {}: bytes {}:{} have hash {}, wanted {}", tensor_text(r.tensor->name, r.tensor->kind),
                            box_text(r.shard->box), r.shard->begin + task.chunk * manifest_.chunk_bytes,
                            r.shard->begin + task.chunk * manifest_.chunk_bytes + size, hash_text(found),
                            hash_text(wanted)),
                (dir_ / manifest_.files[r.shard->file].name).string(), "take an older checkpoint");
  }

  const fs::path& dir_;
  const Manifest& manifest_;
  bool verify_;
  ChunkCache* cache_;
  std::vector<std::unique_ptr<ShardRead>> reads_;
  std::vector<ChunkTask> tasks_;
  std::atomic<std::size_t> next_{0};
  std::atomic<bool> failed_{false};
  std::atomic<std::int64_t> overflowed_{0};
  std::mutex failure_mutex_;
  std::exception_ptr failure_;
};

// What is wrong with a request, "" when it can be served.
std::string request_problem(const Manifest& m, const TensorRequest& q) {
  const auto& w = q.what;
  const auto of = tensor_text(w.name, w.kind);
  const auto* t = m.find(w.name, w.kind);
  if (!t) return fmt::format("{}: wanted {} {}, the checkpoint has no such tensor", of, dtype_name(w.dtype),
                             dims_text(w.shape));
  if (t->shape != w.shape)
    return fmt::format("{}: wanted shape {}, found {}", of, dims_text(w.shape), dims_text(t->shape));
  if (!inside(w.box, w.shape))
    return fmt::format("{}: wanted box {}, found shape {}", of, box_text(w.box), dims_text(t->shape));
  if (t->dtype != w.dtype && !(q.convert && convertible(t->dtype, w.dtype)))
    return fmt::format("{}: wanted {}, found {}", of, dtype_name(w.dtype), dtype_name(t->dtype));
  return "";
}

int thread_count(int asked) {
  if (asked > 0) return asked;
  return static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1u, 8u));
}

}  // namespace

bool convertible(DType from, DType to) {
  const auto is_float = [](DType t) {
    return t == DType::f64 || t == DType::f32 || t == DType::bf16 || t == DType::f16;
  };
  return from == to || (is_float(from) && is_float(to));
}

Reader::Reader(const fs::path& dir, ReaderOptions options)
    : dir_(dir), options_(options), manifest_(read_manifest(dir)) {
  if (options.cached_chunks > 0) {
    const auto enough = std::max(options.cached_chunks, static_cast<std::size_t>(thread_count(options.num_threads)));
    cache_ = std::make_unique<ChunkCache>(enough, manifest_.chunk_bytes);
  }
}

void Reader::check(std::span<const TensorRequest> requests) const {
  std::string first;
  std::size_t more = 0;
  for (const auto& q : requests) {
    auto problem = request_problem(manifest_, q);
    if (problem.empty()) continue;
    if (first.empty()) first = std::move(problem);
    else ++more;
  }
  if (!first.empty())
    throw Error(Code::config, first + (more ? fmt::format("; and {} more like this", more) : ""), dir_.string(),
                "the model's options must be those of the checkpoint");
  for (const auto& f : manifest_.files) {
    std::error_code ec;
    const auto bytes = fs::file_size(dir_ / f.name, ec);
    if (ec) throw Error(Code::corrupt, "data file: " + ec.message(), (dir_ / f.name).string());
    if (bytes != f.bytes)
      throw Error(Code::corrupt, fmt::format("wanted {} bytes, found {}", f.bytes, bytes), (dir_ / f.name).string());
  }
}

void Reader::read(std::span<const TensorRequest> requests) const {
  check(requests);
  for (const auto& q : requests) MT_CHECK(q.out || q.what.box.empty(), "{} has no destination", q.what.name);
  ReadJob job(dir_, manifest_, options_.verify, cache_.get());
  job.plan(requests);
  job.run(thread_count(options_.num_threads));
  overflowed_ += job.num_overflowed();
}

}  // namespace mt
