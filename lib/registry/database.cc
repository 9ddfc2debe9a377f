#include "registry/database.h"

#include <sys/statfs.h>

#include <array>
#include <chrono>
#include <thread>

#include "base/error.h"
#include "base/files.h"
#include "base/log.h"

namespace mt {
namespace {

constexpr std::int64_t kApplicationId = 0x6d74726e, kVersion = 1;  // "mtrn"
constexpr int kJournalTries = 40;

// A run's events keep their whole line, so nothing an event says is lost by not having a column.
constexpr const char* kTables = R"sql(
CREATE TABLE IF NOT EXISTS runs(
  run_id TEXT PRIMARY KEY, tool TEXT, version TEXT, host TEXT, started TEXT, ended TEXT, status TEXT,
  starts INTEGER NOT NULL DEFAULT 0, source TEXT, line TEXT) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS sources(path TEXT PRIMARY KEY, run_id TEXT, bytes INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS options(
  run_id TEXT, name TEXT, value TEXT, PRIMARY KEY(run_id, name)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS steps(
  run_id TEXT, iteration INTEGER, consumed_samples INTEGER, loss REAL, grad_norm REAL, learning_rate REAL,
  step_s REAL, tokens_per_s REAL, tflops REAL, mfu REAL, line TEXT, PRIMARY KEY(run_id, iteration)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS checkpoints(
  run_id TEXT, iteration INTEGER, path TEXT, bytes INTEGER, seconds REAL, line TEXT,
  PRIMARY KEY(run_id, iteration)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS evaluations(
  run_id TEXT, iteration INTEGER, name TEXT, line TEXT, PRIMARY KEY(run_id, iteration, name)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS plans(
  run_id TEXT, ordinal INTEGER, line TEXT, PRIMARY KEY(run_id, ordinal)) WITHOUT ROWID;
)sql";

}  // namespace

bool is_network_file_system(std::uint64_t type) {
  constexpr std::array<std::uint64_t, 15> kNetwork = {
      0x6969 /* nfs */,       0x517b /* smb */,        0xff534d42 /* cifs */,  0xfe534d42 /* smb2 */,
      0x0bd00bd0 /* lustre */, 0x47504653 /* gpfs */,  0x00c36400 /* ceph */,  0x65735546 /* fuse */,
      0x01021997 /* 9p */,    0x5346414f /* afs */,    0x19830326 /* beegfs */, 0xaad7aaea /* panfs */,
      0x7461636f /* ocfs2 */, 0x01161970 /* gfs2 */,   0x20030528 /* orangefs */};
  for (const auto t : kNetwork)
    if (t == (type & 0xffffffffu)) return true;
  return false;
}

bool is_local_disk(const fs::path& directory) {
  struct statfs st {};
  if (::statfs(directory.empty() ? "." : directory.c_str(), &st) != 0) return false;
  return !is_network_file_system(static_cast<std::uint64_t>(st.f_type));
}

namespace {

// A registry that no writer has open is whole in its one file. As such it is opened, so that looking leaves nothing beside
// it and works where nothing can be written; else SQLite's own files beside it are read too.
int open_to_look(const fs::path& file, sqlite3** db) {
  std::string uri = "file:";
  for (const char c : fs::absolute(file).string())
    uri += c == '?' || c == '#' || c == '%' ? fmt::format("%{:02x}", static_cast<unsigned char>(c)) : std::string(1, c);
  uri += "?immutable=1";
  std::error_code ec;
  if (!fs::exists(file.string() + "-wal", ec) && !fs::exists(file.string() + "-journal", ec))
    return ::sqlite3_open_v2(uri.c_str(), db, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, nullptr);
  const int code = ::sqlite3_open_v2(file.c_str(), db, SQLITE_OPEN_READONLY, nullptr);
  const auto readable = [db] { return ::sqlite3_exec(*db, "SELECT count(*) FROM sqlite_master", nullptr, nullptr, nullptr); };
  if (code != SQLITE_OK || readable() != SQLITE_CANTOPEN) return code;
  // What a killed writer left cannot be taken in where nothing may be written; all that was put in place can be seen.
  log::warn("registry {}: what its last writer left in {}-wal is not seen from here", file.string(), file.filename().string());
  ::sqlite3_close(*db);
  return ::sqlite3_open_v2(uri.c_str(), db, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, nullptr);
}

}  // namespace

Database::Database(const fs::path& file, Mode mode, int wait_ms) : file_(file) {
  std::error_code ec;
  if (fs::exists(file, ec) && !fs::is_regular_file(file, ec))  // reading a pipe would wait for its other end
    throw Error(Code::io, "a registry is a regular file, this is none", file.string());
  const int code = mode == Mode::look
                       ? open_to_look(file, &db_)
                       : ::sqlite3_open_v2(file.c_str(), &db_, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, nullptr);
  try {
    if (code != SQLITE_OK) fail(code);
    wait(wait_ms);
    if (mode == Mode::record) {
      choose_journal();
      create_tables(wait_ms);
    } else if (version() == 0) {
      throw Error(Code::corrupt, "not a registry of mt", file_.string());
    }
  } catch (...) {
    ::sqlite3_close(db_);
    throw;
  }
}

Database::~Database() { ::sqlite3_close(db_); }

void Database::fail(int code) const {
  const auto kind = (code & 0xff) == SQLITE_NOTADB || (code & 0xff) == SQLITE_CORRUPT ? Code::corrupt : Code::io;
  throw Error(kind, db_ ? ::sqlite3_errmsg(db_) : ::sqlite3_errstr(code), file_.string());
}

void Database::execute(const char* sql) {
  const int code = ::sqlite3_exec(db_, sql, nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) fail(code);
}

// Changing to WAL takes a lock that the busy timeout does not wait for when others open at the same moment.
void Database::choose_journal() {
  const bool wal = is_local_disk(file_.parent_path());
  for (int i = 0;; ++i) {
    const int code = ::sqlite3_exec(db_, wal ? "PRAGMA journal_mode=WAL" : "PRAGMA journal_mode=DELETE", nullptr, nullptr,
                                    nullptr);
    if (code == SQLITE_OK) break;
    if (code != SQLITE_BUSY || i == kJournalTries) fail(code);
    std::this_thread::sleep_for(std::chrono::milliseconds(5 + 5 * i));
  }
  execute("PRAGMA synchronous=NORMAL");
}

std::int64_t Database::version() {
  Statement id(*this, "PRAGMA application_id");
  id.step();
  const auto application = id.number_at(0);
  Statement v(*this, "PRAGMA user_version");
  v.step();
  const auto found = v.number_at(0);
  Statement tables(*this, "SELECT count(*) FROM sqlite_master");
  tables.step();
  if (tables.number_at(0) == 0 && application == 0 && found == 0) return 0;
  if (application != kApplicationId) throw Error(Code::corrupt, "a database, but not a registry of mt", file_.string());
  if (found > kVersion)
    throw Error(Code::corrupt, fmt::format("version {}; this program knows up to {}", found, kVersion), file_.string());
  return found;
}

void Database::create_tables(int wait_ms) {
  if (version() == kVersion) return;
  wait(wait_ms);
  Transaction t(*this);
  execute(kTables);
  execute(fmt::format("PRAGMA application_id={}", kApplicationId).c_str());
  execute(fmt::format("PRAGMA user_version={}", kVersion).c_str());
  t.commit();
}

Statement::Statement(Database& db, const char* sql) : db_(db) {
  check(::sqlite3_prepare_v2(db.handle(), sql, -1, &statement_, nullptr));
}

void Statement::check(int code) const {
  if (code != SQLITE_OK) db_.fail(code);
}

Statement& Statement::text(std::string_view value) {
  check(::sqlite3_bind_text64(statement_, next_++, value.data(), value.size(), SQLITE_TRANSIENT, SQLITE_UTF8));
  return *this;
}

Statement& Statement::number(std::int64_t value) {
  check(::sqlite3_bind_int64(statement_, next_++, value));
  return *this;
}

Statement& Statement::field(const Json& event, const char* key) {
  const auto it = event.find(key);
  if (it == event.end()) check(::sqlite3_bind_null(statement_, next_++));
  else if (it->is_string()) text(it->get<std::string>());
  else if (it->is_number_integer()) number(it->get<std::int64_t>());
  else if (it->is_number()) check(::sqlite3_bind_double(statement_, next_++, it->get<double>()));
  else check(::sqlite3_bind_null(statement_, next_++));
  return *this;
}

bool Statement::step() {
  const int code = ::sqlite3_step(statement_);
  if (code == SQLITE_ROW) return true;
  if (code != SQLITE_DONE) db_.fail(code);
  ::sqlite3_reset(statement_);
  next_ = 1;
  return false;
}

std::string Statement::text_at(int column) const {
  const auto* p = ::sqlite3_column_text(statement_, column);
  if (!p) return "";
  return {reinterpret_cast<const char*>(p), static_cast<std::size_t>(::sqlite3_column_bytes(statement_, column))};
}

std::optional<double> Statement::real_at(int column) const {
  if (::sqlite3_column_type(statement_, column) == SQLITE_NULL) return std::nullopt;
  return ::sqlite3_column_double(statement_, column);
}

}  // namespace mt
