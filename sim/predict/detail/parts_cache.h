// Finds the parts of a plan (sim/predict/plan_work.h) in the cache of earlier plans and makes those that are missing.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "model/base/error.h"
#include "model/plan/plan.h"
#include "model/result/result.h"
#include "sim/predict/cached_stages.h"
#include "sim/predict/cost_models.h"
#include "sim/predict/inputs.h"
#include "sim/predict/plan_key.h"
#include "sim/predict/plan_work.h"

namespace plumbline::sim {

// Refuses predictions that no computation can have, in every build. Errors name the plan's profile and device and the
// quantity at fault.

// What a prediction has to do with: its inputs, whose plan does not matter, and the constants that hold on the device.
struct Predicted {
  const Inputs& inputs;
  const model::Plan& plan;
  const CostModels& costs;
};

// Checks times and memory: each is a finite number that is not negative (an input error), and the model's FLOPs with
// causal attention take at least as long as at the device's dense peak of the plan's format (MFU up to 1; infeasible).
// A few comparisons: searches call it for every plan.
model::Result<void> check_estimate(const Predicted& predicted, const model::StepTimes& step, double peak_bytes);

// Checks a step against its proven lower bound (an input error), and against all FLOPs of its busiest rank at the
// device's peaks (infeasible), to 1e-9 of them.
model::Result<void> check_limits(const Predicted& predicted, double step_s, double bound_s, double flops_at_peak_s);

// Refuses a step, by its closed form, that is too long for events, whose times are picoseconds of 64 bits (an input
// error).
model::Result<void> check_countable(const Predicted& predicted, double step_s);

// Returns a sentence where the step is faster than at a peak that is only assumed, for a profile that holds on the
// device: then the peak is at fault, and the checks above let it pass.
std::vector<std::string> peak_warnings(const Predicted& predicted, double step_s, double flops_at_peak_s);

// For one thread at a time. The cache is cleared when it holds more than some hundred distinct graphs.
class PartsCache {
 public:
  // Inputs without memos get new ones; their plan does not matter.
  explicit PartsCache(Inputs inputs);

  // Finds layout, schedule, costs and stages. It may destroy parts that `work` had from another plan. Returns the
  // errors of make_layout(), cost_models() and a schedule that deadlocks.
  model::Result<void> find(const model::Plan& plan, PlanWork& work);
  // find_states() finds the training state of each rank, find_updates() its work after the last slot.
  void find_states(PlanWork& work);
  void find_updates(PlanWork& work);

  // Replaces the constants: costs and what is timed by them are forgotten, with every part of an earlier plan. Slots
  // wait for stragglers as between the predictions before the first call, by how the rows of experts vary.
  void set_profile(model::Profile profile);
  // Does the same for the rates of links, on which waits depend: they are found anew.
  void set_links(const model::ClusterShape& cluster, const std::optional<topologies::FabricShape>& fabric);

  const Inputs& inputs() const { return inputs_; }

 private:
  template <class Part>
  using Known = std::unordered_map<std::string, std::unique_ptr<Part>>;

  void forget();
  void forget_times();
  model::Result<void> find_costs(PlanWork& work);
  void find_stages(PlanWork& work);
  const std::vector<std::int32_t>& kinds_on(const PlanWork& work, const model::ScheduleTable::Rank& rank);

  model::Device device_;  // without the allocator of the profile
  Inputs inputs_;         // its plan is the last one for which costs were computed
  PlanKey key_;
  std::vector<std::int32_t> kinds_;
  Known<CostModels> costs_;
  Known<StageLists> stages_;
  Known<model::StageLibrary> libraries_;
  Known<TimedStages> timed_;
  std::map<const model::StageLibrary*, SlotWaits> waits_;  // of the first profile; empty before the second
  StageOptimizers optimizers_;
  Known<ShardedStages> sharded_;
};

}  // namespace plumbline::sim
