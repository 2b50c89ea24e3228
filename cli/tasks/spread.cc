#include "cli/tasks/spread.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "cli/tasks/detail/job_tasks.h"
#include "cli/tasks/result_store.h"
#include "model/base/bytes.h"
#include "real/bootstrap/bootstrap.h"
#include "sim/predict/inputs.h"

namespace plumbline::cli {
namespace {

using model::Result;

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
