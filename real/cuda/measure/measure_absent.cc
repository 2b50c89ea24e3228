// A build without a GPU backend.
#include "real/cuda/backend.h"
#include "real/cuda/measure/case_machine.h"
#include "real/cuda/measure/stage_measure.h"
#include "real/executor/infeasible.h"

namespace plumbline::real::cuda {

namespace {

tl::unexpected<model::Error> absent(int device) { return infeasible(describe_gpu(device).message); }

}  // namespace

model::Result<StageMeasurement> measure_stages(const model::Plan& /*plan*/, const model::ClusterShape& /*cluster*/,
                                               const model::StepProgram& /*program*/, const std::string& /*name*/,
                                               const StageMeasureOptions& options,
                                               const MeasureObserver& /*observer*/) {
  return absent(options.device);
}

model::Result<std::unique_ptr<CaseMachine>> open_case_machine(const CaseMachineOptions& options,
                                                              ControlChannel& /*channel*/) {
  return absent(options.device);
}

model::Result<std::string> list_libraries(const std::vector<std::string>& /*folders*/) { return absent(0); }

}  // namespace plumbline::real::cuda
