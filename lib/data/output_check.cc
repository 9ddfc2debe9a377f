#include "data/output_check.h"


#include <algorithm>

#include "base/error.h"
#include "base/files.h"
#include "base/log.h"

namespace mt::data {

namespace {

fs::path resolved(const fs::path& path) {
  std::error_code error;
  const fs::path absolute = fs::absolute(path, error);
  fs::path whole = fs::weakly_canonical(absolute, error);
  return error ? absolute.lexically_normal() : whole;
}

bool same_file(const fs::path& a, const fs::path& b) {
  std::error_code error;
  if (fs::equivalent(a, b, error) && !error) return true;
  return resolved(a) == resolved(b);
}

fs::path readable(const std::string& input) { return input == "-" ? fs::path("/dev/stdin") : fs::path(input); }

void check_place(const fs::path& output, bool force) {
  std::error_code error;
  const fs::file_status status = fs::status(output, error);
  if (fs::exists(status)) {
    if (!fs::is_regular_file(status)) {
      throw Error(Code::io, "is no regular file: an output takes its place whole", output.string(),
                  "choose another name");
    }
    if (!force) {
      throw Error(Code::io, "exists already", output.string(), "--force overwrites, or choose another name");
    }
  }
  const fs::path parent = output.has_parent_path() ? output.parent_path() : fs::path(".");
  if (!fs::is_directory(parent, error)) {
    throw Error(Code::io, "no such directory for the output", parent.string());
  }
}

}  // namespace

void check_outputs(const OutputFiles& files) {
  for (const std::string& output : files.outputs) {
    if (output == "-") throw Error(Code::usage, "an output is a file that takes its name when it is whole, standard output is none",
                                   output, "a file's name; ./- is one called so");
  }
  for (std::size_t i = 0; i < files.outputs.size(); ++i) {
    const std::string& output = files.outputs[i];
    for (const std::string& input : files.inputs) {
      if (same_file(output, readable(input))) {
        throw Error(Code::usage, fmt::format("the output is a file the run reads, {}", input == "-" ? "stdin" : input),
                    output, "choose another name");
      }
    }
    for (std::size_t other = 0; other < i; ++other) {
      if (same_file(output, files.outputs[other])) {
        throw Error(Code::usage, fmt::format("two outputs are one file: {} too", files.outputs[other]), output,
                    "choose another name");
      }
    }
  }
  for (const std::string& output : files.outputs) check_place(output, files.force);
}

int remove_stale_temporaries(const OutputFiles& files) {
  int removed = 0;
  for (const std::string& name : files.outputs) {
    for (const fs::path& path : stale_temporaries(name)) {
      const auto is_this = [&](const std::string& input) { return same_file(path, readable(input)); };
      std::error_code error;
      if (std::any_of(files.inputs.begin(), files.inputs.end(), is_this) || !fs::remove(path, error) || error) continue;
      log::info("removed {}, left by a run that was killed", path.string());
      ++removed;
    }
  }
  return removed;
}

}  // namespace mt::data
