#include "data/encode_journal.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/error.h"
#include "base/files.h"
#include "base/log.h"

namespace mt::data {

namespace {

constexpr const char* kPhases[] = {"running", "complete", "published"};

Json to_json(const JournalEntry& entry) {
  Json files = Json::array();
  for (const TokenFileMark& mark : entry.files) {
    files.push_back({{"sequences", mark.sequences},
                     {"documents", mark.documents},
                     {"tokens", mark.tokens},
                     {"bin_xxh3", mark.bin_hash}});
  }
  return {{"phase", kPhases[static_cast<int>(entry.phase)]},
          {"at", {entry.at.pass, entry.at.input, entry.at.byte, entry.at.line, entry.at.lines}},
          {"files", files},
          {"rejects_bytes", entry.rejects_bytes},
          {"report", entry.report}};
}

JournalEntry entry_from(const Json& j) {
  JournalEntry entry;
  const auto phase = j.at("phase").get<std::string>();
  for (int i = 0; i < 3; ++i) {
    if (phase == kPhases[i]) entry.phase = static_cast<JournalEntry::Phase>(i);
  }
  const auto at = j.at("at").get<std::vector<std::int64_t>>();
  entry.at = {at.at(0), at.at(1), at.at(2), at.at(3), at.at(4)};
  for (const Json& file : j.at("files")) {
    entry.files.push_back({file.at("sequences").get<std::int64_t>(), file.at("documents").get<std::int64_t>(),
                           file.at("tokens").get<std::int64_t>(), file.at("bin_xxh3").get<std::string>()});
  }
  entry.rejects_bytes = j.at("rejects_bytes").get<std::uint64_t>();
  entry.report = j.at("report");
  return entry;
}

std::string text_of(const Json& value) { return value.is_string() ? value.get<std::string>() : value.dump(); }

}  // namespace

std::optional<EncodeJournal::Found> EncodeJournal::find(const fs::path& path) {
  std::error_code error;
  if (!fs::exists(path, error)) return std::nullopt;
  const std::string text = read_file(path);
  std::optional<Found> found;
  std::size_t at = 0;
  for (std::size_t end; (end = text.find('\n', at)) != std::string::npos; at = end + 1) {
    try {
      const Json line = Json::parse(text.begin() + static_cast<std::ptrdiff_t>(at), text.begin() + static_cast<std::ptrdiff_t>(end));
      if (!found) {
        found.emplace().identity = line.at("identity");
        found->prefixes = line.value("prefixes", std::vector<std::string>());
      }
      else found->last = entry_from(line);
    } catch (const std::exception&) {  // torn by the kill, with everything behind it
      return found;
    }
    found->bytes = end + 1;
  }
  return found;
}

EncodeJournal::EncodeJournal(const fs::path& path, const Json& identity, const std::vector<std::string>& prefixes) : path_(path) {
  fd_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd_ < 0) throw Error(Code::io, "cannot create: " + errno_text(errno), path.string());
  try {
    append({{"mt_journal", 1}, {"identity", identity}, {"prefixes", prefixes}});
    fsync_directory(path.has_parent_path() ? path.parent_path() : fs::path("."));
  } catch (...) {
    ::close(fd_);
    ::unlink(path.c_str());
    throw;
  }
}

EncodeJournal::EncodeJournal(const fs::path& path, const Found& found) : path_(path) {
  fd_ = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd_ < 0) throw Error(Code::io, "cannot open: " + errno_text(errno), path.string());
  const bool cut = ::ftruncate(fd_, static_cast<off_t>(found.bytes)) == 0 && ::lseek(fd_, 0, SEEK_END) >= 0;
  if (cut) return;
  const int why = errno;
  ::close(fd_);
  throw Error(Code::io, "cannot cut: " + errno_text(why), path.string());
}

EncodeJournal::~EncodeJournal() {
  ::close(fd_);
  if (!kept_) ::unlink(path_.c_str());
}

void EncodeJournal::append(const Json& line) {
  const std::string text = line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t n = ::write(fd_, text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw Error(Code::io, "cannot write: " + errno_text(errno), path_.string());
    done += static_cast<std::size_t>(n);
  }
  if (::fdatasync(fd_) != 0) throw Error(Code::io, "cannot fsync: " + errno_text(errno), path_.string());
}

void EncodeJournal::add(const JournalEntry& entry) { append(to_json(entry)); }

namespace {

// The journal of the run that left temporaries of a prefix, if there is one that says how far they are.
std::optional<fs::path> journal_over(const std::string& prefix) {
  const std::vector<fs::path> paths = leftover_paths(prefix);
  const auto speaks = [](const fs::path& path) {
    const auto found = EncodeJournal::find(path);
    return found && found->last ? found : std::nullopt;
  };
  if (speaks(paths.front())) return paths.front();
  std::error_code error;
  if (std::none_of(paths.begin(), paths.end(), [&](const fs::path& path) { return fs::exists(path, error); })) return std::nullopt;
  const fs::path parent = paths.front().has_parent_path() ? paths.front().parent_path() : fs::path(".");
  for (fs::directory_iterator entry(parent, error), end; !error && entry != end; entry.increment(error)) {
    if (entry->path().extension() != paths.front().extension()) continue;
    const auto found = speaks(entry->path());
    if (!found) continue;
    for (const std::string& of_run : found->prefixes) {
      if (fs::path(of_run).filename() == fs::path(prefix).filename()) return entry->path();
    }
  }
  return std::nullopt;
}

}  // namespace

void refuse_resumable(const std::string& prefix, bool force) {
  const std::optional<fs::path> journal = journal_over(prefix);
  if (!journal) return;
  if (!force) {
    throw Error(Code::io, "a run that was killed left work here which can be gone on with", journal->string(),
                "mt-preprocess encode --resume goes on with it, --force throws it away");
  }
  log::info("{}: what a killed run left is thrown away, --resume would have gone on with it", journal->string());
}

std::string first_difference(const Json& was, const Json& is) {
  for (const auto& [key, value] : is.items()) {
    const Json old = was.contains(key) ? was.at(key) : Json();
    if (old == value) continue;
    if (key != "inputs" || !old.is_array()) return fmt::format("{} was {}, is {}", key, text_of(old), text_of(value));
    for (std::size_t i = 0; i < std::max(old.size(), value.size()); ++i) {
      const Json before = i < old.size() ? old[i] : Json(), now = i < value.size() ? value[i] : Json();
      if (before != now) return fmt::format("input {} was {}, is {}", i + 1, text_of(before), text_of(now));
    }
  }
  return "";
}

}  // namespace mt::data
