// Fits constants of a profile to a measured curve of a collective, with the cost function of all predictions
// (model/cost/collective_cost.h). It minimizes the squared relative error over every second size. The sizes between
// them are held out and show how good the fit is.
#pragma once

#include <string>
#include <vector>

#include "model/base/error.h"
#include "model/profile/cluster.h"
#include "model/profile/profile.h"
#include "tests/support/collective_curves.h"

namespace plumbline::tests {

struct CurveFit {
  struct Row {
    double bytes = 0;
    double measured = 0, predicted = 0;  // seconds
    bool held_out = false;
    double error() const { return predicted / measured - 1; }
  };
  model::Profile profile;                // the one given, with the fitted constants
  std::vector<model::Parameter> fitted;  // the fitted constants, of kind fitted, in the requested order
  std::vector<Row> rows;                 // by increasing size

  double median_error(bool held_out) const;   // of the absolute relative errors
  double largest_error(bool held_out) const;  // likewise
};

// Returns the constants that a curve determines: the launch, the latency scale and the rate of NVLink, or of the
// network where the group spans nodes. With sums in the switch (`nvls`) NVLink is the limit between nodes too, and its
// rate is fitted.
std::vector<std::string> constants_to_fit(const CollectiveCurve& curve, bool nvls);

// Fits the named constants, each above 0; a time that is 0 in the profile starts at half of the shortest measured one.
// Input errors are fewer training sizes than constants, and a constant that the profile lacks.
model::Result<CurveFit> fit_curve(const CollectiveCurve& curve, const model::Profile& profile,
                                  const model::ClusterShape& cluster, const std::vector<std::string>& constants);

}  // namespace plumbline::tests
