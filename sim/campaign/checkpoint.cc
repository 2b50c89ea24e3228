#include "sim/campaign/checkpoint.h"

#include <algorithm>

#include "model/memory/training_state.h"

namespace plumbline::sim {
namespace {

double seconds_at(double bytes, double rate) { return rate > 0 ? bytes / rate : 0; }

}  // namespace

double checkpoint_bytes(const model::Plan& plan, const model::ModelMetrics& metrics) {
  return (metrics.parameters + metrics.prediction_parameters) * model::state_bytes_per_parameter(plan);
}

CheckpointPolicy checkpoint_policy(CheckpointKind kind, bool on_ssd, double bytes, const model::ClusterShape& cluster,
                                   const CheckpointStorage& storage) {
  const double of_node = bytes / static_cast<double>(cluster.nodes()),
               of_gpu = bytes / static_cast<double>(cluster.gpus);
  const double copied_s = seconds_at(of_gpu, cluster.device.host_bandwidth.value());
  const double stored_s = std::max(seconds_at(bytes, storage.all), seconds_at(of_node, storage.node));
  const bool neighbor = kind == CheckpointKind::neighbor;
  CheckpointPolicy policy;
  double written_s = on_ssd ? seconds_at(of_node, storage.ssd) : stored_s;
  if (neighbor) written_s = seconds_at(of_gpu, cluster.inter_node_bandwidth().value());
  policy.load_s = copied_s + written_s;
  policy.stall_s = copied_s + (neighbor ? storage.neighbor_stall_s : storage.stall_s);
  policy.write_s = policy.stall_s + written_s + (neighbor ? 0 : storage.commit_s);
  if (kind == CheckpointKind::synchronous) policy.stall_s = policy.write_s;
  if (!neighbor && !on_ssd) return policy;
  policy.copies = neighbor ? 2 : 1;
  policy.storage_every = storage.every;
  policy.storage_write_s = policy.write_s + stored_s + storage.commit_s;
  policy.storage_load_s = copied_s + stored_s;
  return policy;
}

}  // namespace plumbline::sim
