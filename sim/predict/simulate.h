// Simulation of one training step from a plan, a model, a cluster and a profile.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "model/base/error.h"
#include "sim/predict/simulation.h"
#include "sim/step/recording.h"
#include "topologies/fabric.h"

namespace plumbline::model {
struct Plan;
}  // namespace plumbline::model

namespace plumbline::sim {

struct Inputs;
class Predictor;

// Simulates a step on the heap loop, where each transfer runs as if alone on its links. A plan that does not fit in
// memory is simulated all the same; result.memory.fits is then false.
model::Result<Simulation> simulate(const Inputs& inputs, Fidelity fidelity, const Recording& record);

// A change of the bandwidth of links during a step, which moves no route. What holds from the start belongs into
// FabricShape::factors.
struct NamedLinkChange {
  std::string link;   // topologies::Fabric::find(), "node3.gpu5.up"
  double time = 0;    // s, from the start of the step
  double factor = 1;  // of its bandwidth; 0: it fails
};

// Simulates a step on the SimGrid loop, where concurrent transfers share links. Requires inputs.fabric. Errors: those
// of simulate() and SimGridNetwork, an unknown link, and a link that failed during a transfer (infeasible).
model::Result<Simulation> simulate_on_network(const Inputs& inputs, const Recording& record,
                                              const std::vector<NamedLinkChange>& changes = {});
// Does the same with a predictor whose inputs have wiring.
model::Result<Simulation> simulate_on_network(Predictor& predictor, const model::Plan& plan, const Recording& record,
                                              const std::vector<NamedLinkChange>& changes = {});

// Returns what the steps of a plan take of the links of other jobs on its leaves: the seconds in which a pipeline
// rank's GPU or the most loaded link of its group is busy between leaves and spines, and between spines and cores, over
// those of the step, as the mean over ranks. NICs are the job's own: 0. Collectives after the slots are not counted.
// Requires inputs.fabric. Errors: those of simulate().
model::Result<topologies::Background> mean_load(const Inputs& inputs);

// Simulates each plan, without a timeline: as simulate_on_network(), or as simulate() where the inputs have no wiring.
// Results are in the order of `plans`; `inputs` gives everything but the plan. Call it on the thread that may use
// SimGrid, while no SimGridNetwork is alive. `stopped` may be empty and is called before each plan. Plans not begun by
// then have an infeasible result with that reason.
std::vector<model::Result<Simulation>> simulate_top_plans(const Inputs& inputs, const std::vector<model::Plan>& plans,
                                                          const std::function<bool()>& stopped = {});

}  // namespace plumbline::sim
