// The plans of a branch under one recomputation, from the one that can be the fastest on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sim/search/detail/branch_bounds.h"
#include "sim/search/detail/branch_search.h"

namespace plumbline::sim {

class BranchPlans {
 public:
  // All must outlive it.
  BranchPlans(SearchWorker& worker, const OpenBranch& open, const Recomputation& recompute);

  // Removes plans by bounds that are quick to know first; the rest is evaluated in the order of its bounds.
  model::Result<Found> decide(const Incumbents& before);

 private:
  struct Item {
    double bound = 0;  // s
    std::int64_t sms = 0;
    std::size_t pipeline_choice = 0;
  };
  const model::Plan& plan(std::size_t pipeline_choice, std::int64_t sms);
  const StageLists& stages(std::size_t pipeline_choice);
  const ScheduleOutline* outline(std::size_t pipeline_choice);
  model::Result<void> collect(std::int64_t sms, Found& found);
  double bound(std::size_t pipeline_choice, std::int64_t sms);
  // What decides one plan; each says whether it is still to be decided.
  bool in_time(const Item& item, double limit, Found& found);
  model::Result<bool> in_memory(const Item& item, Found& found);
  model::Result<void> evaluate(const Item& item, double limit, Found& found);

  SearchWorker& worker_;
  SearchScope& scope_;
  const OpenBranch& open_;
  const Recomputation& recompute_;
  std::vector<PipelineChoice> pipeline_choices_;  // that allow the recomputation
  model::Plan plan_;
  std::optional<BranchBlocks> blocks_;
  std::map<std::int64_t, BranchBounds> bounds_;  // [communication SMs]; none where nothing is bounded
  std::map<std::pair<std::int64_t, std::string>, StageLists> stages_;                  // [stages, split]
  std::map<std::pair<const Pipeline*, const Split*>, double> pipeline_choice_bounds_;  // for the SMs being collected
  std::map<std::size_t, model::Result<double>> peaks_;  // [arrangement]: SMs change nothing
  std::vector<Item> items_;
};

}  // namespace plumbline::sim
