#include "sim/search/top_plans.h"

#include <tbb/global_control.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <memory>
#include <optional>
#include <utility>

namespace plumbline::sim {

namespace {

model::Error not_begun(const model::Plan& plan) {
  return model::plan_error(plan, model::ErrorKind::infeasible, "", "stopped before this plan was simulated", "");
}

}  // namespace

std::vector<model::Result<Simulation>> simulate_top_plans(const Inputs& inputs, const std::vector<model::Plan>& plans,
                                                          unsigned threads, const std::function<bool()>& stopped) {
  Inputs shared = inputs;
  if (!shared.routing) shared.routing = std::make_shared<RoutingMemo>();
  if (!shared.contention) {
    // SimGrid is one per process: before any thread begins. What is wrong with a plan shows when it is simulated.
    const auto contention = std::make_shared<ContentionTable>();
    for (const model::Plan& plan : plans) {
      Inputs one = shared;
      one.plan = plan;
      static_cast<void>(contention->add(one));
    }
    shared.contention = contention;
  }
  std::vector<std::optional<model::Result<Simulation>>> results(plans.size());
  const auto run = [&] {
    tbb::parallel_for(
        std::size_t{0}, plans.size(),
        [&](std::size_t i) {
          if (stopped && stopped()) return;
          Inputs one = shared;
          one.plan = plans[i];
          results[i] = simulate(one, Fidelity::step, false);
        },
        tbb::simple_partitioner());
  };
  if (threads == 0) {
    run();
  } else {
    const tbb::global_control most(tbb::global_control::max_allowed_parallelism, threads);
    tbb::task_arena(static_cast<int>(threads)).execute(run);
  }
  std::vector<model::Result<Simulation>> list;
  for (std::size_t i = 0; i < plans.size(); ++i)
    list.push_back(results[i] ? std::move(*results[i]) : tl::unexpected(not_begun(plans[i])));
  return list;
}

}  // namespace plumbline::sim
