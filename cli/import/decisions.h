// What decides the step of an imported plan.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "model/plan/alternative.h"
#include "model/plan/plan.h"

namespace plumbline::cli {

struct Decisions {
  const model::Plan& plan;
  const std::vector<model::PlanAlternative>& alternatives;
  std::function<std::string(int line)> place;  // of a line, for people
  std::string config;                          // of a model that is written next to the plan; empty: the plan's own
  bool all = false;                            // those that hardly change the step too
};

// Prints to stderr under a heading what each decision does to the step: the time per token of the alternative over that
// of the plan, in closed form, the largest change first; where the plan itself is not predicted, the reason.
void print_decisions(const Decisions& decisions);

}  // namespace plumbline::cli
