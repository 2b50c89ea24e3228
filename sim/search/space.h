// The plans that a search chooses from: every combination of the values in sim/search/choices.h that model::make_layout
// accepts. They are grouped in branches, whose blocks have the same graphs except for recomputation. Plans are never
// listed one by one: a branch holds its pipelines, which combine with every tuning.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "model/base/error.h"
#include "model/plan/layout.h"
#include "model/plan/stage_split.h"
#include "model/schedule/schedule.h"
#include "sim/predict/inputs.h"
#include "sim/search/choices.h"

namespace plumbline::sim {

// A pipeline degree and a schedule for one number of micro-batches, with the valid ZeRO stages and splits.
struct Pipeline {
  const model::ScheduleKind* kind = nullptr;
  model::ScheduleShape shape;
  std::int64_t virtual_stages = 1;  // as the plan has them
  std::int64_t stages = 1;          // of one direction
  std::vector<std::int64_t> zero_stages;
  std::vector<Split> splits;
  std::int64_t half_of_a_stage = 0;  // layers; 0: stages are too short to be halved
  bool whole_layers = true;          // the software computes whole layers again with this schedule
};

// Plans that share all degrees but the pipeline, and the micro-batch size.
struct Branch {
  model::Parallelism parallelism;  // pipeline and zero_stage are those of the inputs' plan
  std::int64_t micro_batch_size = 1;
  std::int64_t global_batch_size = 0;  // the least of the pipelines: with [rollout] it depends on the data ranks
  std::vector<const Pipeline*> pipelines;
  std::vector<std::int64_t> communication_sms;
};

// One plan of a branch.
struct Point {
  const Pipeline* pipeline = nullptr;
  std::int64_t zero_stage = 0;
  const Split* split = nullptr;
  const Recomputation* recompute = nullptr;
  std::int64_t communication_sms = 0;
};

class Space {
 public:
  explicit Space(const Inputs& inputs, Breadth breadth = Breadth::complete);

  const std::vector<Branch>& branches() const { return branches_; }
  const Choices& choices() const { return choices_; }
  // Returns why an empty space is empty: what refuses most of the combinations that come furthest.
  model::Error refusal() const;
  // Returns whether a pipeline allows a recomputation: `half` needs stages of two layers.
  static bool allows(const Pipeline& pipeline, const Recomputation& recompute) {
    return (!recompute.half || pipeline.half_of_a_stage > 0) && (recompute.policy != "full" || pipeline.whole_layers);
  }
  std::uint64_t size(const Branch& branch) const;
  std::uint64_t size() const;
  // Returns the number of plans of a pipeline for one ZeRO stage and one split.
  std::uint64_t tunings(const Branch& branch, const Pipeline& pipeline) const;

  // Returns the inputs' plan with the degrees of the branch and an empty [search].
  model::Plan plan(const Branch& branch) const;
  static void apply(const Point& point, model::Plan& plan);

 private:
  // The checks of a combination, in their order.
  enum class Check { degrees, schedule, split, sharding, recomputation, communication };

  // Counts a combination that a check refuses, unless others come further.
  void refuse(Check check, const model::Error& error);
  // Adds every combination of the choices for the degrees from index `next` on.
  void add_degrees(model::Plan plan, std::size_t next);
  void add_branches(model::Plan plan);
  const Pipeline* pipeline(const model::Plan& plan);
  // Leaves the splits, ZeRO stages and recomputations with which the pipeline of the plan is valid, and returns whether
  // there are any of each.
  bool keep_valid(model::Plan plan, Pipeline& pipeline);
  // Returns the stages that are valid; of those that shard nothing, where every rank is alone with its states, the
  // first.
  std::vector<std::int64_t> zero_stages(model::Plan plan, std::int32_t directions);
  // Returns split_costs(), which plans with the same degrees but the pipeline share.
  const model::Result<model::SplitCosts>& costs(const model::Plan& plan, const model::Layout& layout);

  const Inputs& inputs_;
  Choices choices_;
  model::Plan base_;
  std::vector<Branch> branches_;
  std::deque<Pipeline> pipelines_;  // distinct ones
  std::map<std::vector<std::int64_t>, const Pipeline*> known_;
  std::map<std::vector<std::int64_t>, model::Result<model::SplitCosts>> costs_;
  Check furthest_ = Check::degrees;               // the check that refuses those below
  std::map<std::string, std::uint64_t> refused_;  // combinations by what refuses them
};

}  // namespace plumbline::sim
