#include "ckpt/verify.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <map>
#include <mutex>
#include <set>
#include <system_error>
#include <thread>

#include "base/clock.h"
#include "base/error.h"
#include "base/files.h"
#include "base/hash.h"
#include "ckpt/data_files.h"
#include "ckpt/manifest.h"
#include "ckpt/safetensors.h"
#include "ckpt/soundness.h"

namespace mt {
namespace {

struct Chunk {
  const TensorEntry* tensor;
  const Shard* shard;
  std::size_t index;
};

class Verification {
 public:
  Verification(const fs::path& dir, const std::function<void(std::uint64_t)>& progress)
      : dir_(dir), manifest_(read_manifest(dir)), progress_(progress) {
    report_.files = manifest_.files.size();
    report_.tensors = manifest_.tensors.size();
    report_.manifest_checksum = manifest_.has_checksum;
  }

  VerifyReport run(int num_threads) {
    check_directory();
    for (std::uint32_t f = 0; f < manifest_.files.size(); ++f) check_file(f);
    std::vector<std::thread> threads;
    try {
      for (std::size_t i = 1; i < std::min(static_cast<std::size_t>(num_threads), chunks_.size()); ++i)
        threads.emplace_back([this] { hash_loop(); });
    } catch (const std::system_error&) {  // the system gives no more; those there are do the work
    }
    hash_loop();
    for (auto& t : threads) t.join();
    std::sort(report_.problems.begin(), report_.problems.end());
    for (auto& [file, refusal] : unreadable_) report_.unreadable.push_back(std::move(refusal));
    report_.bytes = bytes_;
    return std::move(report_);
  }

 private:
  void problem(const std::string& text) {
    const std::lock_guard lock(mutex_);
    report_.problems.push_back(text);
  }

  void unreadable(std::uint32_t file, const std::string& refusal) {
    const std::lock_guard lock(mutex_);
    unreadable_.emplace(file, refusal);
  }

  void check_directory() {
    std::set<std::string> known{kManifestName};
    for (const auto& f : manifest_.files) known.insert(f.name);
    std::error_code ec;
    fs::directory_iterator entries(dir_, ec);
    if (ec) throw Error(Code::io, "cannot list directory: " + ec.message(), dir_.string());
    for (const auto& e : entries)
      if (!known.count(e.path().filename().string()))
        problem(e.path().string() + ": not in the manifest");
  }

  // Sizes and headers; the chunks of files that pass are queued for hashing.
  void check_file(std::uint32_t f) {
    const auto path = dir_ / manifest_.files[f].name;
    std::error_code ec;
    std::uintmax_t bytes = 0;
    try {
      if (!is_present(path)) return problem(path.string() + ": " + errno_text(ENOENT));
      bytes = fs::file_size(path, ec);
      if (ec) throw Error(Code::io, "cannot stat: " + ec.message(), path.string());
    } catch (const Error& e) {
      return unreadable(f, e.what());
    }
    if (bytes != manifest_.files[f].bytes)
      return problem(fmt::format("{}: wanted {} bytes, found {}", path.string(), manifest_.files[f].bytes, bytes));
    try {
      check_entries(f, header_of(f), path.string());
    } catch (const Error& e) {
      if (e.code() == Code::io) return unreadable(f, e.what());
      problem(e.what());
    }
    if (by_file_.empty()) group_shards();
    for (const auto& [tensor, shard] : by_file_[f])
      for (std::size_t c = 0; c < shard->chunk_xxh3.size(); ++c) chunks_.push_back({tensor, shard, c});
  }

  SafetensorsHeader header_of(std::uint32_t f) const {
    const DataFile& file = manifest_.files[f];
    const auto path = (dir_ / file.name).string();
    if (file.codec.empty()) return read_safetensors_header(path);
    DataFiles files(dir_, manifest_);
    const auto read = [&](std::uint64_t begin, std::uint64_t end, std::byte* out) {
      files.read({f, begin, end}, out, [](const std::byte*, std::size_t) {});
    };
    return read_safetensors_header(read, file.plain_bytes, path);
  }

  void group_shards() {
    by_file_.resize(manifest_.files.size());
    for (const auto& t : manifest_.tensors)
      for (const auto& s : t.shards)
        if (!s.box.empty()) by_file_[s.file].emplace_back(&t, &s);
    for (auto& list : by_file_)
      std::sort(list.begin(), list.end(), [](const auto& a, const auto& b) { return a.second->begin < b.second->begin; });
  }

  void check_entries(std::uint32_t f, const SafetensorsHeader& header, const std::string& where) {
    if (by_file_.empty()) group_shards();
    std::map<std::uint64_t, const SafetensorsEntry*> entries;
    for (const auto& e : header.tensors)
      if (e.begin != e.end) entries[header.data_start + e.begin] = &e;
    for (const auto& [tensor, shard] : by_file_[f]) {
      const auto it = entries.find(shard->begin);
      const auto of = tensor_text(tensor->name, tensor->kind) + " " + box_text(shard->box);
      if (it == entries.end()) {
        problem(fmt::format("{}: {} is not in the file's header", where, of));
        continue;
      }
      const auto& e = *it->second;
      if (e.dtype != tensor->dtype || e.shape != shard->box.extent)
        problem(fmt::format("{}: {}: the header says {} {}, the manifest {} {}", where, of, e.dtype_text,
                            dims_text(e.shape), safetensors_dtype_name(tensor->dtype), dims_text(shard->box.extent)));
      entries.erase(it);
    }
    for (const auto& [begin, e] : entries)
      problem(fmt::format("{}: '{}' is in the header and not in the manifest", where, e->name));
  }

  void hash_loop() {
    DataFiles files(dir_, manifest_);
    std::vector<std::byte> piece(256 << 10);  // read over and over: it stays in the core's cache
    for (std::size_t i; (i = next_.fetch_add(1)) < chunks_.size();) {
      const auto& c = chunks_[i];
      const auto begin = c.shard->begin + c.index * manifest_.chunk_bytes;
      const auto end = std::min(begin + manifest_.chunk_bytes, c.shard->end);
      const auto of = fmt::format("{}: {} {}", (dir_ / manifest_.files[c.shard->file].name).string(),
                                  tensor_text(c.tensor->name, c.tensor->kind), box_text(c.shard->box));
      Xxh3Stream hash;
      try {
        for (auto at = begin; at < end; at += piece.size())
          files.read({c.shard->file, at, std::min<std::uint64_t>(at + piece.size(), end)}, piece.data(),
                     [&](const std::byte* bytes, std::size_t size) { hash.update(bytes, size); });
        if (hash.digest() != c.shard->chunk_xxh3[c.index])
          problem(fmt::format("{}: bytes {}:{} are not what was saved", of, begin, end));
      } catch (const Error& e) {
        if (e.code() == Code::io) unreadable(c.shard->file, e.what());
        else problem(fmt::format("{}: cannot read bytes {}:{}: {}", of, begin, end, e.what()));
      }
      const auto done = bytes_.fetch_add(end - begin) + (end - begin);
      if (progress_) {
        const std::lock_guard lock(mutex_);
        progress_(done);
      }
      chunk_count_.fetch_add(1);
    }
    const std::lock_guard lock(mutex_);
    report_.chunks = chunk_count_;
  }

  fs::path dir_;
  Manifest manifest_;
  const std::function<void(std::uint64_t)>& progress_;
  VerifyReport report_;
  std::vector<std::vector<std::pair<const TensorEntry*, const Shard*>>> by_file_;
  std::vector<Chunk> chunks_;
  std::atomic<std::size_t> next_{0};
  std::atomic<std::uint64_t> bytes_{0}, chunk_count_{0};
  std::map<std::uint32_t, std::string> unreadable_;  // by file
  std::mutex mutex_;
};

}  // namespace

VerifyReport verify_checkpoint(const fs::path& dir, int num_threads,
                               const std::function<void(std::uint64_t)>& progress) {
  const auto start = Clock::now();
  if (num_threads <= 0) num_threads = static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1u, 8u));
  auto report = Verification(dir, progress).run(num_threads);
  report.seconds = seconds_since(start);
  return report;
}

}  // namespace mt
