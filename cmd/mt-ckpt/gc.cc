#include <algorithm>
#include <memory>

#include "base/error.h"
#include "base/log.h"
#include "ckpt/save_lock.h"
#include "mt-ckpt/commands.h"

namespace mt {
namespace {

struct Arguments {
  std::vector<std::string> paths;
  int keep_newest = 0;
  std::int64_t retain_interval = 0;
  bool dry_run = false;
};

void tell(const std::filesystem::path& dir, const char* reason, const Arguments& a, bool json) {
  const std::string act = a.dry_run ? "would remove" : "removed";
  if (json) cli::object({{"act", act}, {"reason", reason}, {"path", dir.string()}});
  else cli::row({act, reason, dir.string()});
}

int collect(const Arguments& a, bool json) {
  const auto root = only_argument(a.paths, "DIRECTORY");
  if (a.keep_newest < 0) throw Error(Code::usage, fmt::format("{} is below 0", a.keep_newest), "--keep-newest");
  if (a.retain_interval < 0)
    throw Error(Code::usage, fmt::format("{} is below 0", a.retain_interval), "--save-retain-interval");
  if (!std::filesystem::is_directory(root)) throw Error(Code::io, "no such checkpoint directory", root);
  require_save_directory(root);
  RetainPolicy policy{a.keep_newest, a.retain_interval};
  if (policy.keep_interval > 0) policy.keep_newest = std::max(1, policy.keep_newest);
  // What a running job is writing is no garbage. Where no job ever locked and nothing goes, no lock is left behind.
  std::optional<SaveLock> lock;
  if (std::filesystem::exists(std::filesystem::path(root) / ".lock") ||
      (!a.dry_run && (!collect_garbage(root, true).removed.empty() || !retain(root, policy, true).removed.empty())))
    lock.emplace(root, std::nullopt);
  if (!json) cli::row({"act", "reason", "path"});
  std::size_t count = 0;
  const Garbage garbage = collect_garbage(root, a.dry_run);
  for (const auto& dir : garbage.removed) tell(dir, "unfinished", a, json), ++count;
  const Garbage old = retain(root, policy, a.dry_run);
  for (const auto& dir : old.removed) tell(dir, "not retained", a, json), ++count;
  for (const auto* left : {&garbage.left, &old.left})
    for (const auto& sentence : *left) log::warn("{}", sentence);
  for (const Garbage* part : {&garbage, &old})
    if (part->failed)
      throw Error(*part->failed, fmt::format("{} of what is there stays, the first: {}", part->left.size(), part->left[0]), root);
  if (count == 0) log::info("nothing to remove in {}", root);
  return 0;
}

}  // namespace

cli::Command gc_command() {
  return {"gc", "remove saves that did not end and, when asked, old checkpoints",
          [](OptionTable& table, const cli::Shared& shared) -> std::function<int()> {
            auto a = std::make_shared<Arguments>();
            table.positional(a->paths, "DIRECTORY", "a --save directory that no run is saving to");
            table.add("dry-run", a->dry_run, "", "only say what would go");
            table.add("keep-newest", a->keep_newest, "N", "of complete ones keep the newest N; 0: all");
            table.add("save-retain-interval", a->retain_interval, "N",
                      "keep multiples of N and the newest alone; 0: all");
            return [a, &shared] { return collect(*a, shared.json); };
          }};
}

}  // namespace mt
