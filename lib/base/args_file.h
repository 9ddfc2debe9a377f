#pragma once
// Flags out of a shell script, as people keep them: `torchrun … train.py --num-layers 32 \ …` with VAR=( … ) arrays.
//
// No shell is run. Understood are comments, quotes, `\` at the end of a line, assignments (NAME=word, NAME+=word,
// NAME=( … ), export), $NAME, ${NAME}, ${NAME:-default}, "${NAME[@]}" and integer arithmetic $(( … )). A name that the
// script does not set, or sets from a parameter ($1, ${1:-default}), is looked up in the environment. Blocks that only a
// shell can walk (if, for, case, functions, [[ … ]] && …) are passed over; what they set has no known value.
// Code: base/args_file.cc. Tests: tests/base/args_file_test.cc.

#include <optional>
#include <string>
#include <vector>

namespace mt {

struct ArgsFile {
  std::vector<std::string> flags;
  std::optional<int> ranks;  // what the script's launcher starts: nnodes × nproc_per_node, or -n
};

// Where flags are taken from, the first that is there:
//   1. the command that runs a *.py or mt-train: the words after it (the ones before it are the launcher's)
//   2. lines that start with a flag
//   3. arrays and strings whose first word is a flag, in the order they are set; those with nproc_per_node are the
//      launcher's
// Other commands are passed over. Pipes and redirections end a command.
//   fails  Error{io}; Error{usage} with file and line: a construct that would have to be run ($(…), if, for, …) whose value
//          or flags are wanted, a name without a value, an open quote, no flag in the file; a device, a binary file, one above 1
//          MiB, values of names that come to more than 4 MiB, more than 100 brackets in one another
ArgsFile read_args_file(const std::string& path);

}  // namespace mt
