#pragma once
// Orders of samples kept on a disk: made once, by one process, and mapped by every rank of every later run.
//
// A file is named by what it is of and a hash of its key, and holds the whole key, its sizes and a hash of all that
// follows, which is looked at whenever it is opened; one that is cut, damaged or of another key is made again. It is
// written under a lock that dies with its holder, under a name of its own, and renamed when it is on the disk. A cache
// never stops a run: where it cannot be written (read-only, full) the order stays in memory and a notice says so.
// Files may be removed at any time; what a running process has mapped stays.
// Code: data/index_cache.cc. Tests: tests/data/index_cache_test.cc. Format: man/mt-token-file.5.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/file_lock.h"
#include "data/index_arrays.h"

namespace mt::data {

// What an index is made of and for; equal keys mean equal arrays.
struct IndexKey {
  std::string name;                        // of the file, before the hash
  std::string text;                        // everything that fixes the arrays
  fs::path beside;                         // directory of the token file
  std::vector<std::uint64_t> array_bytes;  // sizes the arrays have
};

class IndexCache {
 public:
  // Below this many bytes an index is made again sooner than it is looked for; it is stored only where a directory is
  // named.
  static constexpr std::uint64_t kWorthStoring = std::uint64_t{16} << 20;

  // directory  "none": nothing is read or written; "": `cache` beside each token file, for large indexes; else there
  explicit IndexCache(std::string directory = "none") : directory_(std::move(directory)) {}

  bool off() const { return directory_ == "none"; }

  // The arrays of `key`.
  //   needs  `build` gives arrays of key.array_bytes
  //   fails  as `build`; never for the sake of the cache
  //   cost   hit: one pass over the file (10 GB/s from memory) to verify it. Else build, write, fsync; other processes
  //          that want the same key wait for it, asleep
  IndexArrays get(const IndexKey& key, const std::function<IndexArrays()>& build);

  // What came of the calls so far.
  struct Report {
    int hits = 0, waited = 0, built = 0, in_memory = 0;  // waited: made by another process meanwhile
    double build_s = 0;
    std::uint64_t bytes = 0;
    std::set<std::string> directories;
    std::vector<std::string> notices;  // what could not be read or stored
    // "index cache: hit (3 of 3) in DIR"; empty where all stayed in memory and nothing is to be said
    std::string text() const;
  };
  const Report& report() const { return report_; }

 private:
  IndexArrays build_and_count(const std::function<IndexArrays()>& build);
  bool map(const fs::path& path, const IndexKey& key, IndexArrays& arrays, bool told = true);
  // The lock on `path`, or nothing where another process finished it meanwhile and it is mapped.
  std::optional<FileLock> lock_or_map(const fs::path& path, const IndexKey& key, IndexArrays& arrays);
  void write(const fs::path& path, const IndexKey& key, const IndexArrays& arrays);
  void remove_stale(const fs::path& path);
  std::string directory_;
  bool refused_ = false;  // a directory could not be written: no more tries
  std::map<fs::path, std::multimap<std::string, fs::path>> stale_;  // by directory, temporaries of killed processes
  Report report_;
};

}  // namespace mt::data
