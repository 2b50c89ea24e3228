// The source of a constant. Every constant of a profile or topology file is a Parameter.
#pragma once

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

}  // namespace plumbline::model
