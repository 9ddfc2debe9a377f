#pragma once
// Join token files into one, as Megatron's merge does: .bin end to end, document boundaries shifted.
//
// Code: data/merge_files.cc. Tests: tests/data/merge_files_test.cc.

#include <cstdint>
#include <string>
#include <vector>

namespace mt::data {

struct MergeReport {
  std::int64_t files = 0, documents = 0, sequences = 0, tokens = 0;
  std::string without_origin;  // the first file without a sidecar, where others have one; then the result has none
};

// The token files that names stand for, in the order they are merged: a name itself, or for a directory every token file
// in it (not below), in byte order of their names, as Megatron's merge takes them.
//   fails  Error{data}: a directory without token files, a .bin in it without .idx or the other way round; Error{io}
std::vector<std::string> expand_prefixes(const std::vector<std::string>& names);

// Merge in the given order; the result is what one run over the joined text gives. Temporaries that a killed run left
// beside the outputs go first.
//   gives  a sidecar only if every file has one
//   fails  before writing: Error{usage}: no file, an output that is an input; Error{data}: files of another width or
//          another tokenizer, named; Error{io}, Error{corrupt} from the files. Then Error{io}: disk full; Error{corrupt}:
//          a file is not what the hashes of its sidecar say; nothing is left at the final paths
//   cost   .bin read twice (the second time where its hashes are known) and written once, .idx read three times; one
//          file is open at a time
MergeReport merge_files(const std::vector<std::string>& prefixes, const std::string& output_prefix, bool force);

}  // namespace mt::data
