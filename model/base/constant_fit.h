// Constants whose errors belong together: those of one fit, and one fact that several constants state.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace plumbline::model {

struct ConstantFit {
  // Constants of one entry share their error: where one is off by a standard deviation, so are the others.
  std::vector<std::vector<std::string>> constants;
  // Correlations of the errors of ln(value): row i has those of entry i + 1 with the entries before it.
  std::vector<std::vector<double>> correlation;
  bool operator==(const ConstantFit&) const = default;
};

// Returns the lower triangle L with L L^T the correlations: the error of entry i is the sum over j up to i of L[i][j]
// times independent numbers of variance 1, and so has variance 1. Correlations that no numbers can have, such as
// rounding leaves, are met as far as that goes.
std::vector<std::vector<double>> factor_of(const ConstantFit& fit);

// Returns the fits with those of their constants for which `keeps` holds. Entries without constants are left out, and
// so are fits of a single constant.
std::vector<ConstantFit> kept(const std::vector<ConstantFit>& fits,
                              const std::function<bool(const std::string& constant)>& keeps);

}  // namespace plumbline::model
