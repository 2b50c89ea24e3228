#include "cli/tasks/detail/job_tasks.h"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "cli/data.h"
#include "model/base/bytes.h"
#include "model/base/version.h"

namespace plumbline::cli {
namespace {

using model::Result;

// From another rank to rank 0, which answers with an order. An empty message instead: the rank ends.
struct TaskReport {
  std::string key;
  unsigned cores = 1;
  std::vector<std::pair<std::size_t, Result<std::string>>> done;  // the batch before, by task
};
struct TaskOrder {
  std::vector<std::size_t> tasks;                   // to do next
  std::optional<std::vector<std::string>> results;  // the set is done
  std::optional<model::Error> error;                // it has failed
};

std::string versioned(const std::string& key) {
  return fmt::format("{} {} {}", model::version, source_revision(), key);
}

// The tasks of a set that are left, handed out in order. After a task failed, later ones are not handed out but all
// earlier ones are, so that the first error is found with any number of ranks and threads.
class Queue {
 public:
  Queue(const sim::TaskSet& set, std::string key, ResultStore* store)
      : set_(set), key_(std::move(key)), store_(store), end_(set.count), results_(set.count) {}

  // Takes what the store has; returns how many results.
  Result<std::size_t> take_stored() {
    std::size_t taken = 0;
    if (store_ != nullptr) {
      auto known = TRY(store_->find(key_));
      for (auto& [task, result] : known)
        if (task < set_.count) keep(task, std::move(result)), ++taken;
    }
    for (std::size_t task = 0; task < set_.count; ++task)
      if (!results_[task]) open_.push_back(task);
    return taken;
  }

  // Returns the next tasks, at most `most`; none where none is left to hand out.
  std::vector<std::size_t> next(std::size_t most) {
    const std::scoped_lock lock(mutex_);
    std::vector<std::size_t> tasks;
    for (; tasks.size() < most && available(); open_.pop_front()) tasks.push_back(open_.front());
    running_ += tasks.size();
    return tasks;
  }

  // Waits while none is left but others are being done, whose rank may be lost. Returns false when the set is over.
  bool wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return running_ == 0 || available(); });
    return available();
  }

  // Returns how many tasks a rank should take: several for each of its cores at first, one at the end.
  std::size_t batch(std::size_t cores, std::size_t ranks) {
    constexpr std::size_t rounds = 4;
    const std::scoped_lock lock(mutex_);
    return std::max(std::max<std::size_t>(1, std::min(cores, open_.size() / ranks)), open_.size() / (rounds * ranks));
  }

  std::size_t open() {
    const std::scoped_lock lock(mutex_);
    return open_.size();
  }

  void finish(std::size_t task, Result<std::string> result) {
    const std::scoped_lock lock(mutex_);
    --running_;
    if (!result) {
      fail(task, result.error());
    } else {
      if (const auto put = store_ != nullptr ? store_->put(key_, task, *result) : Result<void>(); !put)
        fail(0, put.error());
      keep(task, std::move(*result));
      ++computed_;
    }
    changed_.notify_all();
  }

  void give_back(const std::vector<std::size_t>& tasks) {
    const std::scoped_lock lock(mutex_);
    running_ -= tasks.size();
    open_.insert(open_.end(), tasks.begin(), tasks.end());
    std::ranges::sort(open_);
    changed_.notify_all();
  }

  // Ends the set: no later result counts.
  void end(const model::Error& error) {
    const std::scoped_lock lock(mutex_);
    fail(0, error);
    changed_.notify_all();
  }

  std::size_t computed() const { return computed_; }

  TaskOrder outcome() const {
    if (error_) return {{}, std::nullopt, error_};
    TaskOrder order{{}, std::vector<std::string>{}, std::nullopt};
    for (const auto& result : results_) order.results->push_back(*result);
    return order;
  }

 private:
  bool available() const { return !open_.empty() && open_.front() < end_; }

  void fail(std::size_t task, const model::Error& error) {
    if (error_ && task >= end_) return;
    end_ = task;
    error_ = error;
  }

  void keep(std::size_t task, std::string result) {
    results_[task] = std::move(result);
    if (set_.done) set_.done(task, *results_[task]);
  }

  const sim::TaskSet& set_;
  const std::string key_;
  ResultStore* const store_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::size_t> open_;  // not handed out, ascending
  std::size_t end_;               // the first task that failed
  std::size_t running_ = 0, computed_ = 0;
  std::optional<model::Error> error_;
  std::vector<std::optional<std::string>> results_;
};

// Rank 0's end of one other rank.
class FollowingRank {
 public:
  FollowingRank(real::ControlChannel& channel, std::int32_t rank, const std::string& key)
      : channel_(channel), rank_(rank), key_(key) {}

  // Hands out tasks until the set is over. Returns false where the rank is lost.
  bool serve(Queue& queue) {
    while (true) {
      auto report = receive();
      if (!report) {
        queue.give_back(tasks_);
        return false;
      }
      for (auto& [task, result] : report->done) queue.finish(task, std::move(result));
      if (report->key != key_)
        queue.end({model::ErrorKind::infeasible, fmt::format("rank {} has other inputs, or is another version", rank_),
                   "", 0, "", "all ranks need the same program, plan and data"});
      tasks_.clear();
      while (tasks_.empty() && queue.wait())
        tasks_ = queue.next(queue.batch(report->cores, static_cast<std::size_t>(channel_.ranks())));
      if (tasks_.empty()) return true;
      if (!channel_.send(rank_, model::to_bytes(TaskOrder{tasks_, std::nullopt, std::nullopt}))) {
        queue.give_back(tasks_);
        return false;
      }
    }
  }

 private:
  std::optional<TaskReport> receive() {
    const auto bytes = channel_.receive(rank_);
    return bytes ? model::from_bytes<TaskReport>(*bytes) : std::nullopt;
  }

  real::ControlChannel& channel_;
  const std::int32_t rank_;
  const std::string& key_;
  std::vector<std::size_t> tasks_;  // that the rank is doing
};

// Computes on this process's cores as long as there are tasks, also those of ranks that are lost meanwhile. Threads do
// not wait, since one may do a task inside the loops of another.
Result<void> compute(const sim::TaskSet& set, Queue& queue) {
  const auto one = [&](std::size_t) -> Result<std::string> {
    for (const std::size_t task : queue.next(1)) queue.finish(task, set.run(task));
    return "";
  };
  while (queue.wait()) TRY(sim::local_tasks().run({.key = "", .count = queue.open(), .run = one}));
  return {};
}

}  // namespace

LeadingTasks::~LeadingTasks() {
  for (std::int32_t rank = 1; rank < channel_.ranks(); ++rank)
    if (!lost_.contains(rank)) static_cast<void>(channel_.send(rank, ""));
  if (store_ == nullptr || taken_ == 0) return;
  fmt::print(stderr, "plumbline: {} of {} results are from {}\n", taken_, taken_ + computed_, store_->path());
}

Result<std::vector<std::string>> LeadingTasks::run(const sim::TaskSet& set) {
  if (set.count == 0) return std::vector<std::string>{};
  const std::string key = versioned(set.key);
  Queue queue(set, key, store_);
  const auto stored = queue.take_stored();
  if (!stored) queue.end(stored.error());
  taken_ += stored.value_or(0);
  std::vector<std::int32_t> ranks;
  for (std::int32_t rank = 1; rank < channel_.ranks(); ++rank)
    if (!lost_.contains(rank)) ranks.push_back(rank);
  std::vector<char> alive(ranks.size(), 0);
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < ranks.size(); ++i)
      threads.emplace_back([&, i] { alive[i] = FollowingRank(channel_, ranks[i], key).serve(queue) ? 1 : 0; });
    TRY(compute(set, queue));
  }
  computed_ += queue.computed();
  const TaskOrder outcome = queue.outcome();
  const std::string bytes = model::to_bytes(outcome);
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (alive[i] != 0 && channel_.send(ranks[i], bytes)) continue;
    lost_.insert(ranks[i]);
    fmt::print(stderr, "plumbline: rank {} has ended; other ranks do its tasks\n", ranks[i]);
  }
  if (outcome.error) return tl::unexpected(*outcome.error);
  return *outcome.results;
}

FollowingTasks::~FollowingTasks() { static_cast<void>(channel_.send(0, "")); }

Result<std::vector<std::string>> FollowingTasks::run(const sim::TaskSet& set) {
  if (set.count == 0) return std::vector<std::string>{};
  TaskReport report{versioned(set.key), cores_, {}};
  while (true) {
    TRY(channel_.send(0, model::to_bytes(report)));
    const auto bytes = TRY(channel_.receive(0));
    const auto order = model::from_bytes<TaskOrder>(bytes);
    if (!order) return model::infeasible("", "rank 0 has ended");
    if (order->results) return *order->results;
    if (order->error) return tl::unexpected(*order->error);
    report.done.assign(order->tasks.size(), {});
    const auto one = [&](std::size_t i) -> Result<std::string> {
      report.done[i] = {order->tasks[i], set.run(order->tasks[i])};
      return "";
    };
    TRY(sim::local_tasks().run({.key = "", .count = order->tasks.size(), .run = one}));
  }
}

}  // namespace plumbline::cli
