// Times the operators and all-to-alls of a plan's stages on this process's GPU, which executes one rank with emulated
// peers. The header is free of CUDA; a build without CUDA returns an error that names what is missing.
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
  int device = 0;                            // CUDA's ordinal
  std::vector<std::string> library_folders;  // searched before the default folders
  RoundOptions rounds;
};

struct StageMeasurement {
  std::vector<Series> series;
  std::string device;         // the driver's name of it
  int sms = 0;                // of the device
  int communication_sms = 0;  // of an expert all-to-all
  int target_sms = 0;         // SM count given to libraries; 0: all
  double nic_gbps = 0;        // rate of all-to-all traffic that leaves the node
  ClockReading clock;         // medians over the rounds, read right after each; unknown without NVML
};

// `name` prefixes the names of operators. Libraries get the SM count of the plan's overlap.sm_policy, all-to-alls
// reserve overlap.communication_sms, and NICs have the cluster's rate. Errors are those of a CudaDevice and of the
// measurement: an operator that the GPU cannot compute, or too little memory.
model::Result<StageMeasurement> measure_stages(const model::Plan& plan, const model::ClusterShape& cluster,
                                               const model::StepProgram& program, const std::string& name,
                                               const StageMeasureOptions& options, const MeasureObserver& observer);

}  // namespace plumbline::real::cuda
