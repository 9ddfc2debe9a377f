#pragma once
// Progress of long work: a line that rewrites itself on a terminal, a plain line every 10 s elsewhere, nothing when quiet.
//
// Code: base/progress.cc. Tests: tests/base/progress_test.cc.

#include <chrono>
#include <cstdint>
#include <string>

namespace mt {

class Progress {
 public:
  // unit: "documents", "bytes"; total 0 means unknown.
  Progress(std::string what, std::uint64_t total, std::string unit);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  // Cheap when nothing is due (one clock read). One thread at a time.
  void update(std::uint64_t done, const std::string& extra = "");
  void finish();

 private:
  void print(bool last);
  std::string what_, unit_, extra_;
  std::uint64_t total_, done_ = 0;
  bool terminal_, printed_ = false, finished_ = false;
  std::chrono::steady_clock::time_point start_, next_;
};

}  // namespace mt
