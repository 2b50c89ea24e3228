#include "sim/search/search.h"

#include <tbb/enumerable_thread_specific.h>
#include <tbb/global_control.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <optional>
#include <utility>

#include "sim/search/detail/branch_plans.h"
#include "sim/search/detail/branch_search.h"

namespace plumbline::sim {

namespace {

// Units of a round use the same threshold. The number of units in a round is fixed, so neither results nor counts
// depend on the number of threads. Rounds start small, because at first every found plan lowers the threshold.
constexpr std::size_t seeds = 8, first_round = 8, largest_round = 32;

struct Unit {  // a branch under one recomputation
  const OpenBranch* open = nullptr;
  const Recomputation* recompute = nullptr;
};

class Search {
 public:
  Search(const Inputs& inputs, const SearchOptions& options)
      : given_(inputs),
        scope_(inputs, options),
        workers_([this] { return SearchWorker(scope_); }),
        incumbents_(std::max<std::size_t>(1, options.top)),
        total_(scope_.space.size()) {}

  model::Result<SearchResult> run() {
    TRY(open_branches());
    sort_branches();
    TRY(seed());
    std::vector<Unit> units;
    for (const OpenBranch& open : open_)
      for (const Recomputation& recompute : scope_.space.choices().recompute) units.push_back({&open, &recompute});
    std::size_t size = first_round;
    for (std::size_t next = 0; next < units.size() && complete_; size = std::min(2 * size, largest_round)) {
      const std::size_t end = std::min(units.size(), next + size);
      if (auto done = round(
              {units.begin() + static_cast<std::ptrdiff_t>(next), units.begin() + static_cast<std::ptrdiff_t>(end)});
          !done)
        return tl::unexpected(done.error());
      next = end;
    }
    return result();
  }

 private:
  model::Result<void> open_branches() {
    const std::vector<Branch>& branches = scope_.space.branches();
    std::vector<std::optional<model::Result<OpenBranch>>> opened(branches.size());
    std::vector<Statistics> counted(branches.size());
    tbb::parallel_for(std::size_t{0}, branches.size(), [&](std::size_t i) {
      if (scope_.stopped()) return;
      opened[i] = workers_.local().open(branches[i], counted[i]);
      progress(counted[i], 0);
    });
    for (std::size_t i = 0; i < branches.size(); ++i) {
      if (!opened[i]) {
        complete_ = false;
        continue;
      }
      if (!*opened[i]) return tl::unexpected(opened[i]->error());
      statistics_.add(counted[i]);
      if (!(*opened[i])->pipeline_choices.empty()) open_.push_back(std::move(**opened[i]));
    }
    return {};
  }

  // Sorts the branches: the plan's own first, because a user chose it, then by bound.
  void sort_branches() {
    const model::Plan& plan = scope_.inputs.plan;
    const auto own = [&](const OpenBranch& open) {
      const Branch& branch = *open.branch;
      return branch.parallelism == plan.parallelism && branch.micro_batch_size == plan.batch.micro_batch_size;
    };
    std::ranges::stable_sort(open_, {}, [&](const OpenBranch& open) { return std::pair(!own(open), open.bound); });
  }

  // Finds a first threshold in the first branches with one recomputation and SM count. Later rounds find these plans
  // again.
  model::Result<void> seed() {
    if (!scope_.bounded()) return {};
    const auto& choices = scope_.space.choices().recompute;
    const std::size_t count = std::min(open_.size(), seeds);
    std::vector<Branch> branches;
    std::vector<OpenBranch> narrow;
    for (std::size_t i = 0; i < count; ++i) {
      branches.push_back(*open_[i].branch);
      auto& shares = branches.back().communication_sms;
      const auto own = std::ranges::find(shares, scope_.inputs.plan.overlap.communication_sms);
      shares = {own != shares.end() ? *own : shares[shares.size() / 2]};
      narrow.push_back(open_[i]);
    }
    const Recomputation* recompute = &choices[std::min<std::size_t>(1, choices.size() - 1)];
    for (const Recomputation& one : choices)
      if (one.policy == scope_.inputs.plan.recompute.policy && one.operators == scope_.inputs.plan.recompute.operators)
        recompute = &one;
    std::vector<Unit> units;
    for (std::size_t i = 0; i < count; ++i) {
      narrow[i].branch = &branches[i];
      units.push_back({&narrow[i], recompute});
    }
    const Statistics before = statistics_;
    counting_ = false;
    auto done = round(units);
    counting_ = true;
    statistics_ = before;
    return done;
  }

  model::Result<void> round(const std::vector<Unit>& units) {
    std::vector<std::optional<model::Result<Found>>> found(units.size());
    tbb::parallel_for(
        std::size_t{0}, units.size(),
        [&](std::size_t i) {
          if (scope_.stopped()) return;
          found[i] = BranchPlans(workers_.local(), *units[i].open, *units[i].recompute).decide(incumbents_);
          if (*found[i]) progress((*found[i])->statistics, (*found[i])->incumbents.best());
        },
        tbb::simple_partitioner());
    for (const auto& one : found) {
      if (!one) {
        complete_ = false;
        continue;
      }
      if (!*one) return tl::unexpected(one->error());
      statistics_.add((*one)->statistics);
      incumbents_.add((*one)->incumbents);
      complete_ = complete_ && (*one)->complete;
    }
    return {};
  }

  void progress(const Statistics& decided, double best) {
    if (!scope_.options.on_progress) return;
    const std::scoped_lock lock(mutex_);
    if (counting_) progress_.done += decided.decided();
    progress_.total = total_;
    if (best > 0 && (progress_.best_step_s == 0 || best < progress_.best_step_s)) progress_.best_step_s = best;
    scope_.options.on_progress(progress_);
  }

  SearchResult result() const {
    SearchResult result;
    result.best = incumbents_.ranked(2 * std::max<std::size_t>(1, scope_.options.top));
    for (Candidate& candidate : result.best) candidate.plan.routing = given_.plan.routing;
    result.space = total_;
    result.evaluated = statistics_.evaluated();
    result.removed = statistics_.removed(scope_.inputs.cluster.device.memory.value());
    result.complete = complete_;
    return result;
  }

  const Inputs& given_;
  SearchScope scope_;
  tbb::enumerable_thread_specific<SearchWorker> workers_;
  std::vector<OpenBranch> open_;
  Incumbents incumbents_;
  Statistics statistics_;
  std::uint64_t total_;
  bool complete_ = true;
  bool counting_ = true;  // false: the plans being decided will be decided again
  std::mutex mutex_;
  SearchProgress progress_;
};

}  // namespace

model::Result<SearchResult> search(const Inputs& inputs, const SearchOptions& options) {
  Search search(inputs, options);
  if (options.threads == 0) return search.run();
  const tbb::global_control most(tbb::global_control::max_allowed_parallelism, options.threads);
  tbb::task_arena arena(static_cast<int>(options.threads));
  return arena.execute([&] { return search.run(); });
}

}  // namespace plumbline::sim
