#include "train/trace_file.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/json.h"
#include "base/log.h"
#include "registry/trace_summary.h"

namespace mt {

namespace {

constexpr auto kFollowEvery = std::chrono::seconds(1);

// A trace that stands there is moved to the first name "trace.1.json", "trace.2.json", … that is free.
void keep_earlier(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (!fs::is_regular_file(path, error) || fs::file_size(path, error) == 0 || error) return;
  const fs::path was = path;
  for (int n = 1;; ++n) {
    const fs::path to = was.parent_path() / fmt::format("{}.{}{}", was.stem().string(), n, was.extension().string());
    if (fs::exists(fs::symlink_status(to, error))) continue;
    fs::rename(was, to, error);
    if (error) log::warn("{} is an earlier run's trace and is overwritten: {}", path, error.message());
    else log::info("{} was an earlier run's trace and is now {}", path, to.string());
    return;
  }
}

}  // namespace

bool may_hold_trace(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::string start(kTraceBegins.size(), '\0');
  in.read(start.data(), static_cast<std::streamsize>(start.size()));
  return in.gcount() == 0 ? in.eof() : start == kTraceBegins;
}

TraceFile::TraceFile(const std::string& path, const std::string& process, const std::vector<std::string>& row_names,
                     Communicator& world)
    : path_(path), world_(world) {
  if (world.rank() != 0) return;
  keep_earlier(path);
  file_.reset(std::fopen(path.c_str(), "wb"));
  if (!file_) {
    log::warn("the trace cannot be written to {}: {}", path, std::strerror(errno));
    return;
  }
  std::string head = fmt::format("{}\"args\":{{\"name\":{}}}}}", kTraceBegins, Json(process).dump());
  for (std::size_t r = 0; r < row_names.size(); ++r)
    head += fmt::format(
        ",\n{{\"ph\":\"M\",\"pid\":0,\"tid\":{0},\"name\":\"thread_name\",\"args\":{{\"name\":{1}}}}}"
        ",\n{{\"ph\":\"M\",\"pid\":0,\"tid\":{0},\"name\":\"thread_sort_index\",\"args\":{{\"sort_index\":{0}}}}}",
        r, Json(row_names[r]).dump());
  write(head);
}

void TraceFile::write(const std::string& text) {
  if (!file_ || text.empty()) return;
  if (std::fwrite(text.data(), 1, text.size(), file_.get()) == text.size() && std::fflush(file_.get()) == 0) return;
  log::warn("the trace {}: {}; nothing more is written there", path_, std::strerror(errno));
  file_.reset();
}

void TraceFile::gather(Timeline& mine, Stream& stream) {
  for (const auto& text : gather_texts(world_, stream, mine.take_events(world_.rank())))
    if (!text.empty()) write(",\n" + text);
  last_ = std::chrono::steady_clock::now();
}

void TraceFile::follow(Timeline& mine, Stream& stream) {
  std::int64_t due = file_ != nullptr && std::chrono::steady_clock::now() - last_ >= kFollowEvery ? 1 : 0;
  world_.broadcast(stream, View(&due, DType::i64, {1}), 0).wait_host();
  if (due != 0) gather(mine, stream);
}

void TraceFile::finish(Timeline& mine, Stream& stream) {
  gather(mine, stream);
  if (mine.dropped() > 0)
    log::warn("the trace is full at {} spans a rank: {} later ones are not in it", Timeline::kMaxSpans, mine.dropped());
  if (!file_) return;
  write("\n]\n");
  if (!file_) return;
  log::info("the trace of {} ranks is in {}; mt-runs trace {} adds it up", world_.size(), path_, path_);
  if (std::fclose(file_.release()) != 0) log::warn("the trace {}: {}", path_, std::strerror(errno));
}

}  // namespace mt
