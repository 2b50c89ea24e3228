// A build without a GPU backend.
#include "real/cuda/measure/stage_measure.h"

namespace plumbline::real::cuda {

std::string missing_gpu(int /*device*/) {
  return "this build has no GPU backend: build it where the CUDA toolkit is (-D PLUMBLINE_CUDA=ON)";
}

model::Result<StageMeasurement> measure_stages(const model::Plan& /*plan*/, const model::ClusterShape& /*cluster*/,
                                               const model::StepProgram& /*program*/, const std::string& /*name*/,
                                               const StageMeasureOptions& options,
                                               const MeasureObserver& /*observer*/) {
  return tl::unexpected(model::Error{model::ErrorKind::infeasible, missing_gpu(options.device), "", 0, "", ""});
}

}  // namespace plumbline::real::cuda
