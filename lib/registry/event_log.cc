#include "registry/event_log.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <ctime>
#include <fstream>
#include <random>

#include "base/error.h"
#include "base/files.h"

namespace mt {
namespace {

constexpr std::array<std::string_view, 6> kEvents = {"run", "step", "checkpoint", "evaluation", "plan", "end"};

[[noreturn]] void fail(const char* act, const fs::path& path, int error_number) {
  throw Error(Code::io, fmt::format("cannot {}: {}", act, errno_text(error_number)), path.string());
}

std::tm utc_now(long& milliseconds) {
  std::timespec now{};
  std::timespec_get(&now, TIME_UTC);
  milliseconds = now.tv_nsec / 1000000;
  std::tm t{};
  ::gmtime_r(&now.tv_sec, &t);
  return t;
}

std::int64_t whole(const Json& j, const char* key) {
  const auto it = j.find(key);
  return it != j.end() && it->is_number_integer() ? it->get<std::int64_t>() : -1;
}

std::string text(const Json& j, const char* key) {
  const auto it = j.find(key);
  return it != j.end() && it->is_string() ? it->get<std::string>() : "";
}

}  // namespace

bool is_event(std::string_view name) {
  for (const auto e : kEvents)
    if (e == name) return true;
  return false;
}

std::string utc_time_text() {
  long ms = 0;
  const auto t = utc_now(ms);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", t.tm_year + 1900, t.tm_mon + 1, t.tm_mday, t.tm_hour,
                     t.tm_min, t.tm_sec, ms);
}

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
}

std::string new_run_id() {
  long ms = 0;
  const auto t = utc_now(ms);
  std::random_device device;
  const std::uint64_t random = (static_cast<std::uint64_t>(device()) << 32 | device()) & 0xffffffffffffull;
  return fmt::format("{:04}{:02}{:02}-{:02}{:02}{:02}-{:012x}", t.tm_year + 1900, t.tm_mon + 1, t.tm_mday, t.tm_hour,
                     t.tm_min, t.tm_sec, random);
}

Json run_event(const std::string& tool, const std::string& version, const Json& options) {
  return {{"event", "run"},      {"time", utc_time_text()}, {"run_id", new_run_id()}, {"tool", tool},
          {"version", version}, {"host", host_name()},     {"options", options}};
}

Json end_event(const std::string& status, double seconds) {
  return {{"event", "end"}, {"time", utc_time_text()}, {"status", status}, {"seconds", seconds}};
}

std::string first_run_id(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::string line;
  while (std::getline(in, line)) {
    const auto j = Json::parse(line, nullptr, false);
    if (j.is_object() && text(j, "event") == "run" && !text(j, "run_id").empty()) return text(j, "run_id");
  }
  return "";
}

// A single line without its end is a killed writer's.
void require_event_log(const fs::path& path) {
  std::error_code ec;
  if (fs::is_directory(path, ec))
    throw Error(Code::config, "is a directory, not a record of a run", path.string(), "name a file in it");
  if (!fs::is_regular_file(path, ec)) return;
  std::ifstream in(path, std::ios::binary);
  std::string line;
  if (!std::getline(in, line) || in.eof()) {
    if (line.empty() || line[0] == '{') return;
  } else if (const auto j = Json::parse(line, nullptr, false); j.is_object() && is_event(text(j, "event"))) {
    return;
  }
  throw Error(Code::config, "is no event file: its first line is no event", path.string(),
              "name a new file, or the run.jsonl of this run");
}

fs::path event_log_beside(const fs::path& path, const std::string& run_id) {
  return path.parent_path() / fmt::format("{}-{}{}", path.stem().string(), run_id, path.extension().string());
}

bool is_event_log_name(const fs::path& path) {
  return path.extension() == ".jsonl" && (path.stem() == "run" || path.stem().string().rfind("run-", 0) == 0);
}

EventLog EventLog::start_new(const fs::path& path, fs::path* moved) {
  std::error_code ec;
  const std::string id = new_run_id();
  if (!fs::is_regular_file(path, ec) || fs::file_size(path, ec) == 0) return EventLog(path, id);
  require_event_log(path);
  const std::string old = first_run_id(path);
  if (old.empty()) return EventLog(path, id);
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const bool alive = fd >= 0 && ::flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  if (fd >= 0) ::close(fd);
  if (alive) return EventLog(event_log_beside(path, id), id);
  const auto beside = event_log_beside(path, old);
  fs::rename(path, beside, ec);
  if (ec) fail("move an earlier run's record aside", path, ec.value());
  if (moved) *moved = beside;
  return EventLog(path, id);
}

EventLog::EventLog(const fs::path& path) : EventLog(path, "") {}

EventLog::EventLog(const fs::path& path, const std::string& new_id) : path_(path) {
  require_event_log(path);
  fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (fd_ < 0) fail("open for appending", path, errno);
  try {
    struct stat st {};
    if (::fstat(fd_, &st) != 0) fail("stat", path, errno);
    char last = '\n';
    if (S_ISREG(st.st_mode) && st.st_size > 0 && ::pread(fd_, &last, 1, st.st_size - 1) != 1) fail("read", path, errno);
    if (last != '\n' && ::write(fd_, "\n", 1) != 1) fail("write", path, errno);
    if (S_ISREG(st.st_mode)) run_id_ = first_run_id(path);
    // Held while the run lives, so that a new run does not move the file away. A resumed run may find it held by a
    // process that is about to end, and goes on.
    if (S_ISREG(st.st_mode)) (void)!::flock(fd_, LOCK_SH | LOCK_NB);
  } catch (...) {
    ::close(fd_);
    throw;
  }
  resumed_ = !run_id_.empty();
  if (!resumed_) run_id_ = new_id.empty() ? new_run_id() : new_id;
}

EventLog::EventLog(EventLog&& other) noexcept
    : path_(std::move(other.path_)), run_id_(std::move(other.run_id_)), resumed_(other.resumed_), fd_(other.fd_) {
  other.fd_ = -1;
}

EventLog::~EventLog() {
  if (fd_ >= 0) ::close(fd_);
}

void EventLog::append(Json event) {
  MT_CHECK(event.is_object() && is_event(text(event, "event")), "{}", json_line(event));
  if (!event.contains("time")) event["time"] = utc_time_text();
  if (event["event"] == "run") {
    if (!event.contains("run_id")) event["run_id"] = run_id_;
    if (!event.contains("host")) event["host"] = host_name();
  }
  const auto line = json_line(event) + "\n";
  const auto n = ::write(fd_, line.data(), line.size());
  if (n < 0) fail("write", path_, errno);
  if (static_cast<std::size_t>(n) == line.size()) return;
  // Cut by a full disk: take the piece back, so that the file stays whole lines.
  struct stat st {};
  if (::fstat(fd_, &st) == 0 && st.st_size >= n) (void)!::ftruncate(fd_, st.st_size - n);
  fail("write", path_, ENOSPC);
}

void EventLog::sync() {
  if (::fsync(fd_) != 0 && errno != EINVAL && errno != EROFS) fail("fsync", path_, errno);
}

void RunRecord::add(const std::string& line) {
  auto j = Json::parse(line, nullptr, false);
  const auto event = j.is_object() ? text(j, "event") : "";
  const auto iteration = j.is_object() ? whole(j, "iteration") : -1;
  if (event == "run" && !text(j, "run_id").empty()) {
    if (run_id.empty()) run_id = text(j, "run_id");
    runs.push_back(std::move(j));
    ended = false;
  } else if (event == "step" && iteration >= 0) {
    steps[iteration] = std::move(j);
  } else if (event == "checkpoint" && iteration >= 0) {
    Json& known = checkpoints[iteration];
    if (known.is_object() && j.contains("durable_s"))  // the save stays what it was, and is elsewhere now, too
      for (const char* key : {"path", "durable_s"}) known[key] = j[key];
    else known = std::move(j);
  } else if (event == "evaluation") {
    auto name = text(j, "name");
    evaluations[{iteration, std::move(name)}] = std::move(j);
  } else if (event == "plan") {
    plans.push_back(std::move(j));
  } else if (event == "end") {
    ends.push_back(std::move(j));
    ended = true;
  } else {
    ++skipped_lines;
  }
}

std::vector<std::string> read_event_lines(const fs::path& path, std::uint64_t offset, std::uint64_t& end) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw Error(Code::io, "cannot open for reading: " + errno_text(errno), path.string());
  in.seekg(static_cast<std::streamoff>(offset));
  const std::string all((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  if (in.bad()) throw Error(Code::io, "cannot read", path.string());
  std::vector<std::string> lines;
  std::size_t at = 0;
  for (std::size_t nl; (nl = all.find('\n', at)) != std::string::npos; at = nl + 1)
    if (nl > at) lines.push_back(all.substr(at, nl - at));
  end = offset + at;
  return lines;
}

RunRecord read_event_log(const fs::path& path) {
  RunRecord r;
  for (const auto& line : read_event_lines(path, 0, r.bytes)) r.add(line);
  return r;
}

}  // namespace mt
