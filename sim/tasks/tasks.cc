#include "sim/tasks/tasks.h"

#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/info.h>
#include <oneapi/tbb/task_arena.h>

#include <algorithm>
#include <atomic>
#include <latch>
#include <mutex>
#include <system_error>
#include <thread>

#include "sim/tasks/indices.h"

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
    for_each_index(set.count, one);
    if (end < set.count) return tl::unexpected(results[end].error());
    std::vector<std::string> bytes;
    for (model::Result<std::string>& result : results) bytes.push_back(std::move(*result));
    return bytes;
  }
};

// Returns how many threads run at once, this one included, of so many.
std::size_t startable(std::size_t wanted) {
  std::latch end(1);
  std::vector<std::jthread> threads;
  try {
    while (threads.size() + 1 < wanted) threads.emplace_back([&end] { end.wait(); });
  } catch (const std::system_error&) {  // the system has no more of them
  }
  end.count_down();
  return threads.size() + 1;
}

}  // namespace

void keep_to_startable_threads() {
  const auto cores = static_cast<std::size_t>(tbb::info::default_concurrency());
  const std::size_t threads = startable(cores);
  if (threads == cores) return;
  [[maybe_unused]] static const auto* const kept =
      new tbb::global_control(tbb::global_control::max_allowed_parallelism, threads);
}

Tasks& local_tasks() {
  static LocalTasks tasks;
  return tasks;
}

void limit_threads(unsigned threads, const std::function<void()>& work) {
  if (threads == 0) return work();
  const int most = std::min(static_cast<int>(threads), tbb::info::default_concurrency());
  const tbb::global_control limit(tbb::global_control::max_allowed_parallelism, static_cast<std::size_t>(most));
  tbb::task_arena(most).execute(work);
}

}  // namespace plumbline::sim
