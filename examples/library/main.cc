// Predicts a training step with the library: a shipped plan, or the one that is named.
#include <cstdio>
#include <string>

#include "model/architecture/architecture.h"
#include "model/plan/plan.h"
#include "model/profile/profile.h"
#include "sim/predict/simulate.h"
#include "topologies/topology.h"

namespace model = plumbline::model;
namespace sim = plumbline::sim;
namespace topologies = plumbline::topologies;

model::Result<double> step_seconds(const std::string& data, const std::string& name) {
  const auto plan = model::load_plan(data + "/examples/" + name + ".toml", {});
  if (!plan) return tl::unexpected(plan.error());
  const auto architecture = model::load_architecture_of(*plan, data + "/examples/" + plan->model.config);
  if (!architecture) return tl::unexpected(architecture.error());
  const auto topology = topologies::load_topology(data + "/topologies/" + plan->cluster.topology + ".toml",
                                                  data + "/topologies/devices", topologies::variation_of(*plan));
  if (!topology) return tl::unexpected(topology.error());
  const auto profile = model::load_profile(data + "/profiles/" + topology->cluster.default_profile + ".toml");
  if (!profile) return tl::unexpected(profile.error());
  const sim::Inputs inputs{*plan, *architecture, topology->cluster, *profile, nullptr, topology->fabric};
  const auto simulation = sim::simulate_on_network(inputs, false);
  if (!simulation) return tl::unexpected(simulation.error());
  return simulation->result.step.time_s;
}

int main(int argc, char** argv) {
  const std::string name = argc > 1 ? argv[1] : "deepseek-v3-2048xh800";
  const auto seconds = step_seconds(DATA, name);
  if (!seconds) {
    std::fprintf(stderr, "%s\n", to_string(seconds.error()).c_str());
    return 1;
  }
  std::printf("%s: %.2f s per step\n", name.c_str(), *seconds);
  return 0;
}
