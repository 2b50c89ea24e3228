#include "sim/predict/simulate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>

#include "sim/network/simgrid_loop.h"
#include "sim/predict/predictor.h"

namespace plumbline::sim {
namespace {

model::Result<void> apply(const std::vector<NamedLinkChange>& changes, const topologies::Fabric& fabric,
                          SimGridLoop& loop) {
  for (const NamedLinkChange& change : changes) {
    const auto& links = fabric.links();
    const auto link = std::ranges::find(links, change.link, &topologies::Link::name);
    if (link == links.end())
      return model::wrong_input("--degrade", fmt::format("there is no link '{}'", change.link),
                                fmt::format("links are named like {}", links.front().name));
    const auto id = static_cast<LinkId>(link - links.begin());
    TRY(loop.change({change.time, id, change.factor}));
  }
  return {};
}

}  // namespace

model::Result<Simulation> simulate(const Inputs& inputs, Fidelity fidelity, bool record_timeline) {
  return Predictor(inputs).simulate(inputs.plan, {.fidelity = fidelity, .record_timeline = record_timeline});
}

model::Result<Simulation> simulate_on_network(const Inputs& inputs, bool record_timeline,
                                              const std::vector<NamedLinkChange>& changes) {
  assert(inputs.fabric && "a network needs wiring");
  Predictor predictor(inputs);
  return simulate_on_network(predictor, inputs.plan, record_timeline, changes);
}

model::Result<Simulation> simulate_on_network(Predictor& predictor, const model::Plan& plan, bool record_timeline,
                                              const std::vector<NamedLinkChange>& changes) {
  const auto links = TRY(predictor.links(plan));
  const topologies::Fabric& fabric = (links)->fabric();
  auto network = TRY(SimGridNetwork::make(fabric.links()));
  SimGridLoop loop(network);
  TRY(apply(changes, fabric, loop));
  auto simulation =
      predictor.simulate(plan, {.fidelity = Fidelity::step, .record_timeline = record_timeline, .loop = &loop});
  if (!loop.failures().empty()) {
    const FlowFailure& first = loop.failures().front();
    return model::infeasible("--degrade",
                             fmt::format("{} at {:.3f} s under a transfer", first.reason, to_seconds(first.time)),
                             "a slower link (a factor above 0) lets the step go on");
  }
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
