// The search: branches of the space in the order of their bounds. Plans that cannot be shown are not predicted.
#include <fmt/format.h>
#include <tbb/enumerable_thread_specific.h>

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "model/base/bytes.h"
#include "model/memory/memory.h"
#include "sim/predict/memos.h"
#include "sim/search/detail/branch_bounds.h"
#include "sim/search/detail/branch_search.h"
#include "sim/search/search.h"
#include "sim/tasks/indices.h"
#include "sim/tasks/inputs_key.h"

namespace plumbline::sim {
namespace {

// Decides the plans of a branch under one recomputation, those with the lowest bounds first.
class BranchPlans {
 public:
  // All arguments must outlive the object.
  BranchPlans(SearchWorker& worker, const OpenBranch& open, const Recomputation& recompute)
      : worker_(worker),
        scope_(worker.scope()),
        open_(open),
        recompute_(recompute),
        plan_(scope_.space.plan(*open.branch)) {
    for (const PipelineChoice& one : open.pipeline_choices)
      if (Space::allows(*one.pipeline, recompute)) pipeline_choices_.push_back(one);
  }

  // Removes plans by cheap bounds first and evaluates the rest in the order of their bounds. `removed` are those of
  // branches before: of plans that are further from fitting no exact peak is found.
  model::Result<Found> decide(const FoundSoFar& before, const Statistics& removed) {
    Found found;
    found.statistics = removed.rest();
    if (pipeline_choices_.empty()) return found;
    const std::vector<std::int64_t>& shares = open_.branch->communication_sms;
    if (scope_.bounded() && above(open_.bound, before.sure.limit())) {
      found.statistics.remove(
          Rule::branch, pipeline_choices_.size() * shares.size(),
          open_.bound, [&]() -> const auto& { return plan(0, shares.front()); });
      return found;
    }
    incumbents_ = before;  // a large copy
    for (const std::int64_t sms : shares) TRY(collect(sms, found));
    std::ranges::stable_sort(items_, {}, &Item::bound);
    for (std::size_t i = 0; i < items_.size(); ++i) {
      const Item& item = items_[i];
      if (scope_.stopped()) {
        found.complete = false;
        return found;
      }
      plan(item.pipeline_choice, item.sms);
      const bool bounded = scope_.bounded();
      if (bounded && above(item.bound, incumbents_.sure.limit())) {  // and so are all later ones
        found.statistics.remove(
            Rule::schedule, items_.size() - i, item.bound, [&]() -> const auto& { return plan_; });
        return found;
      }
      const auto limit = [&](bool surely) {
        return bounded ? incumbents_.limit(shape_of(plan_), surely) : std::numeric_limits<double>::infinity();
      };
      if (!in_time(item, limit(true), found)) continue;
      const auto peak = TRY(in_memory(item, found));
      if (!peak) continue;
      const double least = limit(scope_.fits_surely(*peak));
      if (in_time(item, least, found)) TRY(evaluate(item, least, found));
    }
    return found;
  }

  // Returns a plan of those that allow the recomputation; valid until the next call.
  const model::Plan& plan(std::size_t pipeline_choice, std::int64_t sms) {
    const PipelineChoice& one = pipeline_choices_[pipeline_choice];
    Space::apply({one.pipeline, one.zero_stage, one.split, &recompute_, sms}, plan_);
    return plan_;
  }

 private:
  struct Item {
    double bound = 0;  // s
    std::int64_t sms = 0;
    std::size_t pipeline_choice = 0;
  };

  const StageLists& stages(std::size_t pipeline_choice) {
    const PipelineChoice& one = pipeline_choices_[pipeline_choice];
    const auto [entry, fresh] = stages_.try_emplace({one.pipeline->stages, one.split->word});
    if (fresh) entry->second = stage_lists(plan(pipeline_choice, 0), scope_.free.architecture, one.pipeline->stages);
    return entry->second;
  }

  // Returns nullptr where the schedule deadlocks.
  std::shared_ptr<const PreparedSchedule> schedule(std::size_t pipeline_choice) {
    const Pipeline& pipeline = *pipeline_choices_[pipeline_choice].pipeline;
    return scope_.inputs.tables->find(*pipeline.kind, pipeline.shape).value_or(nullptr);
  }

  // The bound does not depend on the ZeRO stage.
  double bound(std::size_t pipeline_choice, std::int64_t sms) {
    const auto known = bounds_.find(sms);
    const auto schedule = known == bounds_.end() ? nullptr : this->schedule(pipeline_choice);
    if (schedule == nullptr) return 0;
    const PipelineChoice& one = pipeline_choices_[pipeline_choice];
    const auto [entry, fresh] = pipeline_choice_bounds_.try_emplace({one.pipeline, one.split}, 0.0);
    if (fresh)
      entry->second = model::lower_bound(
          schedule->outline, known->second.slots(schedule->outline, stages(pipeline_choice)), known->second.p2p());
    return entry->second;
  }

  // Bounds the plans with one number of communication SMs.
  model::Result<void> collect(std::int64_t sms, Found& found) {
    const double limit = scope_.bounded() ? incumbents_.sure.limit() : std::numeric_limits<double>::infinity();
    pipeline_choice_bounds_.clear();
    if (scope_.bounded()) {
      if (!blocks_) blocks_.emplace(scope_.free, plan(0, sms));
      const auto costs = TRY(worker_.costs(plan(0, sms)));
      if (costs != nullptr) {
        BranchBounds& bounds = bounds_.emplace(sms, BranchBounds(*blocks_, *costs)).first->second;
        plan(0, sms);
        plan_.batch.global_batch_size = open_.branch->global_batch_size;  // other pipelines may have fewer sequences
        const double branch = bounds.branch(plan_);
        if (above(branch, limit)) {
          found.statistics.remove(
              Rule::branch, pipeline_choices_.size(), branch, [&]() -> const auto& { return plan(0, sms); });
          return {};
        }
      }
    }
    for (std::size_t i = 0; i < pipeline_choices_.size(); ++i) {
      const double least = bound(i, sms);
      if (above(least, limit))
        found.statistics.remove(
            Rule::schedule, 1, least, [&]() -> const auto& { return plan(i, sms); });
      else
        items_.push_back({least, sms, i});
    }
    return {};
  }

  // Returns whether the plan is still undecided.
  bool in_time(const Item& item, double limit, Found& found) {
    if (!above(item.bound, limit)) return true;
    found.statistics.remove(
        Rule::schedule, 1, item.bound, [&]() -> const auto& { return plan_; });
    return false;
  }

  // Returns the plan's peak, or less where that exceeds the GPU by more than the peak of a plan that was removed.
  model::Result<Peak> peak(const Statistics& removed) {
    const auto least = TRY(worker_.predictor().least_peak(plan_));
    const double closest = removed.by_rule[static_cast<std::size_t>(Rule::memory)].measure;
    if (least.bytes >= closest && above(least.bytes, scope_.inputs.cluster.device.memory.value())) return least;
    return worker_.predictor().peak(plan_);
  }

  // Returns the peak of a plan that is still undecided.
  model::Result<std::optional<Peak>> in_memory(const Item& item, Found& found) {
    auto peak = peaks_.find(item.pipeline_choice);
    if (peak == peaks_.end()) peak = peaks_.emplace(item.pipeline_choice, this->peak(found.statistics)).first;
    if (!peak->second) {
      if (peak->second.error().kind == model::ErrorKind::input) return tl::unexpected(peak->second.error());
      found.statistics.refuse(plan_, to_string(peak->second.error()));
      return std::nullopt;
    }
    const model::Device& device = scope_.inputs.cluster.device;
    if (peak->second->fits(device) && scope_.may_fit(*peak->second)) return *peak->second;
    const bool host = model::fits_on_host(peak->second->host_bytes, device.host_memory.value()) < model::hardly_fits;
    found.statistics.remove(
        host ? Rule::host : Rule::memory, 1,
        host ? peak->second->host_bytes : peak->second->bytes, [&]() -> const auto& { return plan_; });
    return std::nullopt;
  }

  model::Result<void> evaluate(const Item& item, double limit, Found& found) {
    const auto known = bounds_.find(item.sms);
    const auto schedule = known == bounds_.end() ? nullptr : this->schedule(item.pipeline_choice);
    std::vector<double> least;
    if (schedule != nullptr) least = known->second.slots(schedule->outline, stages(item.pipeline_choice));
    double bound = 0;
    const auto promising = [&](const std::vector<double>& seconds) {
      if (schedule != nullptr) bound = model::lower_bound(schedule->outline, seconds, known->second.p2p());
      return !above(bound, limit);
    };
    const auto estimate =
        worker_.predictor().closed_form_while(plan(item.pipeline_choice, item.sms), limit, std::move(least), promising);
    if (!estimate) {
      if (estimate.error().kind == model::ErrorKind::input) return tl::unexpected(estimate.error());
      found.statistics.refuse(plan_, to_string(estimate.error()));
    } else if (!*estimate) {
      found.statistics.remove(
          Rule::slots, 1, std::max(bound, limit), [&]() -> const auto& { return plan_; });
    } else {
      ++found.statistics.evaluated;
      if (incumbents_.add(shape_of(plan_), {plan_, **estimate}, scope_.fits_surely((**estimate).peak)))
        found.plans.push_back({item.pipeline_choice, item.sms, **estimate});
    }
    return {};
  }

  SearchWorker& worker_;
  SearchScope& scope_;
  const OpenBranch& open_;
  const Recomputation& recompute_;
  std::vector<PipelineChoice> pipeline_choices_;  // those that allow the recomputation
  model::Plan plan_;
  FoundSoFar incumbents_{Incumbents(0), Incumbents(0)};
  std::optional<BranchBlocks> blocks_;
  std::map<std::int64_t, BranchBounds> bounds_;  // [communication SMs]; empty where nothing is bounded
  std::map<std::pair<std::int64_t, std::string>, StageLists> stages_;                  // [stages, split]
  std::map<std::pair<const Pipeline*, const Split*>, double> pipeline_choice_bounds_;  // for the SMs being collected
  std::map<std::size_t, model::Result<Peak>> peaks_;  // [pipeline choice], as peak() finds it; does not depend on SMs
  std::vector<Item> items_;
};

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
    for_each_index(branches.size(), [&](std::size_t i) {
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
  tbb::enumerable_thread_specific<SearchWorker, std::allocator<SearchWorker>> workers_;  // memory that sanitizers see
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
