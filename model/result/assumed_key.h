// A key of the software that a plan leaves open, and what else it usually is.
#pragma once

#include <string>

namespace plumbline::model {

struct AssumedKey {
  std::string key, name;     // "stack.dispatcher", "dispatcher"
  std::string value, other;  // as words: what is predicted with, and another usual value
  std::string setting;       // KEY=VALUE of the other
  std::string given_by;      // "stack megatron-core-2025"; empty: the default
  double ratio = 1;          // of the step, or of a deployment's time per output token: with the other over without
};

}  // namespace plumbline::model
