#include "real/cuda/backend.h"

namespace plumbline::real::cuda {

namespace {

const char* const reason = "this build has no GPU backend";

}  // namespace

GpuReport describe_gpu(int) { return {GpuPresence::not_built, reason}; }

int usual_gpu(int local_rank) { return local_rank; }

model::Result<GpuRunResult> run_on_gpu(const RunInput&, const RunOptions&, const GpuOptions&, ControlChannel&,
                                       const GpuObserver&) {
  return tl::unexpected(model::Error{model::ErrorKind::infeasible, reason, "", 0, "--backend", ""});
}

}  // namespace plumbline::real::cuda
