#include "real/cuda/plan_conditions.h"

#include <cuda_runtime_api.h>

#include "model/cost/sm_partition.h"
#include "real/cuda/status.h"
#include "real/executor/infeasible.h"

namespace plumbline::real::cuda {

int communication_sms(const model::Plan& plan) {
  constexpr int usual = 20;
  return plan.overlap.communication_sms > 0 ? static_cast<int>(plan.overlap.communication_sms) : usual;
}

int target_sms(const model::Plan& plan, int device_sms) {
  const std::int64_t set_aside = plan.overlap.communication_sms;
  if (set_aside == 0) return 0;
  const model::SmPartition partition{model::sm_policy(plan.overlap.sm_policy), device_sms, set_aside};
  const auto width = static_cast<int>(partition.launch_width(model::CoRunner::none));
  return width == device_sms ? 0 : width;
}

model::Result<int> device_sms(int device) {
  int sms = 0;
  const Status status =
      outcome(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device), "reading the number of SMs");
  if (status.ok()) return sms;
  return infeasible(status.failure);
}

EmulationOptions emulation_options(const model::Plan& plan, const model::ClusterShape& cluster,
                                   std::int32_t pipeline_rank) {
  constexpr double usual_nic_gbps = 50;  // a NIC of 400 Gbit/s
  EmulationOptions options;
  options.ranks = static_cast<std::int32_t>(plan.cluster.gpus);
  options.rank = pipeline_rank * static_cast<std::int32_t>(plan.cluster.gpus / plan.parallelism.pipeline);
  if (cluster.gpus_per_node > 0) options.ranks_per_node = static_cast<std::int32_t>(cluster.gpus_per_node);
  const double nic = cluster.gpus_per_node > 0 ? cluster.inter_node_bandwidth().value() * 1e-9 : 0;
  options.nic_gbps = nic > 0 ? nic : usual_nic_gbps;
  options.communication_sms = communication_sms(plan);
  options.collective_ctas = static_cast<int>(plan.overlap.collective_sms.value_or(0));
  return options;
}

}  // namespace plumbline::real::cuda
