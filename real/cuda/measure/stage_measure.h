// The operators and exchanges of a plan's stages, timed on the GPU of this process, which executes one rank and stands
// in for the others. For who knows nothing of CUDA: every build has it, and says what it lacks.
#pragma once

#include <string>
#include <vector>

#include "model/base/error.h"
#include "model/plan/plan.h"
#include "model/profile/cluster.h"
#include "model/program/program.h"
#include "real/measure/clock_reading.h"
#include "real/measure/rounds.h"

namespace plumbline::real::cuda {

struct StageMeasureOptions {
  int device = 0;                            // CUDA's number of it
  std::vector<std::string> library_folders;  // looked into before the usual places
  RoundOptions rounds;
};

struct StageMeasurement {
  std::vector<Series> series;
  std::string device;         // as its driver calls it
  int sms = 0;                // of the device
  int communication_sms = 0;  // that an exchange holds
  int target_sms = 0;         // that libraries reckon with; 0: all
  double nic_gbps = 0;        // at which exchanges move what leaves the node
  ClockReading clock;         // medians over the rounds, read right after each; not known without NVML
};

// `name` stands before those of operators. Libraries reckon with the SMs that the plan's overlap.sm_policy launches
// on, exchanges hold overlap.communication_sms, and NICs have the rate of the cluster's. Errors of a CudaDevice, and
// what fails on the way: an operator that the GPU cannot compute, too little memory.
model::Result<StageMeasurement> measure_stages(const model::Plan& plan, const model::ClusterShape& cluster,
                                               const model::StepProgram& program, const std::string& name,
                                               const StageMeasureOptions& options, const MeasureObserver& observer);

}  // namespace plumbline::real::cuda
