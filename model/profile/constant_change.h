// Changes to single constants of a profile or a topology, for what-if questions: NAME=VALUE.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "model/base/error.h"
#include "model/base/provenance.h"

namespace plumbline::model {

struct ConstantChange {
  std::string name;  // dotted, without the name of the file; a * stands for any characters
  double value = 0;  // in the constant's own unit; of a name with *, a factor on every constant that fits
  bool is_factor() const { return name.find('*') != std::string::npos; }
};

// Whether the name fits a pattern in which each * stands for any characters, dots included.
bool name_fits(std::string_view name, std::string_view pattern);

// Makes the change; the constants' kind becomes assumed, and their source says what they were. A name that nothing fits
// is an input error with the nearest name; its key is the change's name.
Result<void> apply_change(const ConstantChange& change, const std::vector<Parameter*>& constants);

}  // namespace plumbline::model
