// The plans that a search found, run event by event.
#pragma once

#include <functional>
#include <vector>

#include "model/base/error.h"
#include "model/plan/plan.h"
#include "sim/predict/inputs.h"
#include "sim/predict/simulation.h"

namespace plumbline::sim {

// Each of `plans` as simulate_on_network() runs it, without a timeline, or as simulate() does where the inputs know no
// wiring; in the order in which they are given. What differs between them is in the plans; `inputs` gives the rest. On
// the thread that may use SimGrid, while no SimGridNetwork is alive. stopped: asked before each plan; may be empty;
// plans that were not begun then have an infeasible result that says so.
std::vector<model::Result<Simulation>> simulate_top_plans(const Inputs& inputs, const std::vector<model::Plan>& plans,
                                                          const std::function<bool()>& stopped = {});

}  // namespace plumbline::sim
