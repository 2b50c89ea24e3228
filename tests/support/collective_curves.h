// Measured times of one collective over message size (calibrate/published/nccl_curves.csv): CSV with at least the
// columns curve, hardware, nodes, gpus, collective, bytes, time_us, source.
#pragma once

#include <string>
#include <vector>

#include "model/base/error.h"
#include "model/cost/collective_cost.h"

namespace plumbline::tests {

struct CollectiveCurve {
  struct Point {
    double bytes = 0;
    double seconds = 0;
  };
  std::string name, hardware, source;
  model::Collective collective = model::Collective::all_reduce;
  model::CollectiveGroup group;
  std::vector<Point> points;  // by increasing size
};

// Returns the curves in the order of their first row. Input errors name file, line and column.
model::Result<std::vector<CollectiveCurve>> read_collective_curves(const std::string& path);

}  // namespace plumbline::tests
