// Tasks that are spread over the processes of a job.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "model/base/error.h"
#include "real/executor/control_channel.h"
#include "sim/tasks/tasks.h"

struct sqlite3;

namespace plumbline::cli {

// Results of tasks in a file (SQLite), for runs that go on where an earlier one ended.

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

// Rank 0: hands out tasks, computes too, and keeps results. Keys contain the version and the revision of the program.
class LeadingTasks final : public sim::Tasks {
 public:
  // `store` may be null; both must outlive the object.
  LeadingTasks(real::ControlChannel& channel, ResultStore* store) : channel_(channel), store_(store) {}
  ~LeadingTasks() override;
  LeadingTasks(const LeadingTasks&) = delete;
  LeadingTasks& operator=(const LeadingTasks&) = delete;

  model::Result<std::vector<std::string>> run(const sim::TaskSet& set) override;

 private:
  real::ControlChannel& channel_;
  ResultStore* store_;
  std::set<std::int32_t> lost_;           // ranks that have ended
  std::size_t taken_ = 0, computed_ = 0;  // results: from the store, and new ones
};

// Another rank: asks for batches of tasks until a set is done.
class FollowingTasks final : public sim::Tasks {
 public:
  FollowingTasks(real::ControlChannel& channel, unsigned cores) : channel_(channel), cores_(cores) {}
  ~FollowingTasks() override;
  FollowingTasks(const FollowingTasks&) = delete;
  FollowingTasks& operator=(const FollowingTasks&) = delete;

  // Errors: also that rank 0 has ended.
  model::Result<std::vector<std::string>> run(const sim::TaskSet& set) override;

 private:
  real::ControlChannel& channel_;
  unsigned cores_;
};

}  // namespace plumbline::cli
