#include "registry/index.h"

#include "base/error.h"
#include "base/files.h"
#include "base/log.h"
#include "registry/database.h"
#include "registry/event_log.h"

namespace mt {
namespace {

std::string text(const Json& j, const char* key) {
  const auto it = j.find(key);
  return it != j.end() && it->is_string() ? it->get<std::string>() : "";
}

// Writes what a record says about one run; every statement replaces what stood there for the same iteration.
class RunWriter {
 public:
  RunWriter(Database& db, std::string run_id, std::string source)
      : db_(db), run_id_(std::move(run_id)), source_(std::move(source)) {}

  void write(const RunRecord& r) {
    for (const auto& run : r.runs) start(run);
    Statement steps(db_,
                    "INSERT OR REPLACE INTO steps(run_id, iteration, consumed_samples, loss, grad_norm, learning_rate, "
                    "step_s, tokens_per_s, tflops, mfu, line) VALUES(?,?,?,?,?,?,?,?,?,?,?)");
    for (const auto& [iteration, j] : r.steps) {
      steps.text(run_id_).number(iteration);
      for (const char* key : {"consumed_samples", "loss", "grad_norm", "learning_rate", "step_s", "tokens_per_s", "tflops", "mfu"})
        steps.field(j, key);
      steps.text(json_line(j)).run();
    }
    Statement checkpoints(db_,
                          "INSERT OR REPLACE INTO checkpoints(run_id, iteration, path, bytes, seconds, line) "
                          "VALUES(?,?,?,?,?,?)");
    for (const auto& [iteration, j] : r.checkpoints)
      checkpoints.text(run_id_).number(iteration).field(j, "path").field(j, "bytes").field(j, "seconds").text(json_line(j)).run();
    Statement evaluations(db_, "INSERT OR REPLACE INTO evaluations(run_id, iteration, name, line) VALUES(?,?,?,?)");
    for (const auto& [key, j] : r.evaluations)
      evaluations.text(run_id_).number(key.first).text(key.second).text(json_line(j)).run();
    Statement plans(db_,
                    "INSERT INTO plans(run_id, ordinal, line) VALUES(?1, "
                    "(SELECT count(*) FROM plans WHERE run_id = ?1), ?2)");
    for (const auto& j : r.plans) plans.text(run_id_).text(json_line(j)).run();
    if (r.ended) finish(r.ends.back());
  }

 private:
  void start(const Json& run) {
    Statement s(db_,
                "INSERT INTO runs(run_id, tool, version, host, started, status, starts, source, line) "
                "VALUES(?,?,?,?,?,'running',1,?,?) ON CONFLICT(run_id) DO UPDATE SET version = excluded.version, "
                "host = excluded.host, status = 'running', ended = NULL, starts = starts + 1, line = excluded.line");
    s.text(run_id_).field(run, "tool").field(run, "version").field(run, "host").field(run, "time");
    s.text(source_).text(json_line(run)).run();
    Statement clear(db_, "DELETE FROM options WHERE run_id = ?");
    clear.text(run_id_).run();
    const auto options = run.find("options");
    if (options == run.end() || !options->is_object()) return;
    Statement o(db_, "INSERT OR REPLACE INTO options(run_id, name, value) VALUES(?,?,?)");
    for (const auto& [name, value] : options->items())
      o.text(run_id_).text(name).text(value.is_string() ? value.get<std::string>() : json_line(value)).run();
  }
  void finish(const Json& end) {
    Statement s(db_, "UPDATE runs SET status = ?, ended = ? WHERE run_id = ?");
    const auto status = text(end, "status");
    s.text(status.empty() ? "ended" : status).field(end, "time").text(run_id_).run();
  }

  Database& db_;
  std::string run_id_, source_;
};

void forget_run(Database& db, const std::string& run_id) {
  for (const char* table : {"runs", "options", "steps", "checkpoints", "evaluations", "plans"}) {
    Statement s(db, fmt::format("DELETE FROM {} WHERE run_id = ?", table).c_str());
    s.text(run_id).run();
  }
}

struct Followed {
  std::string run_id;
  std::uint64_t bytes = 0;
};

Followed followed(Database& db, const std::string& path) {
  Statement s(db, "SELECT run_id, bytes FROM sources WHERE path = ?");
  s.text(path);
  if (!s.step()) return {};
  return {s.text_at(0), static_cast<std::uint64_t>(s.number_at(1))};
}

// A record that was replaced by another run's, or cut, is read from the start again.
bool still_the_same(const fs::path& log, const Followed& before) {
  if (before.bytes == 0) return true;
  std::error_code ec;
  if (fs::file_size(log, ec) < before.bytes || ec) return false;
  return first_run_id(log) == before.run_id;
}

// One transaction: forget if asked or replaced, take in new lines, note how far.
std::uint64_t take_in(Database& db, const fs::path& log, bool from_start) {
  const auto path = fs::weakly_canonical(log).string();
  Transaction transaction(db);
  auto before = followed(db, path);
  if (from_start || !still_the_same(log, before)) {
    if (!before.run_id.empty()) forget_run(db, before.run_id);
    before = {};
  }
  RunRecord r;
  r.run_id = before.run_id;
  std::uint64_t end = before.bytes;
  for (const auto& line : read_event_lines(log, before.bytes, end)) r.add(line);
  if (!r.run_id.empty()) {
    if (before.run_id.empty()) {  // the file moved here from elsewhere
      forget_run(db, r.run_id);
      Statement s(db, "DELETE FROM sources WHERE run_id = ?");
      s.text(r.run_id).run();
    }
    RunWriter(db, r.run_id, path).write(r);
    Statement s(db, "INSERT OR REPLACE INTO sources(path, run_id, bytes) VALUES(?,?,?)");
    s.text(path).text(r.run_id).number(static_cast<std::int64_t>(end)).run();
  }
  transaction.commit();
  return r.skipped_lines;
}

constexpr const char* kSummary =
    "SELECT run_id, tool, version, host, started, ended, status, source, starts, line,"
    " (SELECT count(*) FROM steps s WHERE s.run_id = r.run_id),"
    " (SELECT max(iteration) FROM steps s WHERE s.run_id = r.run_id),"
    " (SELECT loss FROM steps s WHERE s.run_id = r.run_id ORDER BY iteration DESC LIMIT 1),"
    " (SELECT count(*) FROM checkpoints c WHERE c.run_id = r.run_id),"
    " (SELECT count(*) FROM evaluations e WHERE e.run_id = r.run_id)"
    " FROM runs r ORDER BY started, run_id";

RunSummary summary_of(const Statement& s) {
  RunSummary r;
  r.run_id = s.text_at(0);
  r.tool = s.text_at(1);
  r.version = s.text_at(2);
  r.host = s.text_at(3);
  r.started = s.text_at(4);
  r.ended = s.text_at(5);
  r.status = s.text_at(6);
  r.source = s.text_at(7);
  r.starts = s.number_at(8);
  const auto line = Json::parse(s.text_at(9), nullptr, false);
  if (line.is_object() && line.contains("options")) r.options = line["options"];
  r.steps = s.number_at(10);
  r.last_iteration = r.steps > 0 ? s.number_at(11) : -1;
  r.last_loss = s.real_at(12);
  r.checkpoints = s.number_at(13);
  r.evaluations = s.number_at(14);
  return r;
}

std::vector<Json> lines_of(Database& db, const char* sql, const std::string& run_id) {
  std::vector<Json> out;
  Statement s(db, sql);
  s.text(run_id);
  while (s.step()) out.push_back(Json::parse(s.text_at(0), nullptr, false));
  return out;
}

}  // namespace

RunIndex::RunIndex(fs::path file) : file_(std::move(file)) {}
RunIndex::RunIndex(RunIndex&&) noexcept = default;
RunIndex& RunIndex::operator=(RunIndex&&) noexcept = default;
RunIndex::~RunIndex() = default;

RunIndex RunIndex::open(const std::string& file) {
  RunIndex index(file == "none" ? "" : file);
  index.guarded(10000, [](Database&) {});
  return index;
}

RunIndex RunIndex::open_or_fail(const fs::path& file) {
  RunIndex index(file);
  index.database_ = std::make_unique<Database>(file, Database::Mode::record, 10000);
  return index;
}

RunIndex RunIndex::open_for_reading(const fs::path& file) {
  std::error_code ec;
  if (!fs::exists(file, ec)) throw Error(Code::io, "no registry there", file.string(), "name it with --registry FILE");
  RunIndex index(file);
  index.database_ = std::make_unique<Database>(file, Database::Mode::look, 10000);
  return index;
}

bool RunIndex::guarded(int wait_ms, const std::function<void(Database&)>& body) {
  if (file_.empty()) return true;
  try {
    if (!database_) database_ = std::make_unique<Database>(file_, Database::Mode::record, wait_ms);
    database_->wait(wait_ms);
    body(*database_);
    warned_ = false;
    return true;
  } catch (const std::exception& e) {
    if (!warned_) log::warn("registry: {}; the run goes on, its event file has everything", e.what());
    warned_ = true;
    return false;
  }
}

bool RunIndex::follow(const fs::path& event_log, int wait_ms) {
  std::error_code ec;
  if (fs::exists(event_log, ec) && !fs::is_regular_file(event_log, ec)) return true;  // opening a pipe would wait
  return guarded(wait_ms, [&](Database& db) { skipped_lines_ = take_in(db, event_log, false); });
}

bool RunIndex::rebuild(const fs::path& event_log) {
  return guarded(10000, [&](Database& db) { skipped_lines_ = take_in(db, event_log, true); });
}

bool RunIndex::record(const std::vector<Json>& events, int wait_ms) {
  return guarded(wait_ms, [&](Database& db) {
    RunRecord r;
    for (const auto& e : events) r.add(json_line(e));
    if (r.run_id.empty()) throw Error(Code::internal, "no run event among those to record");
    Transaction transaction(db);
    RunWriter(db, r.run_id, "").write(r);
    transaction.commit();
  });
}

Database& RunIndex::looking() const {
  MT_CHECK(database_, "the registry {} is not open", file_.string());
  return *database_;
}

std::vector<RunSummary> RunIndex::runs() const {
  std::vector<RunSummary> out;
  Statement s(looking(), kSummary);
  while (s.step()) out.push_back(summary_of(s));
  return out;
}

RunSummary RunIndex::find(const std::string& argument) const {
  auto all = runs();
  if (all.empty()) throw Error(Code::config, "the registry has no runs", file_.string());
  if (argument == "last") return all.back();
  std::vector<RunSummary> hits;
  for (auto& r : all) {
    if (r.run_id == argument) return r;
    if (r.run_id.rfind(argument, 0) == 0) hits.push_back(std::move(r));
  }
  if (hits.empty())
    throw Error(Code::config, fmt::format("no run '{}'", argument), file_.string(), "see mt-runs list");
  if (hits.size() > 1)
    throw Error(Code::config, fmt::format("'{}' is the beginning of {} runs: {}, {}{}", argument, hits.size(),
                                          hits[0].run_id, hits[1].run_id, hits.size() > 2 ? ", ..." : ""),
                file_.string(), "give more of it");
  return hits[0];
}

RunDetail RunIndex::detail(const std::string& run_id) const {
  auto& db = looking();
  RunDetail d;
  d.run = find(run_id);
  d.steps = lines_of(db, "SELECT line FROM steps WHERE run_id = ? ORDER BY iteration", d.run.run_id);
  d.checkpoints = lines_of(db, "SELECT line FROM checkpoints WHERE run_id = ? ORDER BY iteration", d.run.run_id);
  d.evaluations = lines_of(db, "SELECT line FROM evaluations WHERE run_id = ? ORDER BY iteration, name", d.run.run_id);
  d.plans = lines_of(db, "SELECT line FROM plans WHERE run_id = ? ORDER BY ordinal", d.run.run_id);
  return d;
}

}  // namespace mt
