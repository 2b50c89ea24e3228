#include "cli/tasks/result_store.h"

#include <fmt/format.h>
#include <sqlite3.h>

#include <utility>

#include "model/base/bytes.h"

namespace plumbline::cli {
namespace {

using model::Result;

constexpr std::int64_t application = 0x706c756d;  // marks the file as one of results
constexpr std::int64_t format = 2;
constexpr const char* create_results =
    "CREATE TABLE results (task_set BLOB, task INTEGER, result BLOB, checksum INTEGER, PRIMARY KEY (task_set, task))";
constexpr const char* deleted = "delete it: what it kept is computed again";

// Returns the checksum of a row, so that a result that has come to another key is no result of that one.
std::int64_t checksum(const std::string& set, std::size_t task, const std::string& result) {
  return static_cast<std::int64_t>(model::hash_of(model::to_bytes(set, task, result)));
}

// A statement of SQL, which is bound once and then stepped.
class Statement {
 public:
  Statement(sqlite3* file, const char* text) {
    sqlite3_prepare_v2(file, text, -1, &statement_, nullptr);  // of an error the first step is one, too
  }
  ~Statement() { sqlite3_finalize(statement_); }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  void bind(int place, const std::string& bytes) {
    sqlite3_bind_blob64(statement_, place, bytes.data(), bytes.size(), SQLITE_STATIC);
  }
  void bind(int place, std::int64_t number) { sqlite3_bind_int64(statement_, place, number); }
  int step() { return sqlite3_step(statement_); }
  std::int64_t number(int column) { return sqlite3_column_int64(statement_, column); }
  std::string bytes(int column) {
    const auto* begin = static_cast<const char*>(sqlite3_column_blob(statement_, column));
    const int size = sqlite3_column_bytes(statement_, column);
    return begin == nullptr ? std::string() : std::string(begin, static_cast<std::size_t>(size));
  }

 private:
  sqlite3_stmt* statement_ = nullptr;
};

}  // namespace

void ResultStore::Close::operator()(sqlite3* file) const { sqlite3_close(file); }

tl::unexpected<model::Error> ResultStore::failed() const {
  const int code = sqlite3_errcode(file_.get());
  std::string message = sqlite3_errmsg(file_.get()), hint = "see that the disk has space, or name another file";
  if (code == SQLITE_NOTADB)
    message = "is no file of results", hint = "name another one, or one that does not exist yet";
  if (code == SQLITE_CORRUPT) message = "is damaged", hint = deleted;
  if (code == SQLITE_BUSY) message = "another run has it open", hint = "wait for that one, or name another file";
  if (code == SQLITE_CANTOPEN) message = "cannot be opened", hint = "its folder must exist and be writable";
  return model::wrong_input_at(path_, 0, "--resume", std::move(message), std::move(hint));
}

Result<void> ResultStore::execute(const char* statements) const {
  if (sqlite3_exec(file_.get(), statements, nullptr, nullptr, nullptr) != SQLITE_OK) return failed();
  return {};
}

Result<std::int64_t> ResultStore::number(const char* query) const {
  Statement statement(file_.get(), query);
  if (statement.step() != SQLITE_ROW) return failed();
  return statement.number(0);
}

Result<std::unique_ptr<ResultStore>> ResultStore::open(const std::string& path) {
  sqlite3* file = nullptr;
  const int code = sqlite3_open(path.c_str(), &file);
  std::unique_ptr<ResultStore> store(new ResultStore(path, file));
  if (code != SQLITE_OK) return store->failed();
  TRY(store->execute("PRAGMA trusted_schema = OFF"));  // what the file defines calls no functions
  // One process has the file, so that the log needs no memory that processes share, which network file systems lack.
  TRY(store->execute("PRAGMA locking_mode = EXCLUSIVE"));
  const auto parts = TRY(store->number("SELECT count(*) FROM sqlite_master"));
  const auto known = TRY(store->number(
      fmt::format("SELECT count(*) FROM sqlite_master WHERE sql = '{}' OR name = 'sqlite_autoindex_results_1'",
                  create_results)
          .c_str()));
  constexpr std::int64_t own_parts = 2;  // the table and the index of its key: no view, no trigger
  const auto own = TRY(store->number("PRAGMA application_id"));
  const auto version = TRY(store->number("PRAGMA user_version"));
  if (parts > 0 && (own != application || version != format || parts != own_parts || known != own_parts))
    return model::wrong_input_at(path, 0, "--resume", "is no file of results of this version",
                                 "name another one, or one that does not exist yet");
  TRY(store->execute("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL"));
  if (parts == 0)
    TRY(store->execute(fmt::format("BEGIN IMMEDIATE; PRAGMA application_id = {}; PRAGMA user_version = {}; {}; COMMIT",
                                   application, format, create_results)
                           .c_str()));
  return store;
}

Result<std::map<std::size_t, std::string>> ResultStore::find(const std::string& set) const {
  Statement statement(file_.get(), "SELECT task, result, checksum FROM results WHERE task_set = ?");
  statement.bind(1, set);
  std::map<std::size_t, std::string> found;
  int code = SQLITE_ROW;
  while ((code = statement.step()) == SQLITE_ROW) {
    const auto task = static_cast<std::size_t>(statement.number(0));
    std::string result = statement.bytes(1);
    if (statement.number(2) != checksum(set, task, result))
      return model::wrong_input_at(path_, 0, "--resume",
                                   fmt::format("is damaged: the result of task {} is not the one that was kept", task),
                                   deleted);
    found[task] = std::move(result);
  }
  if (code != SQLITE_DONE) return failed();
  return found;
}

Result<void> ResultStore::put(const std::string& set, std::size_t task, const std::string& result) {
  Statement statement(file_.get(), "INSERT OR REPLACE INTO results VALUES (?, ?, ?, ?)");
  statement.bind(1, set);
  statement.bind(2, static_cast<std::int64_t>(task));
  statement.bind(3, result);
  statement.bind(4, checksum(set, task, result));
  if (statement.step() != SQLITE_DONE) return failed();
  return {};
}

}  // namespace plumbline::cli
