// Plans under profiles with a power model: tests/data/h100-power.toml (rates of bursts), h100-power-held.toml (rates
// that were measured under 600 W).
#pragma once

#include <string>
#include <vector>

#include "tests/support/step_inputs.h"

namespace plumbline::tests {

inline model::Profile power_profile(const std::string& name) {
  return model::load_profile(shipped("tests/data/" + name + ".toml"), frozen("profiles")).value();
}

// Returns a shipped plan on H100s, of 700 W.
inline sim::Inputs power_inputs(const std::string& plan, const std::string& profile,
                                std::vector<std::string> overrides = {}) {
  overrides.emplace_back("cluster.topology=h100-dgx");
  sim::Inputs inputs = step_inputs(plan, "h100-public", overrides);
  inputs.profile = power_profile(profile);
  return inputs;
}

}  // namespace plumbline::tests
