// Work that is split over threads, processes and machines: numbered tasks whose results are bytes. The results are the
// same wherever tasks run, and come back in the order of their numbers.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "model/base/error.h"

namespace plumbline::sim {

struct TaskSet {
  std::string key;  // names the work with all of its inputs: tasks of equal keys have equal results
  std::size_t count = 0;
  std::function<model::Result<std::string>(std::size_t task)> run;  // called from several threads
  // Called when the result of a task is there, one call at a time, in any order; may be empty.
  std::function<void(std::size_t task, const std::string& result)> done = nullptr;
};

// Runs tasks on the cores of this process, on the processes of a job, or takes their results from an earlier run.
class Tasks {
 public:
  virtual ~Tasks() = default;
  // Returns the results by task; the error of the first task that failed.
  virtual model::Result<std::vector<std::string>> run(const TaskSet& set) = 0;
};

// Returns the tasks of this process: on all of its cores (oneTBB), or as many as on_threads() allows.
Tasks& local_tasks();

// Limits what computes in this process, until it ends, to the threads that the system starts now, as far as there are
// cores: oneTBB ends the process where it cannot start one. It starts threads also when a limit is lifted, so this one
// is not.
void keep_to_startable_threads();

// Calls work() with at most so many threads of this process, and no more than there are cores; 0: one per core.
void limit_threads(unsigned threads, const std::function<void()>& work);
template <class Work>
auto on_threads(unsigned threads, const Work& work) {
  std::optional<decltype(work())> result;
  limit_threads(threads, [&] { result.emplace(work()); });
  return std::move(*result);
}

}  // namespace plumbline::sim
