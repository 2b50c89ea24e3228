// Changes to single constants of a profile or a topology, for what-if questions: NAME=VALUE.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "model/base/error.h"
#include "model/base/provenance.h"

namespace plumbline::model {

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
