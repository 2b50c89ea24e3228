// Evaluates the conditions of test, [ ] and [[ ]].
#pragma once

#include <vector>

#include "model/megatron/shell/detail/letters.h"
#include "model/megatron/shell/detail/words.h"
#include "model/megatron/shell/shell.h"

namespace plumbline::model::megatron {

enum class Truth { no, yes, unknown };

constexpr Truth truth_of(bool holds) { return holds ? Truth::yes : Truth::no; }
constexpr Truth operator!(Truth truth) {
  return truth == Truth::unknown ? truth : truth == Truth::yes ? Truth::no : Truth::yes;
}

// Evaluates a condition from its expanded words. `patterns`: as [[ ]] does, = and == match patterns.
Truth evaluate_condition(const std::vector<Letters>& words, bool patterns, Scope& scope, const ShellInputs& inputs);

}  // namespace plumbline::model::megatron
