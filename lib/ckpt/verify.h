#pragma once
// Read a whole checkpoint and say whether it is what its manifest claims.
//
// Code: ckpt/verify.cc. Tests: tests/ckpt/verify_test.cc.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace mt {

struct VerifyReport {
  std::uint64_t files = 0, tensors = 0, chunks = 0, bytes = 0;
  double seconds = 0;
  bool manifest_checksum = false;     // the manifest has one, and it is right
  std::vector<std::string> problems;    // one sentence each; with none of both: sound
  std::vector<std::string> unreadable;  // data files of which nobody knows, the system's first refusal each
};

// Check the manifest (as read_manifest does), every data file's size, that each data file is a valid safetensors file
// whose entries are the manifest's shards, that no file lies there which the manifest does not know, and every chunk's
// hash. Goes on after a problem, so that all are told.
// A data file that the system will not let be read is no damage, and is told apart.
//   fails  Error as read_manifest: without a manifest there is nothing to verify against
//   cost   reads every byte once, by `num_threads` threads (0: as many as cores, at most 8), never more than
//          there are chunks
VerifyReport verify_checkpoint(const std::filesystem::path& dir, int num_threads = 0,
                               const std::function<void(std::uint64_t bytes_done)>& progress = {});

}  // namespace mt
