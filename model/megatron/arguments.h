// The table of Megatron's arguments and their meaning for a plan or a model, in both directions.
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
  not_modeled,  // can change the cost, but no key exists for it
  no_cost,      // changes no cost: logging, checkpoints, learning rates, data paths
};

struct Argument {
  std::string_view name;
  Meaning meaning;
  std::string_view key;   // plan key ("parallelism.tensor") or ModelShape field ("shape.layers"); may be empty
  std::string_view note;  // a summary of the rule, or what is left out
};

// Returns a table with a row for each of the names that a row has, divided by blanks and lines.
std::vector<Argument> table_of(std::span<const Argument> rows);

// Returns whether an argument decides how a step is done, not what it computes: neither the model nor its batch.
bool decides_step(const Argument& argument);

// Returns the arguments in the order in which they are written.
std::span<const Argument> arguments();

// Returns the name under which the table has an argument: another one where it is an older or another project's name,
// or where it is written with _ for -; itself where it is unknown.
std::string known_name(std::string_view name);

// Returns nullptr when the name is unknown.
const Argument* find_argument(std::string_view name);

// Returns the nearest known name, or "" when none is near.
std::string nearest_argument(std::string_view name);

}  // namespace plumbline::model::megatron
