// The table of all keys of a plan for people and for what is generated: help, reference pages, completion.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "model/base/error.h"

namespace plumbline::model {

struct PlanKey {
  std::string name;  // with its sections: "parallelism.tensor"
  std::string unit, since, meaning;
  std::string type;                // "integer", "list of words", ...
  std::string allowed;             // "0 to 3", "one of none, selective, full"; empty: any value of the type
  std::string default_value;       // as TOML, "required" or "not set"; of aliases empty
  std::vector<std::string> words;  // values that can be completed
  bool alias = false;              // sets other keys
};

// Returns every key in file order, those of phases included, then the aliases. Of a config.json's keys, which [model]
// takes too, there is none.
std::vector<PlanKey> plan_key_table();

// Returns the keys of that name, of that section, or whose last part has that name. An unknown name is an input error
// with the nearest one.
Result<std::vector<PlanKey>> find_plan_keys(std::string_view name);

}  // namespace plumbline::model
