#pragma once
// What must hold before a run writes its first byte: no output is an input, another output, or a file to be kept.
//
// Files are compared as the file system sees them (links followed, names made absolute), not as they are spelled.
// Code: data/output_check.cc. Tests: tests/data/output_check_test.cc.

#include <string>
#include <vector>

namespace mt::data {

struct OutputFiles {
  std::vector<std::string> inputs;   // files the run reads; "-" is standard input
  std::vector<std::string> outputs;  // files the run makes
  bool force = false;                // outputs that exist may go
};

// Look, touch nothing.
//   fails  Error{usage}: an output is an input, or two outputs are one file; Error{io}: an output exists and `force` is
//          false, is there but is no regular file (/dev/null, a directory), or its directory is missing
void check_outputs(const OutputFiles& files);

// Remove what killed runs left beside the outputs: OUTPUT.tmp.PID where no process PID lives on this machine; an input
// is never removed.
//   gives  how many went, each with a message; what cannot be removed stays without one
int remove_stale_temporaries(const OutputFiles& files);

}  // namespace mt::data
