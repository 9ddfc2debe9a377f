#include "ckpt/iterations.h"

#include <algorithm>
#include <cerrno>
#include <charconv>

#include <fcntl.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files.h"
#include "ckpt/manifest.h"
#include "ckpt/packed_file.h"
#include "ckpt/store.h"

namespace mt {
namespace {

constexpr const char* kRemovedSuffix = ".removed.tmp";

std::optional<std::int64_t> whole_number(std::string_view s) {
  std::int64_t v = 0;
  const auto [end, ec] = std::from_chars(s.data(), s.data() + s.size(), v);
  if (ec != std::errc() || end != s.data() + s.size() || v < 0) return std::nullopt;
  return v;
}

// ".iter_0000020.tmp", ".iter_0000020.removed.tmp" -> 20
std::optional<std::int64_t> temporary_iteration_of(const std::string& name) {
  if (name.size() < 6 || name[0] != '.') return std::nullopt;
  auto inner = name.substr(1);
  for (const std::string& suffix : {std::string(kRemovedSuffix), std::string(".tmp")})
    if (inner.size() > suffix.size() && inner.compare(inner.size() - suffix.size(), suffix.size(), suffix) == 0)
      return iteration_of(inner.substr(0, inner.size() - suffix.size()));
  return std::nullopt;
}

std::vector<fs::directory_entry> entries_of(const fs::path& dir) {
  std::error_code ec;
  fs::directory_iterator it(dir, ec);
  if (ec) throw Error(Code::io, "cannot list directory: " + ec.message(), dir.string());
  std::vector<fs::directory_entry> out;
  for (const fs::directory_iterator end; it != end; it.increment(ec)) {
    if (ec) throw Error(Code::io, "cannot list directory: " + ec.message(), dir.string());
    out.push_back(*it);
  }
  return out;
}

std::string complete_ones(const std::vector<IterationInfo>& all) {
  std::string s;
  for (const auto& i : all)
    if (i.complete && !i.temporary) s += fmt::format("{}{}", s.empty() ? "" : ", ", i.iteration);
  if (!s.empty()) return "complete there: " + s;
  const auto other = std::find_if(all.begin(), all.end(), [](const IterationInfo& i) { return is_foreign(detect_format(i.dir)); });
  if (other == all.end()) return "no iteration there is complete";
  return fmt::format("what is there is another program's: mt-ckpt convert --load {} makes one of it", other->dir.string());
}

[[noreturn]] void not_ours(const fs::path& path) {
  const auto format = detect_format(path);
  if (!is_foreign(format)) throw Error(Code::config, "no checkpoint there", path.string(), "give a --save directory or an iter_0000000 in it");
  throw Error(Code::config, fmt::format("holds a {} checkpoint, not one of mt", format_name(format)), path.string(),
              fmt::format("mt-ckpt convert --load {} makes one of it", path.string()));
}

Resolved resolve_asked(const fs::path& root, std::int64_t iteration) {
  const auto dir = root / iteration_name(iteration);
  if (!is_present(dir) || !is_folder(dir))
    throw Error(Code::config, fmt::format("no iteration {} there", iteration), root.string(),
                complete_ones(list_iterations(root)));
  if (is_foreign(detect_format(dir))) not_ours(dir);
  if (const auto c = condition_of(dir); !c.complete()) throw c.error(dir, complete_ones(list_iterations(root)));
  return {dir, iteration, {}};
}

Resolved newest_complete(const fs::path& root, std::string reason) {
  const auto all = list_iterations(root);
  Resolved r;
  if (!reason.empty()) r.ignored.push_back(std::move(reason));
  const IterationInfo* best = nullptr;
  bool damaged = false;
  for (const auto& i : all) {
    if (i.complete && !i.temporary) best = &i;
    else damaged |= !i.temporary;
    if (!i.complete && !i.tracked)
      r.ignored.push_back(fmt::format("{}: {}", i.dir.string(), i.problem));
  }
  for (const auto& i : all)
    if (!i.temporary && !i.complete && (!best || i.iteration > best->iteration) && !i.condition().can_be_passed_over())
      throw i.condition().error(i.dir);
  if (!best)
    throw Error(damaged ? Code::corrupt : Code::config,
                r.ignored.empty() ? "no checkpoint there" : "no complete checkpoint there: " + r.ignored[0],
                root.string());
  r.dir = best->dir;
  r.iteration = best->iteration;
  return r;
}

std::vector<IterationInfo> scan(const fs::path& root, std::int64_t from);

// What lies beside the chosen one and is not a checkpoint, or is newer than what the tracker says.
void note_leftovers(const fs::path& root, Resolved& r) {
  for (const auto& i : scan(root, r.iteration + 1)) {
    if (i.temporary) r.ignored.push_back(fmt::format("{}: {}", i.dir.string(), i.problem));
    else if (i.iteration > r.iteration)
      r.ignored.push_back(fmt::format("{}: {}", i.dir.string(),
                                      i.complete ? "newer than the one the tracker names" : i.problem));
  }
}

}  // namespace

std::optional<std::int64_t> read_tracker(const fs::path& root) {
  const auto path = root / kTrackerName;
  if (!is_present(path)) return std::nullopt;
  auto text = read_file(path);
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r' || text.back() == ' ')) text.pop_back();
  const auto v = whole_number(text);
  if (!v)
    throw Error(Code::corrupt, fmt::format("wanted a whole number of 0 or more, found '{}'", text.substr(0, 40)),
                path.string(), "name an iteration yourself or repair that file");
  return v;
}

Resolved resolve(const fs::path& path, std::optional<std::int64_t> iteration) {
  if (!is_present(path)) throw Error(Code::io, "no such checkpoint directory", path.string());
  if (!is_folder(path)) {
    if (is_foreign(detect_format(path))) not_ours(path);
    throw Error(Code::config, "not a directory", path.string());
  }
  // "dir/" has an empty file name; "." may stand for an iter directory.
  const auto clean = fs::weakly_canonical(path);
  if (const auto own = iteration_of(clean.filename().string())) {
    if (iteration && *iteration != *own)
      throw Error(Code::config, fmt::format("wanted iteration {}, this is {}", *iteration, *own), path.string());
    if (is_foreign(detect_format(path))) not_ours(path);
    if (const auto c = condition_of(path); !c.complete()) throw c.error(path);
    return {path, *own, {}};
  }
  if (is_there(path / kManifestName)) {  // a copied or renamed checkpoint directory
    if (const auto c = condition_of(path); !c.complete()) throw c.error(path);
    return {path, read_manifest(path).meta.iteration, {}};
  }
  if (iteration) return resolve_asked(path, *iteration);

  // What Megatron's tracker calls "release".
  if (const auto released = path / "release"; is_foreign(detect_format(released)) && list_iterations(path).empty()) not_ours(released);
  const auto tracker = read_tracker(path);
  if (!tracker) {
    if (list_iterations(path).empty()) not_ours(path);
    return newest_complete(path, fmt::format("{}: no {} there", path.string(), kTrackerName));
  }
  const auto dir = path / iteration_name(*tracker);
  if (!is_present(dir) || !is_folder(dir))
    throw Error(Code::corrupt, fmt::format("the tracker names iteration {}, which is not there", *tracker),
                (path / kTrackerName).string(), complete_ones(list_iterations(path)));
  if (is_foreign(detect_format(dir))) not_ours(dir);
  if (const auto c = condition_of(dir); !c.complete()) {
    if (!c.can_be_passed_over()) throw c.error(dir);
    return newest_complete(path, fmt::format("{}: {}", dir.string(), c.problem));
  }
  Resolved r{dir, *tracker, {}};
  note_leftovers(path, r);
  return r;
}

namespace {

// Completeness is asked only from iteration `from` on: a start need not read the manifests of a whole history.
std::vector<IterationInfo> scan(const fs::path& root, std::int64_t from) {
  std::optional<std::int64_t> tracker;
  try {
    tracker = read_tracker(root);
  } catch (const Error&) {  // said by resolve(); listing still shows what is there
  }
  std::vector<IterationInfo> out;
  for (const auto& e : entries_of(root)) {
    const auto name = e.path().filename().string();
    IterationInfo i;
    i.dir = e.path();
    if (!is_folder(i.dir)) continue;
    if (const auto n = iteration_of(name)) i.iteration = *n;
    else if (const auto t = temporary_iteration_of(name)) i.iteration = *t, i.temporary = true;
    else continue;
    if (i.temporary) {
      i.soundness = Soundness::unfinished;
      i.problem = "a save that did not end";
    } else {
      if (i.iteration >= from) {
        auto c = condition_of(i.dir);
        i.soundness = c.is;
        i.complete = c.complete();
        i.problem = std::move(c.problem);
      }
      i.tracked = tracker == i.iteration;
    }
    out.push_back(std::move(i));
  }
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) {
    return a.iteration != b.iteration ? a.iteration < b.iteration : a.temporary && !b.temporary;
  });
  return out;
}

// Found out before its name changes: entries cannot go from a directory that may not be written.
void require_removable(const fs::path& dir) {
  if (fs::is_symlink(fs::symlink_status(dir))) return;
  if (::faccessat(AT_FDCWD, dir.c_str(), R_OK | W_OK | X_OK, AT_EACCESS) != 0)
    throw Error(Code::io, "cannot remove: " + errno_text(errno), dir.string());
}

void remove_directory(const fs::path& dir) {
  require_removable(dir);
  std::error_code ec;
  const auto doomed = dir.filename().string()[0] == '.'
                          ? dir
                          : dir.parent_path() / ("." + dir.filename().string() + kRemovedSuffix);
  if (doomed != dir) {
    fs::remove_all(doomed, ec);
    fs::rename(dir, doomed, ec);
    if (ec) throw Error(Code::io, "cannot rename: " + ec.message(), dir.string());
    fsync_directory(dir.parent_path());
  }
  fs::remove_all(doomed, ec);
  if (ec) throw Error(Code::io, "cannot remove: " + ec.message(), doomed.string());
}

}  // namespace

std::vector<IterationInfo> list_iterations(const fs::path& root) { return scan(root, 0); }

bool holds_no_checkpoint(const fs::path& root) {
  if (!is_present(root)) return true;
  if (!is_folder(root) || detect_format(root) != CheckpointFormat::unknown || read_tracker(root)) return false;
  const auto all = list_iterations(root);
  return std::all_of(all.begin(), all.end(), [](const auto& i) { return i.temporary; });
}

namespace {

bool has_form(const std::string& name, const std::string& head, const std::string& tail) {
  if (name.size() <= head.size() + tail.size() || name.compare(0, head.size(), head) != 0) return false;
  if (name.compare(name.size() - tail.size(), tail.size(), tail) != 0) return false;
  return whole_number(std::string_view(name).substr(head.size(), name.size() - head.size() - tail.size())).has_value();
}

// What a save writes into an iteration's directory, under its last name or the one that it is written as.
bool is_written_by_a_save(const fs::directory_entry& entry) {
  auto name = entry.path().filename().string();
  const auto dot = name.rfind(".tmp.");
  if (dot != std::string::npos && whole_number(std::string_view(name).substr(dot + 5))) name.resize(dot);
  std::error_code ec;
  return entry.is_regular_file(ec) &&
         (name == kManifestName || has_form(name, "data_", ".safetensors") || has_form(name, "rank_", ".json") ||
          has_form(name, "data_", std::string(".safetensors") + kPackedSuffix));
}

// Why a directory stays though it could go, or "".
std::string kept_for(const fs::path& dir) {
  const auto foreign = foreign_entry(dir);
  return foreign.empty() ? "" : fmt::format("{} stays: {} in it is not written by a save", dir.string(), foreign);
}

//   damage  what is wrong with it that is no reason to remove it; ""
void remove_unless_foreign(const fs::path& dir, const std::string& damage, bool dry_run, Garbage& out) {
  try {
    if (auto reason = kept_for(dir); !reason.empty()) {
      out.left.push_back(std::move(reason));
      return;
    }
    if (!damage.empty()) throw Error(Code::corrupt, damage);
    if (dry_run) require_removable(dir);
    else remove_directory(dir);
    out.removed.push_back(dir);
  } catch (const Error& e) {
    out.leave(dir, e.what(), e.code());
  }
}

}  // namespace

std::string foreign_entry(const fs::path& dir) {
  std::error_code ec;
  if (!fs::is_directory(dir, ec)) return "";
  const auto entries = entries_of(dir);
  const auto foreign = std::find_if_not(entries.begin(), entries.end(), is_written_by_a_save);
  return foreign == entries.end() ? "" : foreign->path().filename().string();
}

Garbage retain(const fs::path& root, const RetainPolicy& policy, bool dry_run) {
  Garbage out;
  if (policy.keep_newest <= 0) return out;
  std::vector<IterationInfo> complete;
  bool tracked = false;
  for (auto& i : list_iterations(root))
    if (i.complete) {
      tracked |= i.tracked;
      complete.push_back(std::move(i));
    }
  // Without a sound tracker nobody knows which one the next start takes; all stay.
  if (!tracked) return out;
  const auto newest = complete.size() - std::min(complete.size(), static_cast<std::size_t>(policy.keep_newest));
  for (std::size_t k = 0; k < newest; ++k) {
    const auto& i = complete[k];
    if (i.tracked || (policy.keep_interval > 0 && i.iteration % policy.keep_interval == 0)) continue;
    remove_unless_foreign(i.dir, "", dry_run, out);
  }
  return out;
}

std::optional<fs::path> drop_superseded(const fs::path& root, std::optional<std::int64_t> tracked_before,
                                        std::int64_t committed, std::int64_t interval) {
  if (interval <= 0 || !tracked_before || *tracked_before <= 0) return std::nullopt;
  if (*tracked_before >= committed || *tracked_before % interval == 0) return std::nullopt;
  const auto dir = root / iteration_name(*tracked_before);
  if (!is_folder(dir) || fs::is_symlink(fs::symlink_status(dir))) return std::nullopt;
  if (const auto reason = kept_for(dir); !reason.empty()) throw Error(Code::config, reason);
  remove_directory(dir);
  return dir;
}

Garbage collect_garbage(const fs::path& root, bool dry_run) {
  Garbage out;
  for (const auto& i : list_iterations(root)) {
    if (i.complete) continue;
    if (!i.temporary && !i.condition().can_be_passed_over()) {
      out.leave(i.dir, i.problem, i.condition().error(i.dir).code());
      continue;
    }
    if (!i.tracked) remove_unless_foreign(i.dir, i.soundness == Soundness::damaged ? i.problem : "", dry_run, out);
  }
  return out;
}

void Garbage::leave(const fs::path& dir, const std::string& reason, Code code) {
  left.push_back(fmt::format("{} stays: {}", dir.string(), reason));
  if (!failed || *failed == Code::corrupt) failed = code;
}

void require_no_iteration(const fs::path& dir) {
  const auto real = fs::weakly_canonical(dir);  // "." may stand for an iteration
  auto own = fs::absolute(dir).lexically_normal();
  if (!own.has_filename()) own = own.parent_path();
  const bool named = iteration_of(own.filename().string()).has_value();  // it may be a link to one that lies elsewhere
  if (named || iteration_of(real.filename().string()) || is_there(real / kManifestName)) {
    const auto parent = named ? own.parent_path() : real.parent_path();
    const bool saves = is_folder(parent) && (is_there(parent / kTrackerName) || !list_iterations(parent).empty());
    throw Error(Code::config, "is an iteration, not a --save directory", dir.string(),
                saves ? "give " + parent.string() : "name another directory");
  }
  for (auto above = real.parent_path(); above.has_relative_path(); above = above.parent_path())
    if (iteration_of(above.filename().string()) && is_there(above / kManifestName))
      throw Error(Code::config, "is inside a checkpoint, " + above.string(), dir.string(), "name another --save");
}

void require_save_directory(const fs::path& dir) {
  require_no_iteration(dir);
  if (!is_there(dir / kTrackerName) && !is_there(dir / ".lock") && list_iterations(dir).empty())
    throw Error(Code::config, "is no --save directory: no tracker and no iteration there", dir.string());
}

}  // namespace mt
