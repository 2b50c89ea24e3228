// A build that found no nccl.h.
#include "real/cuda/comm/other_ranks.h"

namespace plumbline::real::cuda {

model::Result<std::unique_ptr<OtherRanks>> meet_other_ranks(const OwnDevice& /*device*/, ControlChannel& /*channel*/,
                                                            const CommunicatorOptions& /*options*/) {
  return tl::unexpected(model::Error{model::ErrorKind::infeasible,
                                     "this build does not know NCCL: nccl.h was not found", "", 0, "",
                                     "install NCCL's header and build again"});
}

}  // namespace plumbline::real::cuda
