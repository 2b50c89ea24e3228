// The conditions under which a plan's kernels run on a GPU, the same for a run and for a measurement.
#pragma once

#include <cstdint>

#include "model/base/error.h"
#include "model/plan/plan.h"
#include "model/profile/cluster.h"
#include "real/cuda/comm/communicator.h"

namespace plumbline::real::cuda {

// SMs of an expert all-to-all: those that the plan reserves, by default as many as DeepSeek-V3 used.
int communication_sms(const model::Plan& plan);

// The SM count given to libraries under the plan's overlap.sm_policy; 0: all of the device.
int target_sms(const model::Plan& plan, int device_sms);
// The SM count of the device. Infeasible if it does not answer.
model::Result<int> device_sms(int device);

// Returns the peers of a pipeline rank's first rank, with the cluster's nodes and NICs.
EmulationOptions emulation_options(const model::Plan& plan, const model::ClusterShape& cluster,
                                   std::int32_t pipeline_rank);

}  // namespace plumbline::real::cuda
