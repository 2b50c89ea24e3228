#include "sim/tasks/tasks.h"

#include <oneapi/tbb/blocked_range.h>
#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/parallel_for.h>
#include <oneapi/tbb/partitioner.h>
#include <oneapi/tbb/task_arena.h>

#include <atomic>
#include <mutex>
#include <utility>

namespace plumbline::sim {
namespace {

// After a task failed, later ones are not started but all earlier ones are, so the first error is found with any number
// of threads.
class LocalTasks final : public Tasks {
 public:
  model::Result<std::vector<std::string>> run(const TaskSet& set) override {
    std::vector<model::Result<std::string>> results(set.count);
    std::atomic<std::size_t> end = set.count;
    std::mutex mutex;
    const auto one = [&](std::size_t task) {
      if (task >= end) return;
      results[task] = set.run(task);
      const std::scoped_lock lock(mutex);
      if (!results[task]) {
        if (task < end) end = task;
      } else if (set.done) {
        set.done(task, *results[task]);
      }
    };
    tbb::parallel_for(
        tbb::blocked_range<std::size_t>(0, set.count, 1),
        [&](const tbb::blocked_range<std::size_t>& some) {
          for (std::size_t task = some.begin(); task < some.end(); ++task) one(task);
        },
        tbb::simple_partitioner());
    if (end < set.count) return tl::unexpected(results[end].error());
    std::vector<std::string> bytes;
    for (model::Result<std::string>& result : results) bytes.push_back(std::move(*result));
    return bytes;
  }
};

}  // namespace

Tasks& local_tasks() {
  static LocalTasks tasks;
  return tasks;
}

void limit_threads(unsigned threads, const std::function<void()>& work) {
  if (threads == 0) return work();
  const tbb::global_control most(tbb::global_control::max_allowed_parallelism, threads);
  tbb::task_arena(static_cast<int>(threads)).execute(work);
}

}  // namespace plumbline::sim
