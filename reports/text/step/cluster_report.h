// A step on every GPU of a cluster as sentences and tables.
#pragma once

#include <string>
#include <vector>

#include "model/result/cluster_spread.h"
#include "model/result/result.h"
#include "reports/text/step/comparison.h"

namespace plumbline::reports {

// Returns "Mean of 8 drawn fleets of 2,048 GPUs; eight of ten steps take 19.41 to 19.63 s, 19.02 s on GPUs that are all
// alike." and how long the GPUs compute and wait.
std::string cluster_sentence(const model::ClusterSpread& cluster);

// Returns the same with the parts of the bubble, next to the published one where there is one, and what was drawn. The
// result must have a cluster.
std::string cluster_section(const model::StepResult& result, const std::vector<Comparison>& comparisons);

}  // namespace plumbline::reports
