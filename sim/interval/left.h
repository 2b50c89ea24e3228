// What is left between predictions and measurements.
#pragma once

#include <string>

namespace plumbline::sim {

// It is what no other source of uncertainty accounts for, of ln(measured / predicted), estimated from steps and
// deployments of other people (calibrate/residuals). It enters intervals only.
struct Left {
  double location = 0;  // its middle
  // Standard deviations: of what all plans of one software stack share, and of what each plan has of its own.
  double common = 0, own = 0;
  std::string rows;  // what it rests on: "603 steps of 10 sets, 21 of this stack"
  bool operator==(const Left&) const = default;
};

}  // namespace plumbline::sim
