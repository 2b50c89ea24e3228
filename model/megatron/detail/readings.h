// Compares the plans of a script under the outcomes of the conditions that are not decided.
#pragma once

#include <optional>
#include <vector>

#include "model/base/error.h"
#include "model/megatron/import.h"

namespace plumbline::model::megatron {

struct Reading {
  const Script* script = nullptr;
  Result<ImportedScript> imported;
};

// Returns an input error where two readings differ in a key of the plan, in the model, or in an argument that can
// change the cost: with the line of the condition between them, the variables that decide it, and what differs.
std::optional<Error> difference(const std::vector<Reading>& readings);

}  // namespace plumbline::model::megatron
