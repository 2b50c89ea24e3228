// The plans that a search found, run event by event.
#pragma once

#include <functional>
#include <vector>

#include "model/base/error.h"
#include "model/plan/plan.h"
#include "sim/predict/simulate.h"

namespace plumbline::sim {

// Each of `plans` with events (Fidelity::step on the loop where transfers run as if alone), without a timeline, in the
// order in which they are given. What differs between them is in the plans; `inputs` gives the rest. threads: 0 for as
// many as cores; the results do not depend on it. stopped: asked before each plan, from several threads; may be empty;
// plans that were not begun then have an infeasible result that says so.
std::vector<model::Result<Simulation>> simulate_top_plans(const Inputs& inputs, const std::vector<model::Plan>& plans,
                                                          unsigned threads, const std::function<bool()>& stopped = {});

}  // namespace plumbline::sim
