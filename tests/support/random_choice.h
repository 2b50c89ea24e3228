// Draws settings of a plan.
#pragma once

#include <string>
#include <vector>

#include "model/base/random.h"

namespace plumbline::tests {

inline std::string choice(model::Random& random, const std::vector<std::string>& values) {
  return values[random.next() % values.size()];
}

}  // namespace plumbline::tests
