#include "cli/inputs.h"

#include "cli/data.h"
#include "topologies/topology.h"

namespace plumbline::cli {

namespace {

model::Result<model::Profile> profile_of(const model::Plan& plan, const model::ClusterShape& cluster,
                                         const std::optional<std::string>& wanted) {
  const std::string name = wanted.value_or(plan.cluster.profile.value_or(cluster.default_profile));
  const model::Result<std::string> path = resolve_profile(name);
  if (!path) return tl::unexpected(path.error());
  return model::load_profile(*path);
}

model::Result<topologies::Topology> topology_of(const model::Plan& plan) {
  const model::Result<std::string> topology = resolve_topology(plan.cluster.topology);
  if (!topology) return tl::unexpected(topology.error());
  const model::Result<std::string> devices = resolve_device_folder(*topology);
  if (!devices) return tl::unexpected(devices.error());
  return topologies::load_topology(*topology, *devices, topologies::variation_of(plan));
}

}  // namespace

model::Result<sim::Inputs> load_inputs(const std::string& plan_name, const std::vector<std::string>& overrides,
                                       const std::optional<std::string>& profile_name) {
  const model::Result<std::string> plan_path = resolve_plan(plan_name);
  if (!plan_path) return tl::unexpected(plan_path.error());
  const model::Result<model::Plan> plan = model::load_plan(*plan_path, overrides);
  if (!plan) return tl::unexpected(plan.error());
  return inputs_of_plan(*plan, profile_name);
}

model::Result<sim::Inputs> inputs_of_plan(const model::Plan& plan, const std::optional<std::string>& profile_name) {
  const model::Result<std::string> config = resolve_model(plan.file, plan.model.config);
  if (!config) return tl::unexpected(config.error());
  const model::Result<model::Architecture> architecture = model::load_architecture_of(plan, *config);
  if (!architecture) return tl::unexpected(architecture.error());
  const model::Result<topologies::Topology> topology = topology_of(plan);
  if (!topology) return tl::unexpected(topology.error());
  const model::Result<model::Profile> profile = profile_of(plan, topology->cluster, profile_name);
  if (!profile) return tl::unexpected(profile.error());
  return sim::Inputs{plan, *architecture, topology->cluster, *profile, nullptr, topology->fabric};
}

}  // namespace plumbline::cli
