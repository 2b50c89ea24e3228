// What a plan says of the conditions under which its kernels run on a GPU; the same for a run and for a measurement.
#pragma once

#include <cstdint>

#include "model/base/error.h"
#include "model/plan/plan.h"
#include "model/profile/cluster.h"
#include "real/cuda/comm/communicator.h"

namespace plumbline::real::cuda {

// SMs of an exchange: those that the plan sets aside, else as many as DeepSeek-V3 gave it.
int communication_sms(const model::Plan& plan);

// SMs that libraries are to reckon with under the plan's overlap.sm_policy; 0: all of the device.
int target_sms(const model::Plan& plan, int device_sms);
// Infeasible: the device does not answer.
model::Result<int> device_sms(int device);

// Peers of a pipeline rank's first rank, with nodes and NICs as the cluster has them.
EmulationOptions emulation_options(const model::Plan& plan, const model::ClusterShape& cluster,
                                   std::int32_t pipeline_rank);

}  // namespace plumbline::real::cuda
