// The source of a constant. Every constant of a profile or topology file is a Parameter.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/base/error.h"

namespace plumbline::model {

enum class Evidence { measured, fitted, published, datasheet, assumed };
std::string_view to_string(Evidence evidence);
Result<Evidence> parse_evidence(std::string_view text);

struct Parameter {
  std::string name;  // dotted key, e.g. "gemm.fp8.k_time"
  double value = 0;  // in `unit`
  std::string unit;  // as written in the file, e.g. "GB/s"
  Evidence kind = Evidence::assumed;
  std::string source;
  std::optional<double> relative_uncertainty;  // one standard deviation over the value
  // The range around the value that one or more sources state, in `unit`; none: they state one value.
  std::optional<double> low = std::nullopt;
  std::optional<double> high = std::nullopt;
  std::vector<std::string> rows = {};  // sets of measured steps that a fitted constant of a stack rests on
  std::string stack = "";              // name of the stack that it comes from; empty: a profile or a topology
  bool operator==(const Parameter&) const = default;
};

// Constants whose errors belong together: those of one fit, and one fact that several constants state.
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
