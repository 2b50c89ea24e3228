// The search: branches of the space in the order of their bounds. Plans that cannot be shown are not predicted.
#include <fmt/format.h>
#include <tbb/enumerable_thread_specific.h>
#include <tbb/parallel_for.h>

#include <algorithm>
#include <mutex>
#include <optional>
#include <utility>

#include "model/base/bytes.h"
#include "sim/search/detail/branch_plans.h"
#include "sim/search/detail/branch_search.h"
#include "sim/search/search.h"
#include "sim/tasks/inputs_key.h"

namespace plumbline::sim {

namespace {

// Units of a round use the same threshold and are its tasks. The number of units in a round is fixed, so neither
// results nor counts depend on the number of threads and processes. Rounds start small, because at first every found
// plan lowers the threshold.
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
        key_(fmt::format("search {:016x}",
                         model::hash_of(bytes_of(inputs) + model::to_bytes(options.top, options.breadth,
                                                                           options.exhaustive, options.sure_share)))),
        workers_([this] { return SearchWorker(scope_); }),
        incumbents_{Incumbents(std::max<std::size_t>(1, options.top)), Incumbents(most_at_edge)},
        total_(scope_.space.size()) {}

  model::Result<SearchResult> run() {
    if (total_ == 0) return tl::unexpected(scope_.space.refusal());
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
    std::vector<std::optional<Found>> found(units.size());  // where this process decided the unit
    const auto decide = [&](std::size_t i) -> model::Result<std::string> {
      if (scope_.stopped()) return stopped_unit();
      auto one = TRY(plans_of(units[i]).decide(incumbents_, statistics_));
      const bool complete = one.complete;
      found[i] = std::move(one);
      return complete ? model::Result<std::string>(model::to_bytes(*found[i])) : stopped_unit();
    };
    const auto results =
        scope_.options.tasks->run({.key = fmt::format("{} round {}", key_, ++rounds_),
                                   .count = units.size(),
                                   .run = decide,
                                   .done = [&](std::size_t, const std::string& bytes) { show(bytes); }});
    if (!results && !scope_.stopped()) return tl::unexpected(results.error());
    for (std::size_t i = 0; i < units.size(); ++i) {
      if (results) found[i] = model::from_bytes<Found>((*results)[i]);
      if (results && !found[i])
        return model::infeasible("", "a result of the search is damaged", "search without --resume");
      complete_ = complete_ && found[i].has_value() && found[i]->complete;
      if (!found[i]) continue;
      statistics_.add(found[i]->statistics);
      BranchPlans plans = plans_of(units[i]);
      for (const FoundPlan& one : found[i]->plans) {
        const model::Plan& plan = plans.plan(one.pipeline_choice, one.sms);
        incumbents_.add(shape_of(plan), {plan, one.estimate}, scope_.fits_surely(one.estimate.peak));
      }
    }
    return {};
  }

  BranchPlans plans_of(const Unit& unit) { return {workers_.local(), *unit.open, *unit.recompute}; }

  static model::Result<std::string> stopped_unit() { return model::infeasible("", "stopped"); }

  void show(const std::string& bytes) {
    if (const auto found = model::from_bytes<Found>(bytes); found && scope_.options.on_progress) {
      double best = 0;
      for (const FoundPlan& one : found->plans)
        best = best == 0 ? one.estimate.step.time_s : std::min(best, one.estimate.step.time_s);
      progress(found->statistics, best);
    }
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
    result.best = incumbents_.sure.ranked(2 * std::max<std::size_t>(1, scope_.options.top));
    result.edge = incumbents_.edge.ranked(most_at_edge);
    for (std::vector<Candidate>* const found : {&result.best, &result.edge})
      for (Candidate& candidate : *found) candidate.plan.routing = given_.plan.routing;
    result.space = total_;
    result.evaluated = statistics_.evaluated;
    result.removed = statistics_.removed(scope_.inputs.cluster.device);
    result.complete = complete_;
    return result;
  }

  const Inputs& given_;
  SearchScope scope_;
  std::string key_;  // of everything that decides the search
  std::size_t rounds_ = 0;
  tbb::enumerable_thread_specific<SearchWorker> workers_;
  std::vector<OpenBranch> open_;
  FoundSoFar incumbents_;
  Statistics statistics_;
  std::uint64_t total_;
  bool complete_ = true;
  bool counting_ = true;  // false: the plans being decided will be decided again
  std::mutex mutex_;
  SearchProgress progress_;
};

}  // namespace

model::Result<SearchResult> search(const Inputs& inputs, const SearchOptions& options) {
  return on_threads(options.threads, [&] { return Search(inputs, options).run(); });
}

}  // namespace plumbline::sim
