// What a search changes where no plan fits in memory as asked.
#pragma once

#include "model/base/error.h"
#include "sim/search/cluster_option.h"

namespace plumbline::sim {

// Searches the option (search_option()). Where no plan fits with search.min_fit, the plan is given the remedies of
// search.remedies, each on top of those before, until one does; by default it offloads the optimizer, then the
// activations too. A note of the option has what was changed; where nothing helps, it stays as asked. Returns input
// errors.
model::Result<void> search_with_remedies(ClusterOption& option, const SearchOptions& options);

}  // namespace plumbline::sim
