// Small searches over shipped models with a few layers each, and the plans of their spaces.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "sim/predict/memos.h"
#include "sim/search/space.h"
#include "tests/support/step_inputs.h"

namespace plumbline::tests {

struct SmallSearch {
  std::string name;
  sim::Inputs inputs;
};

inline sim::Inputs search_inputs(const std::string& plan, const std::string& profile, std::int64_t layers,
                                 std::vector<std::string> overrides) {
  sim::Inputs inputs = step_inputs(plan, profile, overrides);
  inputs.architecture.layers = layers;
  inputs.routing = std::make_shared<sim::ExpertGroupMemo>();
  return inputs;
}

// Returns searches with experts and dense, on several clusters, with and without uneven experts.
inline std::vector<SmallSearch> small_searches() {
  const std::vector<std::string> moe = {"cluster.gpus=16",
                                        "batch.global_batch_size=64",
                                        "schedule.layers_per_stage=[]",
                                        "parallelism.pipeline=2",
                                        "parallelism.expert=8",
                                        "search.tensor=[1, 2]",
                                        "search.context=1",
                                        "search.pipeline=[1, 2, 4]",
                                        "search.expert=[1, 4, 8]",
                                        "search.expert_tensor=1",
                                        "search.zero_stage=[0, 1, 3]",
                                        "search.micro_batch_size=[1, 2]",
                                        "search.virtual_stages=[1, 2]",
                                        "search.communication_sms=[0, 20]",
                                        "search.recompute=[\"none\", \"selective\", \"half\", \"full\"]",
                                        "search.split=[\"even\", \"last-1\"]"};
  std::vector<std::string> even = moe, uneven = moe, dense;
  even.emplace_back("routing.imbalance=0");
  uneven.emplace_back("search.schedule=[\"1f1b\", \"dualpipe\"]");
  uneven.emplace_back("search.zero_stage=1");
  uneven.emplace_back("search.expert=[4, 8]");
  dense = {"cluster.gpus=16",
           "batch.global_batch_size=64",
           "search.tensor=[1, 2, 4]",
           "search.context=[1, 2]",
           "search.micro_batch_size=[1, 2]",
           "search.virtual_stages=[1, 2]",
           "search.zero_stage=[0, 1, 2, 3]",
           "search.split=[\"even\", \"ends-1\"]"};
  std::vector<std::string> other = dense;
  other.emplace_back("cluster.topology=a100-dgx");
  std::vector<SmallSearch> all;
  all.push_back({"experts", search_inputs(deepseek_plan, "h800", 6, even)});
  all.push_back({"uneven experts", search_inputs(deepseek_plan, "h800", 6, uneven)});
  all.push_back({"dense", search_inputs(llama_plan, "h800", 8, dense)});
  all.push_back({"dense on A100", search_inputs(llama_plan, "a100-public", 8, other)});
  return all;
}

// Visits every plan of the space, branch by branch.
inline void for_each_plan(const sim::Space& space,
                          const std::function<void(const sim::Branch&, const sim::Point&, const model::Plan&)>& visit) {
  for (const sim::Branch& branch : space.branches()) {
    model::Plan plan = space.plan(branch);
    for (const sim::Pipeline* pipeline : branch.pipelines)
      for (const std::int64_t zero : pipeline->zero_stages)
        for (const sim::Split& split : pipeline->splits)
          for (const sim::Recomputation& recompute : space.choices().recompute)
            for (const std::int64_t sms : branch.communication_sms) {
              if (!sim::Space::allows(*pipeline, recompute)) continue;
              const sim::Point point{pipeline, zero, &split, &recompute, sms};
              sim::Space::apply(point, plan);
              visit(branch, point, plan);
            }
  }
}

}  // namespace plumbline::tests
