// From a plan, a model, a cluster and a profile to the result of one training step.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "model/base/error.h"
#include "model/plan/plan.h"
#include "sim/predict/inputs.h"
#include "sim/predict/simulation.h"

namespace plumbline::sim {

class Predictor;

// A plan that does not fit in memory is simulated all the same (result.memory.fits is false).
// On the heap loop: transfers run as if each were alone on its links.
model::Result<Simulation> simulate(const Inputs& inputs, Fidelity fidelity, bool record_timeline);

// A link of the fabric by name ("node3.gpu5.up"), from a time on.
struct NamedLinkChange {
  std::string link;
  double time = 0;    // s, from the start of the step
  double factor = 1;  // of its bandwidth; 0: it fails
};

// A step on the SimGrid loop: transfers that run at the same time share links. Needs inputs.fabric. Errors: those of
// simulate() and of SimGridNetwork; an unknown link; a link that failed under a transfer (infeasible).
model::Result<Simulation> simulate_on_network(const Inputs& inputs, bool record_timeline,
                                              const std::vector<NamedLinkChange>& changes = {});
// The same with a predictor whose inputs know the wiring.
model::Result<Simulation> simulate_on_network(Predictor& predictor, const model::Plan& plan, bool record_timeline,
                                              const std::vector<NamedLinkChange>& changes = {});

// Each of `plans` as simulate_on_network() runs it, without a timeline, or as simulate() does where the inputs know no
// wiring; in the order in which they are given. What differs between them is in the plans; `inputs` gives the rest. On
// the thread that may use SimGrid, while no SimGridNetwork is alive. stopped: asked before each plan; may be empty;
// plans that were not begun then have an infeasible result that says so.
std::vector<model::Result<Simulation>> simulate_top_plans(const Inputs& inputs, const std::vector<model::Plan>& plans,
                                                          const std::function<bool()>& stopped = {});

}  // namespace plumbline::sim
