#include "sim/search/top_plans.h"

#include "sim/predict/predictor.h"
#include "sim/predict/simulate.h"

namespace plumbline::sim {

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
