// A build without a GPU backend.
#include "real/cuda/backend.h"
#include "real/cuda/measure/stage_measure.h"

namespace plumbline::real::cuda {

model::Result<StageMeasurement> measure_stages(const model::Plan& /*plan*/, const model::ClusterShape& /*cluster*/,
                                               const model::StepProgram& /*program*/, const std::string& /*name*/,
                                               const StageMeasureOptions& options,
                                               const MeasureObserver& /*observer*/) {
  return tl::unexpected(
      model::Error{model::ErrorKind::infeasible, describe_gpu(options.device).message, "", 0, "", ""});
}

}  // namespace plumbline::real::cuda
