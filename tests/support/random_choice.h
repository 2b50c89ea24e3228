// Draws settings of a plan.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "model/base/random.h"

namespace plumbline::tests {

inline std::string choice(model::Random& random, const std::vector<std::string>& values) {
  return values[random.next() % values.size()];
}

// Draws the same values on every machine.
class Draw {
 public:
  explicit Draw(std::uint32_t seed) : random_(seed) {}
  template <class Value>
  Value one_of(const std::vector<Value>& values) {
    return values[random_() % values.size()];
  }
  bool chance(std::uint32_t one_in) { return random_() % one_in == 0; }

 private:
  std::mt19937 random_;
};

}  // namespace plumbline::tests
