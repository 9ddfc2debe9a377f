#pragma once
// A small owner of an SQLite connection: statements that bind by position, failures as mt::Error. Private to registry.
//
// Code: registry/database.cc. Tests: through tests/registry/index_test.cc.

#include <sqlite3.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"

namespace mt {

// False where WAL cannot work: network and cluster file systems, FUSE. Unknown kinds count as local.
bool is_local_disk(const std::filesystem::path& directory);
bool is_network_file_system(std::uint64_t statfs_type);

class Database {
 public:
  enum class Mode { record, look };
  // Open; with Mode::record create tables and choose the journal. Mode::look writes nothing, also not beside the file,
  // unless a writer has it open or was killed.
  //   fails  Error{io}; Error{corrupt} when it is no registry or of a newer version
  Database(const std::filesystem::path& file, Mode mode, int wait_ms);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  void wait(int milliseconds) { ::sqlite3_busy_timeout(db_, milliseconds); }
  void execute(const char* sql);
  [[noreturn]] void fail(int code) const;
  sqlite3* handle() { return db_; }

 private:
  void choose_journal();
  void create_tables(int wait_ms);
  std::int64_t version();

  std::filesystem::path file_;
  sqlite3* db_ = nullptr;
};

// BEGIN IMMEDIATE ... COMMIT; rolled back unless commit() was reached.
class Transaction {
 public:
  explicit Transaction(Database& db) : db_(db) { db_.execute("BEGIN IMMEDIATE"); }
  ~Transaction() {
    if (open_) ::sqlite3_exec(db_.handle(), "ROLLBACK", nullptr, nullptr, nullptr);
  }
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;
  void commit() {
    db_.execute("COMMIT");
    open_ = false;
  }

 private:
  Database& db_;
  bool open_ = true;
};

class Statement {
 public:
  Statement(Database& db, const char* sql);
  ~Statement() { ::sqlite3_finalize(statement_); }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  // Bind the next parameter.
  Statement& text(std::string_view value);
  Statement& number(std::int64_t value);
  // A number or string field of an event; absent, null or another type becomes NULL.
  Statement& field(const Json& event, const char* key);
  // The next row; false at the end. After the end the statement may be bound and run again.
  bool step();
  void run() {
    while (step()) {
    }
  }

  std::string text_at(int column) const;
  std::int64_t number_at(int column) const { return ::sqlite3_column_int64(statement_, column); }
  std::optional<double> real_at(int column) const;

 private:
  void check(int code) const;
  Database& db_;
  sqlite3_stmt* statement_ = nullptr;
  int next_ = 1;
};

}  // namespace mt
