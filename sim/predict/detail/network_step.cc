// Steps on the SimGrid loop, apart from those on the heap loop, which need no SimGrid.
#include <fmt/format.h>

#include <cassert>

#include "sim/network/simgrid_loop.h"
#include "sim/predict/predictor.h"
#include "sim/predict/simulate.h"

namespace plumbline::sim {
namespace {

model::Result<void> apply(const std::vector<NamedLinkChange>& changes, const topologies::Fabric& fabric,
                          SimGridLoop& loop) {
  for (const NamedLinkChange& change : changes)
    for (const LinkId link : TRY(fabric.find(change.link))) TRY(loop.change({change.time, link, change.factor}));
  return {};
}

model::Result<Simulation> simulate_on(const topologies::Fabric& fabric, Predictor& predictor, const model::Plan& plan,
                                      const Recording& record, const std::vector<NamedLinkChange>& changes) {
  auto network = TRY(SimGridNetwork::make(fabric.links()));
  SimGridLoop loop(network);
  TRY(apply(changes, fabric, loop));
  auto simulation = predictor.simulate(plan, {.fidelity = Fidelity::step, .record = record, .loop = &loop});
  if (!loop.failures().empty()) {
    const FlowFailure& first = loop.failures().front();
    return model::infeasible("--degrade",
                             fmt::format("{} at {:.3f} s under a transfer", first.reason, to_seconds(first.time)),
                             "a slower link (a factor above 0) lets the step go on");
  }
  return simulation;
}

}  // namespace

model::Result<Simulation> simulate_on_network(const Inputs& inputs, const Recording& record,
                                              const std::vector<NamedLinkChange>& changes) {
  assert(inputs.fabric && "a network needs wiring");
  Predictor predictor(inputs);
  return simulate_on_network(predictor, inputs.plan, record, changes);
}

model::Result<Simulation> simulate_on_network(Predictor& predictor, const model::Plan& plan, const Recording& record,
                                              const std::vector<NamedLinkChange>& changes) {
  const auto links = TRY(predictor.links(plan));
  const topologies::Fabric& fabric = links->fabric();
  model::Result<Simulation> simulation;
  TRY(on_own_stack(fabric.links().size(), [&] { simulation = simulate_on(fabric, predictor, plan, record, changes); }));
  return simulation;
}

std::vector<model::Result<Simulation>> simulate_top_plans(const Inputs& inputs, const std::vector<model::Plan>& plans,
                                                          const std::function<bool()>& stopped) {
  Predictor predictor(inputs);
  std::vector<model::Result<Simulation>> results;
  for (const model::Plan& plan : plans) {
    if (stopped && stopped())
      results.emplace_back(tl::unexpected(
          model::plan_error(plan, model::ErrorKind::infeasible, "", "stopped before this plan was simulated", "")));
    else if (inputs.fabric)
      results.push_back(simulate_on_network(predictor, plan, false));
    else
      results.push_back(predictor.simulate(plan, {.fidelity = Fidelity::step}));
  }
  return results;
}

}  // namespace plumbline::sim
