// Decides the plans of a branch under one recomputation, those with the lowest bounds first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sim/predict/memos.h"
#include "sim/search/detail/branch_bounds.h"
#include "sim/search/detail/branch_search.h"

namespace plumbline::sim {

class BranchPlans {
 public:
  // All arguments must outlive the object.
  BranchPlans(SearchWorker& worker, const OpenBranch& open, const Recomputation& recompute);

  // Removes plans by cheap bounds first and evaluates the rest in the order of their bounds. `removed` are those of
  // branches before: of plans that are further from fitting no exact peak is found.
  model::Result<Found> decide(const FoundSoFar& before, const Statistics& removed);
  // Returns a plan of those that allow the recomputation; valid until the next call.
  const model::Plan& plan(std::size_t pipeline_choice, std::int64_t sms);

 private:
  struct Item {
    double bound = 0;  // s
    std::int64_t sms = 0;
    std::size_t pipeline_choice = 0;
  };
  const StageLists& stages(std::size_t pipeline_choice);
  // Returns nullptr where the schedule deadlocks.
  std::shared_ptr<const PreparedSchedule> schedule(std::size_t pipeline_choice);
  model::Result<void> collect(std::int64_t sms, Found& found);
  double bound(std::size_t pipeline_choice, std::int64_t sms);
  // These decide one plan. in_time() returns whether it is still undecided, and in_memory() its peak where it is.
  bool in_time(const Item& item, double limit, Found& found);
  model::Result<Peak> peak(const Statistics& removed);
  model::Result<std::optional<Peak>> in_memory(const Item& item, Found& found);
  model::Result<void> evaluate(const Item& item, double limit, Found& found);

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

}  // namespace plumbline::sim
