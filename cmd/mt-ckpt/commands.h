#pragma once
// The commands of mt-ckpt. Each is an option table and a call into lib/ckpt. Tests: tests/cli/mt_ckpt_test.cc.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/cli.h"
#include "base/progress.h"
#include "ckpt/iterations.h"

namespace mt {

cli::Command list_command();
cli::Command info_command();
cli::Command verify_command();
cli::Command diff_command();
cli::Command cat_command();
cli::Command stats_command();
cli::Command average_command();
cli::Command convert_command();
cli::Command gc_command();
cli::Command random_command();

// Progress of a call that knows its total only once it works; ends its line when it goes.
class LateProgress {
 public:
  explicit LateProgress(std::string what) : what_(std::move(what)) {}
  ~LateProgress() {
    if (shown_) shown_->finish();
  }
  void operator()(std::uint64_t done, std::uint64_t total) {
    if (!shown_) shown_.emplace(what_, total, "bytes");
    shown_->update(done);
  }

 private:
  std::string what_;
  std::optional<Progress> shown_;
};

// The checkpoint an argument names; what was passed over is told on stderr.
Resolved resolve_and_tell(const std::string& path, std::optional<std::int64_t> iteration);

// Which program's checkpoint an argument names: "hf", "meta", "gguf", "megatron" or "megatron-dist"; "" where it is ours, or nothing known.
//   fails  Error{config}: one that is known and not read
std::string foreign_format(const std::string& path, std::optional<std::int64_t> iteration);

// Print what such a checkpoint says of itself, from its headers.
struct ForeignInfo {
  std::string path;
  std::optional<std::int64_t> iteration;
  std::string format;
  bool tensors = false;
};
int foreign_info(const ForeignInfo& what, bool json);

// The one positional argument of a command.   fails  Error{usage}
std::string only_argument(const std::vector<std::string>& arguments, const std::string& word);

}  // namespace mt
