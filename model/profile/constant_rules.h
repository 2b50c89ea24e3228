// The rules for the constants of a profile: every name that one may have, with dimension and range. The table is
// model/profile/constants.def, a line each.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/base/error.h"
#include "model/base/parameter_file.h"
#include "model/base/provenance.h"
#include "model/base/units.h"

namespace plumbline::model {

inline constexpr std::string_view measured_prefix = "measured.";  // of the times of single operators

// The values that a constant may have, in SI. Both ends are included.
struct ConstantRange {
  double low = 0, high = 0;
  bool whole = false;  // no fractions
  double origin = 0;   // errors are log-normal in what the constant is above it
};

struct ConstantRule {
  std::string name;  // "gemm.bf16.k_time"; # stands for a whole number from 1, * for anything without a dot
  UnitDimension dimension = UnitDimension::count;
  ConstantRange range;
  std::string_view meaning;  // one phrase
};

// Returns every rule, in the order of the table; lists of words are expanded.
const std::vector<ConstantRule>& constant_rules();

// Returns the rules of the constant of that name, of those below it ("gemm.bf16"), or of those whose last part has that
// name. An unknown name is an input error with the nearest one.
Result<std::vector<ConstantRule>> find_constant_rules(std::string_view name);

// Returns the values that a constant may have, in its own unit, or nothing where check_constant() would refuse its name
// or unit.
std::optional<ConstantRange> constant_range(const Parameter& constant);

// Returns the deviation of the logarithm of what a constant is above its range's origin, for a relative uncertainty of
// its value; an exponent that is at least 1 never falls below it so.
double log_deviation(const Parameter& constant, double relative_uncertainty);

// Returns whether a constant plays a part only where a model is served.
bool is_of_serving(std::string_view name);

// Returns nothing for a constant that a profile may have. Else it returns an input error whose key is the constant's
// name, without a file: an unknown name (with the nearest one), an unknown unit or one of another dimension, a value
// out of range or not finite.
Result<void> check_constant(const Parameter& constant);

// Returns the first error of the file's constants, with file and line.
Result<void> check_constants(const ParameterFile& file);

// A change to single constants of a profile or a topology, for what-if questions: NAME=VALUE.
struct ConstantChange {
  std::string name;  // dotted, without the name of the file; a * matches any characters
  double value = 0;  // in the constant's own unit; with * in the name, a factor on every constant that matches
  bool is_factor() const { return name.find('*') != std::string::npos; }
};

// Returns whether the name matches a pattern in which each * matches any characters, dots included.
bool name_fits(std::string_view name, std::string_view pattern);

// Makes the change. The kind of the constants becomes assumed, and their source gives their former values. A name that
// matches nothing is an input error whose key is that name and whose hint is the nearest name. So is the tile of a
// GEMM, without which its rates mean nothing.
Result<void> apply_change(const ConstantChange& change, const std::vector<Parameter*>& constants);

}  // namespace plumbline::model
