#include "sim/predict/simulate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <set>

#include "model/architecture/metrics.h"
#include "model/economics/economics.h"
#include "model/memory/memory.h"
#include "sim/network/simgrid_loop.h"
#include "sim/predict/compiled_plan.h"
#include "sim/predict/prediction.h"

namespace plumbline::sim {

namespace {

std::vector<std::string> rank_names(const model::Schedule& schedule) {
  std::vector<std::set<std::int32_t>> stages(schedule.ranks.size());
  for (std::int32_t stage = 0; stage < schedule.stages; ++stage)
    for (std::int32_t direction = 0; direction < schedule.directions; ++direction)
      stages[schedule.rank_of(direction, stage)].insert(stage);
  std::vector<std::string> names;
  for (std::size_t rank = 0; rank < stages.size(); ++rank)
    names.push_back(
        fmt::format("rank {} (stage{} {})", rank, stages[rank].size() > 1 ? "s" : "", fmt::join(stages[rank], ", ")));
  return names;
}

void fill_rates(const Inputs& inputs, model::StepTimes& step) {
  const model::Plan& plan = inputs.plan;
  const auto gpus = static_cast<double>(plan.cluster.gpus);
  const auto tokens = static_cast<double>(plan.batch.global_batch_size * plan.batch.sequence_length);
  const model::ModelMetrics metrics = model::model_metrics(inputs.architecture, plan.batch.sequence_length);
  const double peak = inputs.cluster.device.bf16_peak.value();
  const auto per_gpu = [&](double flops_per_token) { return flops_per_token * tokens / step.time_s / gpus; };
  step.tokens_per_s = tokens / step.time_s;
  step.tokens_per_s_per_gpu = step.tokens_per_s / gpus;
  step.model_tflops_per_gpu = per_gpu(metrics.flops_per_token) / 1e12;
  step.model_tflops_per_gpu_causal = per_gpu(metrics.flops_per_token_causal) / 1e12;
  step.mfu = per_gpu(metrics.flops_per_token) / peak;
  step.mfu_causal = per_gpu(metrics.flops_per_token_causal) / peak;
}

model::Result<void> apply(const std::vector<NamedLinkChange>& changes, const topologies::Fabric& fabric,
                          SimGridLoop& loop) {
  for (const NamedLinkChange& change : changes) {
    const auto& links = fabric.links();
    const auto link = std::ranges::find(links, change.link, &topologies::Link::name);
    if (link == links.end())
      return tl::unexpected(model::Error{model::ErrorKind::input, fmt::format("there is no link '{}'", change.link), "",
                                         0, "--degrade", fmt::format("links are named like {}", links.front().name)});
    const auto id = static_cast<LinkId>(link - links.begin());
    if (auto changed = loop.change({change.time, id, change.factor}); !changed) return changed;
  }
  return {};
}

// `run` puts the prediction on a clock.
template <class Run>
model::Result<Simulation> predict(const Inputs& inputs, Fidelity fidelity, const Run& run) {
  const model::Result<CompiledPlan> compiled = compile_plan(inputs);
  if (!compiled) return tl::unexpected(compiled.error());
  const auto& [layout, program, costs] = *compiled;

  Prediction prediction(inputs, program, costs);
  if (const model::Result<void> done = run(prediction, costs); !done) return tl::unexpected(done.error());

  Simulation simulation;
  model::StepResult& result = simulation.result;
  result.fidelity = to_string(fidelity);
  result.profile = inputs.profile.name();
  result.device = inputs.cluster.device.name;
  result.step = prediction.step_times();
  fill_rates(inputs, result.step);
  prediction.fill_bound(result);
  result.provenance = prediction.provenance();
  result.memory = model::memory(inputs.plan, layout, program, inputs.cluster);
  result.run = model::run_cost(inputs.plan, result.step.time_s, inputs.cluster);
  simulation.rank_names = rank_names(program.schedule);
  simulation.timeline = prediction.take_timeline();
  simulation.events = prediction.events();
  return simulation;
}

}  // namespace

std::string_view to_string(Fidelity fidelity) { return fidelity == Fidelity::closed_form ? "closed-form" : "step"; }

model::Result<Fidelity> parse_fidelity(std::string_view text) {
  for (Fidelity fidelity : {Fidelity::closed_form, Fidelity::step})
    if (text == to_string(fidelity)) return fidelity;
  return tl::unexpected(model::Error{model::ErrorKind::input, fmt::format("unknown fidelity '{}'", text), "", 0,
                                     "--fidelity", "known: closed-form, step"});
}

model::Result<Simulation> simulate(const Inputs& inputs, Fidelity fidelity, bool record_timeline) {
  const auto run = [&](Prediction& prediction, const CostModels&) {
    return fidelity == Fidelity::step ? prediction.run_step(record_timeline) : prediction.run_closed_form();
  };
  return predict(inputs, fidelity, run);
}

model::Result<Simulation> simulate_on_network(const Inputs& inputs, bool record_timeline,
                                              const std::vector<NamedLinkChange>& changes) {
  assert(inputs.fabric && "a network needs wiring");
  const auto run = [&](Prediction& prediction, const CostModels& costs) -> model::Result<void> {
    auto network = SimGridNetwork::make(costs.links->fabric().links());
    if (!network) return tl::unexpected(network.error());
    SimGridLoop loop(*network);
    if (auto changed = apply(changes, costs.links->fabric(), loop); !changed) return changed;
    model::Result<void> done = prediction.run_step(record_timeline, &loop);
    if (!loop.failures().empty()) {
      const FlowFailure& first = loop.failures().front();
      return tl::unexpected(
          model::Error{model::ErrorKind::infeasible,
                       fmt::format("{} at {:.3f} s under a transfer", first.reason, to_seconds(first.time)), "", 0,
                       "--degrade", "a slower link (a factor above 0) lets the step go on"});
    }
    return done;
  };
  return predict(inputs, Fidelity::step, run);
}

}  // namespace plumbline::sim
