// The one table of Megatron's arguments: what each means for a plan or a model, in both directions.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace plumbline::model::megatron {

enum class Meaning {
  value,        // its value is the key's value
  flag,         // the key is true when it is given
  rule,         // takes part in a rule that reads and writes the key (rules.h)
  not_modeled,  // can change the cost, and no key says it
  no_cost,      // changes no cost: logging, checkpoints, learning rates, data paths
};

struct Argument {
  std::string_view name;
  Meaning meaning;
  std::string_view key;   // of a plan ("parallelism.tensor") or of a ModelShape ("shape.layers"); may be empty
  std::string_view note;  // the rule in a few words, or what is left out
};

// In the order in which they are written.
std::span<const Argument> arguments();

// nullptr when the name is not known.
const Argument* find_argument(std::string_view name);

// The nearest known name, "" when none is near.
std::string nearest_argument(std::string_view name);

}  // namespace plumbline::model::megatron
