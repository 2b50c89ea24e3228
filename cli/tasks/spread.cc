#include "cli/tasks/spread.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sched.h>
#include <sqlite3.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "cli/data.h"
#include "cli/tasks/detail/job_tasks.h"
#include "model/base/bytes.h"
#include "model/base/version.h"
#include "real/bootstrap/bootstrap.h"
#include "sim/predict/inputs.h"

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

// Reports twice a minute how many tasks of a set are done, unless stderr is a terminal, where a bar is drawn.
class CountedTasks final : public sim::Tasks {
 public:
  explicit CountedTasks(sim::Tasks& tasks) : tasks_(tasks) {}

  Result<std::vector<std::string>> run(const sim::TaskSet& set) override {
    if (::isatty(STDERR_FILENO) != 0) return tasks_.run(set);
    std::size_t done = 0;
    auto said = std::chrono::steady_clock::now();
    sim::TaskSet counted = set;
    counted.done = [&](std::size_t task, const std::string& result) {
      if (set.done) set.done(task, result);
      ++done;
      constexpr std::chrono::seconds between{30};
      const auto now = std::chrono::steady_clock::now();
      if (now - said < between) return;
      said = now;
      fmt::print(stderr, "plumbline: {} of {} tasks are done\n", done, set.count);
    };
    return tasks_.run(counted);
  }

 private:
  sim::Tasks& tasks_;
};

// Returns the cores that this process may run on.
cpu_set_t allowed_cores() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  ::sched_getaffinity(0, sizeof cores, &cores);
  return cores;
}

// Returns the name of this machine with those cores.
std::string own_cores() {
  std::array<char, HOST_NAME_MAX + 1> name{};
  ::gethostname(name.data(), name.size() - 1);
  const cpu_set_t cores = allowed_cores();
  return name.data() + std::string(reinterpret_cast<const char*>(&cores), sizeof cores);
}

// Returns this process's part of its cores: other ranks may run on the same ones.
unsigned share_of_cores(const std::vector<std::string>& of_ranks) {
  const cpu_set_t cores = allowed_cores();
  const auto sharing = std::ranges::count(of_ranks, own_cores());
  return static_cast<unsigned>(std::max<std::int64_t>(1, CPU_COUNT(&cores) / std::max<std::int64_t>(1, sharing)));
}

// What the ranks agree on before the verb runs.
struct Start {
  std::vector<std::string> cores;     // own_cores() of every rank
  std::optional<model::Error> error;  // of rank 0's file of results
};

Result<std::unique_ptr<ResultStore>> open_store(bool is_root, const std::string& resume) {
  if (!is_root || resume.empty()) return nullptr;
  return ResultStore::open(resume);
}

// Returns the place of this process. A script under Slurm has the variables of a rank without having been started as
// one, which srun does.
Result<real::Bootstrap> spread_job(const World& world) {
  auto job = job_of(world);
  const bool started = std::getenv("SLURM_STEP_NUM_TASKS") != nullptr;
  if (job && job->starter == "srun" && !started) return real::Bootstrap{};
  return job;
}

// Returns what decides the answer of the verb, a line for each argument: files to write and cores do not.
std::string compared_arguments(const CLI::App& verb, const Outputs& outputs) {
  std::string lines = fmt::format("verb = {}\n", verb.get_name());
  for (const CLI::Option* option : verb.get_options()) {
    const std::string name = option->get_name();
    if (option->count() == 0 || outputs.given(name) || name == "--resume" || name == "--threads") continue;
    lines += fmt::format("{} = {}\n", name, fmt::join(option->results(), " "));
  }
  return lines;
}

Result<int> run_in_job(const World& world, const real::Bootstrap& job, const std::string& compared,
                       const std::string& resume, Outputs& outputs,
                       const std::function<Result<int>(sim::Tasks&)>& run) {
  constexpr double longest_task = 1e8;  // s; a rank that is lost ends its connection, so that none is waited for
  auto opened = channel_of(job, world, {.wait_s = longest_task, .outlives_ranks = true, .inputs = compared});
  // A rank that does not find the others, or is refused, reports it itself.
  if (!opened && job.rank > 0) report(opened.error());
  const auto channel = TRY(std::move(opened));
  auto store = open_store(job.rank == 0, resume);
  const auto all = TRY(channel->gather(own_cores()));
  const Start own{all, store ? std::nullopt : std::optional(store.error())};
  const auto bytes = TRY(channel->broadcast(model::to_bytes(own)));
  const auto start = model::from_bytes<Start>(bytes);
  if (!start) return model::infeasible("", "rank 0 is another version");
  if (start->error) return tl::unexpected(*start->error);
  const unsigned cores = job.ranks > 1 ? share_of_cores(start->cores) : 0;
  if (job.rank == 0) {
    LeadingTasks tasks(*channel, store->get());
    CountedTasks counted(tasks);
    return sim::on_threads(cores, [&] { return run(counted); });
  }
  outputs.discard();
  if (std::freopen("/dev/null", "w", stdout) == nullptr || std::freopen("/dev/null", "w", stderr) == nullptr)
    return model::infeasible("", "/dev/null cannot be opened");
  FollowingTasks tasks(*channel, cores);
  return sim::on_threads(cores, [&] { return run(tasks); });
}

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

void add_resume(CLI::App& verb, std::string& resume) {
  verb.add_option(
      "--resume", resume,
      "A file that keeps the results of finished tasks; a later run with the same inputs takes them from it");
}

int run_spread(const World& world, const CLI::App& verb, const std::string& resume, Outputs& outputs,
               const std::function<Result<int>(sim::Tasks&)>& run) {
  const bool simulated = world.simulated.now != nullptr;
  const auto job = simulated ? Result<real::Bootstrap>(real::Bootstrap{}) : spread_job(world);
  if (!job) return world.report(job.error());
  if (job->ranks == 1 && resume.empty()) {
    CountedTasks counted(sim::local_tasks());
    return exit_of(run(counted));
  }
  const auto code = run_in_job(world, *job, compared_arguments(verb, outputs), resume, outputs, run);
  return job->rank == 0 || code ? exit_of(code) : code_of(code.error());
}

}  // namespace plumbline::cli
