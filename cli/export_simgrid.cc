#include <string>

#include "cli/data.h"
#include "cli/export.h"
#include "cli/output.h"
#include "model/plan/plan.h"
#include "topologies/simgrid_platform.h"
#include "topologies/topology.h"

namespace plumbline::cli {

model::Result<void> export_simgrid_platform(const ExportArguments& arguments) {
  const auto plan_path = resolve_plan(arguments.plan);
  if (!plan_path) return tl::unexpected(plan_path.error());
  const auto plan = model::load_plan(*plan_path, arguments.overrides);
  if (!plan) return tl::unexpected(plan.error());
  const auto path = resolve_topology(plan->cluster.topology);
  if (!path) return tl::unexpected(path.error());
  const auto devices = resolve_device_folder(*path);
  if (!devices) return tl::unexpected(devices.error());
  const auto topology = topologies::load_topology(*path, *devices, topologies::variation_of(*plan));
  if (!topology) return tl::unexpected(topology.error());
  const auto fabric = topologies::Fabric::make(topology->fabric, topology->cluster.gpus);
  if (!fabric) return tl::unexpected(fabric.error());
  return write_output(arguments.out, topologies::simgrid_platform(*topology, *fabric));
}

}  // namespace plumbline::cli
