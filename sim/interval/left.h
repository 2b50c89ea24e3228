// What is left between predictions and measurements once every other source of uncertainty is accounted for. It is
// estimated from steps and deployments of other people (calibrate/residuals) and enters intervals only.
#pragma once

#include <string>

namespace plumbline::sim {

// Of ln(measured / predicted).
struct Left {
  double location = 0;  // its middle
  // Standard deviations: of what all plans of one software stack share, and of what each plan has of its own.
  double common = 0, own = 0;
  std::string rows;  // what it rests on: "603 steps of 10 sets, 21 of this stack"
  bool operator==(const Left&) const = default;
};

}  // namespace plumbline::sim
