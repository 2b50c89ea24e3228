// Results of tasks in a file (SQLite), for runs that go on where an earlier one ended.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "model/base/error.h"

struct sqlite3;

namespace plumbline::cli {

// A result that was put is in the file, whenever the process ends. One process at a time may have the file open.
class ResultStore {
 public:
  // Makes the file if there is none. Input errors, whose key is --resume: it cannot be made, is another kind of file
  // or of another form, or another run has it open.
  static model::Result<std::unique_ptr<ResultStore>> open(const std::string& path);

  // Returns the results of the set by task. Input error: a result is not the one that was put for its set and task.
  model::Result<std::map<std::size_t, std::string>> find(const std::string& set) const;
  model::Result<void> put(const std::string& set, std::size_t task, const std::string& result);
  const std::string& path() const { return path_; }

 private:
  struct Close {
    void operator()(sqlite3* file) const;
  };
  ResultStore(std::string path, sqlite3* file) : path_(std::move(path)), file_(file) {}
  model::Result<void> execute(const char* statements) const;
  model::Result<std::int64_t> number(const char* query) const;
  tl::unexpected<model::Error> failed() const;

  std::string path_;
  std::unique_ptr<sqlite3, Close> file_;
};

}  // namespace plumbline::cli
