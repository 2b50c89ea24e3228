// Shipped plans with a profile, by its name or file (tests/support/profiles.h), as inputs of the simulator.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "model/architecture/load_architecture.h"
#include "model/profile/stack.h"
#include "sim/predict/simulate.h"
#include "sim/predict/stage_balance.h"
#include "tests/support/load_cluster.h"
#include "tests/support/profiles.h"
#include "topologies/topology.h"

namespace plumbline::tests {

inline const std::string deepseek_plan = "deepseek-v3-2048xh800";
inline const std::string llama_plan = "llama-3-8b-64xh800";

// `overrides` have the form of the command line, e.g. "cluster.nic_gbps=200".
inline sim::Inputs step_inputs(const std::string& plan_name, const std::string& profile_name,
                               const std::vector<std::string>& overrides = {}) {
  const model::Plan plan = model::load_plan(shipped("examples/" + plan_name + ".toml"), overrides).value();
  sim::Inputs inputs{plan, model::load_architecture(shipped("examples/" + plan.model.config)).value(),
                     load_cluster(shipped("topologies/" + plan.cluster.topology + ".toml"),
                                  shipped("topologies/devices"), topologies::variation_of(plan))
                         .value(),
                     model::load_profile(profile_file(profile_name)).value()};
  inputs.plan = sim::with_balanced_stages(plan, inputs);
  return inputs;
}

// Returns the inputs of a plan that was made in code, with shipped files by the names in it and the plan's stack, else
// the profile's, without the constants that rest on the set `held_out`. Stacks lie next to the folder of the profile.
inline model::Result<sim::Inputs> inputs_of_plan(const model::Plan& plan, const std::string& profile_name,
                                                 const std::string& held_out = "") {
  const auto architecture = model::load_architecture_of(plan, shipped("examples/" + plan.model.config));
  if (!architecture) return tl::unexpected(architecture.error());
  const auto cluster = load_cluster(shipped("topologies/" + plan.cluster.topology + ".toml"),
                                    shipped("topologies/devices"), topologies::variation_of(plan));
  if (!cluster) return tl::unexpected(cluster.error());
  const std::filesystem::path file = profile_file(profile_name);
  const auto profile = model::load_profile(file.string());
  if (!profile) return tl::unexpected(profile.error());
  const std::string stacks = (file.parent_path().parent_path() / "stacks").string();
  const auto stack =
      model::load_stack(stacks + "/" + plan.stack.name.value_or(profile->stack()) + ".toml", stacks, held_out);
  if (!stack) return tl::unexpected(stack.error());
  model::Plan stacked = plan;
  if (const auto applied = model::apply_stack(*stack, *profile, stacked); !applied)
    return tl::unexpected(applied.error());
  sim::Inputs inputs{stacked, *architecture, *cluster, model::with_stack(*profile, *stack)};
  inputs.plan = sim::with_balanced_stages(stacked, inputs);
  return inputs;
}

// Returns step_inputs() with the wiring of the topology, so that transfers cross links.
inline sim::Inputs wired_inputs(const std::string& plan_name, const std::string& profile_name,
                                const std::vector<std::string>& overrides = {}) {
  sim::Inputs inputs = step_inputs(plan_name, profile_name, overrides);
  inputs.fabric = topologies::load_topology(shipped("topologies/" + inputs.plan.cluster.topology + ".toml"),
                                            shipped("topologies/devices"), topologies::variation_of(inputs.plan))
                      .value()
                      .fabric;
  return inputs;
}

}  // namespace plumbline::tests
