// A step on every GPU of a cluster as sentences and tables.
#pragma once

#include <string>
#include <vector>

#include "model/result/cluster_spread.h"
#include "model/result/result.h"
#include "reports/text/step/comparison.h"

namespace plumbline::reports {

// Returns the spread of the step over drawn fleets with the parts of the bubble, next to the published one where there
// is one, and what was drawn. The result must have a cluster.
std::string cluster_section(const model::StepResult& result, const std::vector<Comparison>& comparisons);

}  // namespace plumbline::reports
