// The clusters of a question, each of one size, as they are named on the command line.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/base/error.h"

namespace plumbline::sim {

// A cluster to search. An empty cluster and 0 GPUs mean those of the plan.
struct ClusterChoice {
  std::string cluster;  // name of a topology, or a file
  std::string profile;  // cost profile; empty: the cluster's own
  std::int64_t gpus = 0;
  bool offered = false;                    // by --offer
  std::optional<double> usd_per_gpu_hour;  // of the offer; nothing: the cluster's own
  bool operator==(const ClusterChoice&) const = default;
};

// Returns every cluster with every number of GPUs, clusters first, each choice once. A cluster may name its own size
// and its cost profile: "h100-dgx@1024:h100-torch". Such a size must be among `gpus`, where there are any. Offers name
// their size and, where the cluster's own does not hold, their price: "h200-hgx:512@2.60". They take the place of
// clusters and sizes.
model::Result<std::vector<ClusterChoice>> cluster_choices(const std::vector<std::string>& clusters,
                                                          const std::vector<std::int64_t>& gpus,
                                                          const std::vector<std::string>& offers = {});

}  // namespace plumbline::sim
