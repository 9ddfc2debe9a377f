#include "ckpt/save_lock.h"

#include <algorithm>
#include <utility>

#include <unistd.h>

#include "base/error.h"
#include "ckpt/iterations.h"
#include "ckpt/one_save.h"
#include "ckpt/store.h"

namespace mt {

namespace {

namespace fs = std::filesystem;

// What was saved in a directory, without what killed saves left.
std::vector<IterationInfo> saved_in(const fs::path& dir) {
  std::error_code ec;
  if (!fs::is_directory(dir, ec)) return {};
  auto all = list_iterations(dir);
  all.erase(std::remove_if(all.begin(), all.end(), [](const auto& i) { return i.temporary; }), all.end());
  return all;
}

void require_newest(const fs::path& dir, std::int64_t iteration, bool replace) {
  auto newest = std::int64_t{-1};
  for (const auto& i : saved_in(dir)) newest = std::max(newest, i.iteration);
  if (fs::is_directory(dir)) newest = std::max(newest, read_tracker(dir).value_or(-1));
  if (newest > iteration)
    throw Error(Code::config, fmt::format("holds iterations up to {}, and its tracker would go back to {}", newest, iteration),
                dir.string(), "name another --save");
  const auto target = dir / iteration_name(iteration);
  if (!replace && fs::exists(fs::symlink_status(target)))
    throw Error(Code::config, "there is a checkpoint already", target.string(), "--force replaces it");
}

FileLock locked(const fs::path& dir, bool remove) {
  std::error_code made;
  fs::create_directories(dir, made);
  if (made || !fs::is_directory(dir))
    throw Error(Code::io, "cannot be made a directory: " + (made ? made.message() : "something else is there"),
                dir.string(), "name another --save");
  auto lock = [&] {
    try {
      return FileLock::try_lock(dir / ".lock", remove);
    } catch (const Error& e) {
      throw Error(Code::io, "cannot be written to: " + e.message(), dir.string(), "name a --save that can be written");
    }
  }();
  if (!lock) throw Error(Code::io, "another run is saving there", dir.string(), "wait for it, or name another --save");
  return std::move(*lock);
}

// What must hold is asked before anything is made, and again when nobody else can change it.
template <class Check>
FileLock checked(const fs::path& dir, bool remove, Check check) {
  check();
  auto lock = locked(dir, remove);
  check();
  return lock;
}

}  // namespace

void require_free(const fs::path& dir, std::optional<std::int64_t> from) {
  require_no_iteration(dir);
  if (!from) return;
  const auto there = saved_in(dir);
  if (there.empty() || there.back().iteration < *from) return;
  const bool one = std::any_of(there.begin(), there.end(), [](const auto& i) { return i.complete; });
  throw Error(Code::config, fmt::format("holds iterations up to {} of another run, which this one would write over",
                                        there.back().iteration),
              dir.string(),
              one ? fmt::format("--load {} continues it; else name another --save", dir.string())
                  : "none of them is complete: name another --save; `mt-ckpt gc` removes what did not end");
}

SaveLock::SaveLock(const fs::path& dir, std::optional<std::int64_t> free_from)
    : fd_(checked(dir, false, [&] { require_free(dir, free_from); }).release()) {}

SaveLock::SaveLock(SaveLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

SaveLock::~SaveLock() {
  if (fd_ >= 0) ::close(fd_);
}

OneSave::OneSave(const fs::path& dir, std::int64_t iteration, bool replace)
    : lock_(checked(dir, true, [&] {
        require_no_iteration(dir);
        require_newest(dir, iteration, replace);
      })) {}

}  // namespace mt
