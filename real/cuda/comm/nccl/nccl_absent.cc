// A build that found no nccl.h.
#include "real/cuda/comm/nccl/other_ranks.h"
#include "real/executor/infeasible.h"

namespace plumbline::real::cuda {

model::Result<std::unique_ptr<OtherRanks>> connect_ranks(const OwnDevice& /*device*/, ControlChannel& /*channel*/,
                                                         const CommunicatorOptions& /*options*/) {
  return infeasible("this build has no NCCL: nccl.h was not found", "install NCCL's header and build again");
}

}  // namespace plumbline::real::cuda
