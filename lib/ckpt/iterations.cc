#include "ckpt/iterations.h"

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "base/files.h"
#include "ckpt/manifest.h"
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

// "iter_0000020" -> 20
std::optional<std::int64_t> iteration_of(const std::string& name) {
  if (name.rfind("iter_", 0) != 0) return std::nullopt;
  const auto v = whole_number(std::string_view(name).substr(5));
  return v && iteration_name(*v) == name ? v : std::nullopt;
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

bool is_folder(const fs::path& path) {
  std::error_code ec;
  return fs::is_directory(path, ec);
}

bool is_there(const fs::path& path) {
  std::error_code ec;
  return fs::exists(path, ec);
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
  return s.empty() ? "no iteration there is complete" : "complete there: " + s;
}

Resolved resolve_asked(const fs::path& root, std::int64_t iteration) {
  const auto dir = root / iteration_name(iteration);
  if (!is_folder(dir))
    throw Error(Code::config, fmt::format("no iteration {} there", iteration), root.string(),
                complete_ones(list_iterations(root)));
  const auto problem = completeness_problem(dir);
  if (!problem.empty())
    throw Error(Code::corrupt, "incomplete checkpoint: " + problem, dir.string(),
                complete_ones(list_iterations(root)));
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

[[noreturn]] void not_ours(const fs::path& dir) {
  const auto format = detect_format(dir);
  throw Error(Code::config,
              format == CheckpointFormat::unknown ? std::string("no checkpoint there")
                                                  : fmt::format("holds a {} checkpoint, not one of mt",
                                                                format_name(format)),
              dir.string(), "give a --save directory or an iter_0000000 in it");
}

}  // namespace

CheckpointFormat detect_format(const fs::path& dir) {
  if (is_there(dir / kManifestName)) return CheckpointFormat::native;
  if (is_there(dir / "metadata.json")) return CheckpointFormat::megatron_torch_dist;
  if (!is_folder(dir)) return CheckpointFormat::unknown;
  bool torch = false, weights = false;
  for (const auto& e : entries_of(dir)) {
    const auto name = e.path().filename().string(), extension = e.path().extension().string();
    torch |= name.rfind("mp_rank_0", 0) == 0;
    weights |= extension == ".safetensors" || extension == ".bin";
  }
  if (torch) return CheckpointFormat::megatron_torch;
  if (is_there(dir / ".metadata")) return CheckpointFormat::torch_dcp;
  if (weights && is_there(dir / "config.json")) return CheckpointFormat::hugging_face;
  return CheckpointFormat::unknown;
}

const char* format_name(CheckpointFormat format) {
  switch (format) {
    case CheckpointFormat::native: return "native";
    case CheckpointFormat::megatron_torch_dist: return "Megatron torch_dist";
    case CheckpointFormat::megatron_torch: return "Megatron torch";
    case CheckpointFormat::torch_dcp: return "torch DCP";
    case CheckpointFormat::hugging_face: return "Hugging Face";
    case CheckpointFormat::unknown: break;
  }
  return "unknown";
}

std::string completeness_problem(const fs::path& dir) {
  if (!is_there(dir / kManifestName)) return "no manifest.json";
  try {
    const auto m = read_manifest(dir);
    for (const auto& f : m.files) {
      std::error_code ec;
      const auto bytes = fs::file_size(dir / f.name, ec);
      if (ec) return fmt::format("{}: {}", f.name, ec.message());
      if (bytes != f.bytes) return fmt::format("{}: wanted {} bytes, found {}", f.name, f.bytes, bytes);
    }
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

std::optional<std::int64_t> read_tracker(const fs::path& root) {
  const auto path = root / kTrackerName;
  std::error_code ec;
  if (!fs::exists(path, ec) && !ec) return std::nullopt;
  auto text = read_file(path);
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r' || text.back() == ' ')) text.pop_back();
  const auto v = whole_number(text);
  if (!v)
    throw Error(Code::corrupt, fmt::format("wanted a whole number of 0 or more, found '{}'", text.substr(0, 40)),
                path.string(), "name an iteration yourself or repair that file");
  return v;
}

Resolved resolve(const fs::path& path, std::optional<std::int64_t> iteration) {
  if (!is_there(path)) throw Error(Code::io, "no such checkpoint directory", path.string());
  if (!is_folder(path)) throw Error(Code::config, "not a directory", path.string());
  // "dir/" has an empty file name; "." may stand for an iter directory.
  const auto clean = fs::weakly_canonical(path);
  if (const auto own = iteration_of(clean.filename().string())) {
    if (iteration && *iteration != *own)
      throw Error(Code::config, fmt::format("wanted iteration {}, this is {}", *iteration, *own), path.string());
    if (!is_there(path / kManifestName) && detect_format(path) != CheckpointFormat::unknown) not_ours(path);
    const auto problem = completeness_problem(path);
    if (!problem.empty()) throw Error(Code::corrupt, "incomplete checkpoint: " + problem, path.string());
    return {path, *own, {}};
  }
  if (is_there(path / kManifestName)) {  // a copied or renamed checkpoint directory
    const auto problem = completeness_problem(path);
    if (!problem.empty()) throw Error(Code::corrupt, "incomplete checkpoint: " + problem, path.string());
    return {path, read_manifest(path).meta.iteration, {}};
  }
  if (iteration) return resolve_asked(path, *iteration);

  const auto tracker = read_tracker(path);
  if (!tracker) {
    if (list_iterations(path).empty()) not_ours(path);
    return newest_complete(path, fmt::format("{}: no {} there", path.string(), kTrackerName));
  }
  const auto dir = path / iteration_name(*tracker);
  if (!is_folder(dir))
    throw Error(Code::corrupt, fmt::format("the tracker names iteration {}, which is not there", *tracker),
                (path / kTrackerName).string(), complete_ones(list_iterations(path)));
  if (!is_there(dir / kManifestName) && detect_format(dir) != CheckpointFormat::unknown) not_ours(dir);
  const auto problem = completeness_problem(dir);
  if (!problem.empty()) return newest_complete(path, fmt::format("{}: {}", dir.string(), problem));
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
      i.problem = "a save that did not end";
    } else {
      if (i.iteration >= from) i.problem = completeness_problem(i.dir);
      i.complete = i.iteration >= from && i.problem.empty();
      i.tracked = tracker == i.iteration;
    }
    out.push_back(std::move(i));
  }
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) {
    return a.iteration != b.iteration ? a.iteration < b.iteration : a.temporary && !b.temporary;
  });
  return out;
}

void remove_directory(const fs::path& dir) {
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
         (name == kManifestName || has_form(name, "data_", ".safetensors") || has_form(name, "rank_", ".json"));
}

// Why a directory stays though it could go, or "".
std::string kept_for(const fs::path& dir) {
  const auto entries = entries_of(dir);
  const auto foreign = std::find_if_not(entries.begin(), entries.end(), is_written_by_a_save);
  if (foreign == entries.end()) return "";
  return fmt::format("{} stays: {} in it is not written by a save", dir.string(), foreign->path().filename().string());
}

}  // namespace

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
    if (auto reason = kept_for(i.dir); !reason.empty()) {
      out.left.push_back(std::move(reason));
      continue;
    }
    if (!dry_run) remove_directory(i.dir);
    out.removed.push_back(i.dir);
  }
  return out;
}

std::optional<fs::path> drop_superseded(const fs::path& root, std::optional<std::int64_t> tracked_before,
                                        std::int64_t committed, std::int64_t interval) {
  if (interval <= 0 || !tracked_before || *tracked_before <= 0) return std::nullopt;
  if (*tracked_before >= committed || *tracked_before % interval == 0) return std::nullopt;
  const auto dir = root / iteration_name(*tracked_before);
  if (!is_folder(dir) || fs::is_symlink(fs::symlink_status(dir))) return std::nullopt;
  remove_directory(dir);
  return dir;
}

Garbage collect_garbage(const fs::path& root, bool dry_run) {
  Garbage out;
  for (const auto& i : list_iterations(root)) {
    if (i.complete || i.tracked) continue;
    if (auto reason = kept_for(i.dir); !reason.empty()) {
      out.left.push_back(std::move(reason));
      continue;
    }
    if (!dry_run) remove_directory(i.dir);
    out.removed.push_back(i.dir);
  }
  return out;
}

void require_save_directory(const fs::path& dir) {
  const auto real = fs::weakly_canonical(dir);  // "." may stand for an iteration
  if (iteration_of(real.filename().string()) || is_there(real / kManifestName))
    throw Error(Code::config, "is an iteration, not a --save directory", dir.string(),
                "give " + real.parent_path().string());
  if (!is_there(dir / kTrackerName) && !is_there(dir / ".lock") && list_iterations(dir).empty())
    throw Error(Code::config, "is no --save directory: no tracker and no iteration there", dir.string());
}

}  // namespace mt
