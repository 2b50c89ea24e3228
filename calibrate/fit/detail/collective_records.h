// Records of collectives on GPUs as the cost function of all predictions sees them.
#pragma once

#include "calibrate/measurement/measurement.h"
#include "model/base/error.h"
#include "model/cost/collective_cost.h"
#include "model/profile/profile.h"

namespace plumbline::calibrate {

// Returns the group of a record: its ranks, equally many on each of its nodes (one where the shape names none).
model::CollectiveGroup group_of(const Measurement& m);

// Returns the cost function of a profile on links of its own line rates. An input error names a missing constant.
model::Result<model::CollectiveCost> collectives_of(const model::Profile& profile);

double collective_seconds(const model::CollectiveCost& cost, const Measurement& m);

}  // namespace plumbline::calibrate
