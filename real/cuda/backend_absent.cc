// A build without a GPU backend.
#include "real/cuda/backend.h"
#include "real/cuda/measure/case_machine.h"
#include "real/cuda/measure/stage_measure.h"
#include "real/executor/infeasible.h"

namespace plumbline::real::cuda {
namespace {

const char* const reason = "this build has no GPU backend, which PLUMBLINE_CUDA=ON adds";

}  // namespace

GpuReport describe_gpu(int) { return {GpuPresence::not_built, reason}; }

int usual_gpu(int local_rank) { return local_rank; }

model::Result<GpuRunResult> run_on_gpu(const RunInput&, const RunOptions&, const GpuOptions&, ControlChannel&,
                                       const GpuObserver&) {
  return tl::unexpected(model::Error{model::ErrorKind::infeasible, reason, "", 0, "--backend", ""});
}

model::Result<StageMeasurement> measure_stages(const model::Plan&, const model::ClusterShape&,
                                               const model::StepProgram&, const std::string&,
                                               const StageMeasureOptions&, const MeasureObserver&) {
  return infeasible(reason);
}

model::Result<std::unique_ptr<CaseMachine>> open_case_machine(const CaseMachineOptions&, ControlChannel&) {
  return infeasible(reason);
}

model::Result<std::string> list_libraries(const std::vector<std::string>&) { return infeasible(reason); }

}  // namespace plumbline::real::cuda
