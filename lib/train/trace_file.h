#pragma once
// The trace of a run: all ranks' spans in one file that grows while the run goes.
//
// Chrome's JSON array of events, a line each, whose closing bracket may be missing: what a killed run leaves behind opens
// in Perfetto and chrome://tracing too, up to the last second or step. A finished run's file is whole JSON.
// Rank 0 writes; the others hand it their spans about once a second, between two steps.
// Code: train/trace_file.cc. The reader: registry/trace_summary.h. Tests: tests/train/timeline_test.cc.

#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "train/timeline.h"

namespace mt {

// True where the file is empty or begins as a trace of ours; else it is somebody's and not to be overwritten.
bool may_hold_trace(const std::string& path);

class TraceFile {
 public:
  // Opens the file on rank 0 and writes its head; an earlier run's trace there gets a name of its own, which is said.
  //   process    what viewers call the run       row_names  by rank       world  outlives it
  // A file that cannot be written is a warning, here and later, once: a trace is no reason to end a run.
  TraceFile(const std::string& path, const std::string& process, const std::vector<std::string>& row_names,
            Communicator& world);

  // Write what all ranks did since the last time, where rank 0 finds it is time. Collective.
  //   cost  a broadcast of 8 bytes; about once a second a gather of texts
  void follow(Timeline& mine, Stream& stream);
  // The rest, and the end. Collective.
  void finish(Timeline& mine, Stream& stream);

 private:
  void write(const std::string& text);
  void gather(Timeline& mine, Stream& stream);

  struct Close {
    void operator()(std::FILE* f) const { std::fclose(f); }
  };
  std::string path_;
  Communicator& world_;
  std::unique_ptr<std::FILE, Close> file_;  // rank 0 alone, while all is well
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

}  // namespace mt
