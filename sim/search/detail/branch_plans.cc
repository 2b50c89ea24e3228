#include "sim/search/detail/branch_plans.h"

#include <algorithm>
#include <limits>

#include "model/memory/memory.h"
#include "sim/predict/memos.h"

namespace plumbline::sim {

BranchPlans::BranchPlans(SearchWorker& worker, const OpenBranch& open, const Recomputation& recompute)
    : worker_(worker),
      scope_(worker.scope()),
      open_(open),
      recompute_(recompute),
      plan_(scope_.space.plan(*open.branch)) {
  for (const PipelineChoice& one : open.pipeline_choices)
    if (Space::allows(*one.pipeline, recompute)) pipeline_choices_.push_back(one);
}

const model::Plan& BranchPlans::plan(std::size_t pipeline_choice, std::int64_t sms) {
  const PipelineChoice& one = pipeline_choices_[pipeline_choice];
  Space::apply({one.pipeline, one.zero_stage, one.split, &recompute_, sms}, plan_);
  return plan_;
}

const StageLists& BranchPlans::stages(std::size_t pipeline_choice) {
  const PipelineChoice& one = pipeline_choices_[pipeline_choice];
  const auto [entry, fresh] = stages_.try_emplace({one.pipeline->stages, one.split->word});
  if (fresh) entry->second = stage_lists(plan(pipeline_choice, 0), scope_.free.architecture, one.pipeline->stages);
  return entry->second;
}

std::shared_ptr<const PreparedSchedule> BranchPlans::schedule(std::size_t pipeline_choice) {
  const Pipeline& pipeline = *pipeline_choices_[pipeline_choice].pipeline;
  return scope_.inputs.tables->find(*pipeline.kind, pipeline.shape).value_or(nullptr);
}

// The bound does not depend on the ZeRO stage.
double BranchPlans::bound(std::size_t pipeline_choice, std::int64_t sms) {
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
model::Result<void> BranchPlans::collect(std::int64_t sms, Found& found) {
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

bool BranchPlans::in_time(const Item& item, double limit, Found& found) {
  if (!above(item.bound, limit)) return true;
  found.statistics.remove(
      Rule::schedule, 1, item.bound, [&]() -> const auto& { return plan_; });
  return false;
}

// Returns the plan's peak, or less where that exceeds the GPU by more than the peak of a plan that was removed.
model::Result<Peak> BranchPlans::peak(const Statistics& removed) {
  const auto least = TRY(worker_.predictor().least_peak(plan_));
  const double closest = removed.by_rule[static_cast<std::size_t>(Rule::memory)].measure;
  if (least.bytes >= closest && above(least.bytes, scope_.inputs.cluster.device.memory.value())) return least;
  return worker_.predictor().peak(plan_);
}

model::Result<std::optional<Peak>> BranchPlans::in_memory(const Item& item, Found& found) {
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

model::Result<void> BranchPlans::evaluate(const Item& item, double limit, Found& found) {
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

model::Result<Found> BranchPlans::decide(const FoundSoFar& before, const Statistics& removed) {
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

}  // namespace plumbline::sim
