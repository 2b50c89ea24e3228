// Expands what stands between the braces of ${...}.
#pragma once

#include <optional>
#include <string>

#include "model/megatron/shell/detail/letters.h"
#include "model/megatron/shell/detail/words.h"

namespace plumbline::model::megatron {

struct Parameter {
  std::optional<Fields> fields;  // nothing where only a running shell has the value
  bool joined = false;           // one field in double quotes, as of ${LIST[*]}
  bool is_new = false;           // made here: its line is that of the expansion
};

// Expands NAME, NAME[@], NAME[KEY], #NAME and the operators - = ? + # %; nothing else.
Parameter read_parameter(const Letters& inside, Scope& scope);

// Returns the name of an element: NAME[KEY], with its key expanded; a number where it is arithmetic. Nothing where the
// key is not known.
std::optional<std::string> element(const std::string& name, const Letters& key, Scope& scope);

}  // namespace plumbline::model::megatron
