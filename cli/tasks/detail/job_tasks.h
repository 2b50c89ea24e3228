// Tasks that are spread over the processes of a job.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "cli/tasks/result_store.h"
#include "model/base/error.h"
#include "real/executor/control_channel.h"
#include "sim/tasks/tasks.h"

namespace plumbline::cli {

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
