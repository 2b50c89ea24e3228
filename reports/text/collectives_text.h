// Predicted times of a collective over message size, in the columns of nccl-tests, so that a cluster's own output can
// be laid beside them.
#pragma once

#include <cstdint>
#include <string>

#include "model/base/error.h"
#include "model/cost/collective_cost.h"
#include "model/profile/cluster.h"
#include "model/profile/profile.h"

namespace plumbline::reports {

struct CollectivesOptions {
  model::Collective collective = model::Collective::all_reduce;
  std::int64_t least = 8, most = std::int64_t{8} << 30;  // bytes; doubled from row to row
};

// A table over all GPUs of the cluster, its comments first: what the times rest on. One GPU alone is an input error.
model::Result<std::string> collectives_text(const model::ClusterShape& cluster, const model::Profile& profile,
                                            const CollectivesOptions& options);

}  // namespace plumbline::reports
