// Intervals of deployments that serve, from draws through the steady state.
#include <tbb/parallel_for.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "model/economics/ownership.h"
#include "model/profile/device_profile.h"
#include "sim/interval/detail/draws.h"
#include "sim/interval/detail/parts.h"
#include "sim/interval/detail/spread.h"
#include "sim/interval/hypercube.h"
#include "sim/interval/interval.h"
#include "sim/serving/serving.h"
#include "sim/tasks/tasks.h"

namespace plumbline::sim {

namespace {

using Serving = model::Result<model::ServingResult>;

constexpr char engine_constant[] = "residual.engine";

// The rows of the fullest rank's experts over the mean: 1.15 to 1.3 where every expert has one copy, less where copies
// of the popular ones balance them (assumed, from the loads of public serving benchmarks; docs/serving.md).
constexpr Spread single_copies{1.15, 1.22, 1.3}, with_copies{1.0, 1.08, 1.2};

// An imbalance that the plan states is known.
void add_expert_load(const Inputs& inputs, std::vector<Uncertainty>& found) {
  const model::Plan& plan = inputs.plan;
  const auto degree = [&](const model::PoolKeys& pool) { return pool.expert.value_or(plan.parallelism.expert); };
  const bool apart =
      std::max({plan.parallelism.expert, degree(plan.inference.prefill), degree(plan.inference.decode)}) > 1;
  if (inputs.architecture.experts.routed_experts == 0 || !apart || plan.places.contains("inference.expert_imbalance"))
    return;
  const bool copies = plan.inference.redundant_experts + plan.inference.decode.redundant_experts.value_or(0) > 0;
  found.push_back({"load of experts that serve", "expert load",
                   [spread = copies ? with_copies : single_copies](double z, InputChange& change) {
                     change.imbalance = std::max(1.0, linear(spread, z));
                   }});
}

// What engines differ in and no constant of theirs explains makes whole steps longer.
void add_engine(const Inputs& inputs, std::vector<Uncertainty>& found) {
  const auto index = inputs.profile.find(engine_constant);
  if (!index) return;
  const model::Parameter& residual = inputs.profile.parameters()[*index];
  found.push_back({"engine " + residual.stack, "engine", [deviation = residual.value](double z, InputChange& change) {
                     change.step_factor *= std::exp(z * deviation);
                   }});
}

// A deployment under changes. It is predicted at a fixed number of requests, without limits that would change it.
class ChangedServing {
 public:
  ChangedServing(Inputs inputs, double concurrency) : inputs_(std::move(inputs)) {
    auto& keys = inputs_.plan.inference;
    keys.concurrency = std::max<std::int64_t>(1, std::llround(concurrency));
    keys.max_ttft_s = keys.max_tpot_s = std::nullopt;
  }
  const Inputs& inputs() const { return inputs_; }

  Serving of(const InputChange& change) const {
    Inputs changed = inputs_;
    changed.profile = changed_profile(inputs_.profile, change);
    changed.shapes = &change.shapes;
    if (change.imbalance) changed.plan.inference.expert_imbalance = *change.imbalance;
    model::ServingResult result = TRY(ServingPredictor(changed).predict(changed.plan));
    result.tpot_s *= change.step_factor;
    result.ttft_unloaded_s *= change.step_factor;
    result.output_tokens_per_s_per_gpu /= change.step_factor;
    return result;
  }

  model::Result<std::vector<model::ShapeKey>> shapes() const {
    InputChange change;
    change.shapes.record();
    TRY(of(change));
    std::vector<model::ShapeKey> found;
    for (const auto& [shape, factor] : change.shapes.all()) found.push_back(shape);
    std::ranges::sort(found);
    return found;
  }

 private:
  Inputs inputs_;
};

// Predicts the deployment for every change, on several threads.
model::Result<std::vector<model::ServingResult>> predict_all(const ChangedServing& deployment, unsigned threads,
                                                             const std::vector<InputChange>& changes) {
  std::vector<std::optional<Serving>> predicted(changes.size());
  limit_threads(threads, [&] {
    tbb::parallel_for(std::size_t{0}, changes.size(), [&](std::size_t i) { predicted[i] = deployment.of(changes[i]); });
  });
  std::vector<model::ServingResult> results;
  for (std::optional<Serving>& one : predicted) results.push_back(TRY(std::move(*one)));
  return results;
}

// Returns the quantiles of draws of what `value` takes, over `now`'s, times the answer's.
template <class Value>
model::Quantiles relative(const std::vector<model::ServingResult>& draws, const model::ServingResult& now,
                          const model::ServingResult& answer, const Value& value) {
  std::vector<double> values;
  for (const model::ServingResult& draw : draws) values.push_back(value(answer) * value(draw) / value(now));
  return model::quantiles_of(std::move(values));
}

std::optional<model::Quantiles> dollars(const Inputs& inputs, const std::vector<model::ServingResult>& draws,
                                        const model::ServingResult& now, const model::ServingResult& answer,
                                        const IntervalOptions& options) {
  const auto price = inputs.plan.run.ownership == "purchase" ? model::purchase_price(inputs.plan, inputs.cluster).value
                                                             : model::rent_price(inputs.plan, inputs.cluster).value;
  if (!price || !answer.usd_per_million_output_tokens) return std::nullopt;
  std::vector<double> costs = price_draws(*price, "price", options.seed, draws.size());
  for (std::size_t i = 0; i < draws.size(); ++i)
    costs[i] *=
        *answer.usd_per_million_output_tokens * now.output_tokens_per_s_per_gpu / draws[i].output_tokens_per_s_per_gpu;
  return model::quantiles_of(std::move(costs));
}

}  // namespace

model::Result<model::ServingInterval> serving_interval_of(const Inputs& inputs, const model::ServingResult& result,
                                                          const IntervalOptions& options) {
  Inputs own = inputs;
  own.profile = TRY(model::profile_on(inputs.profile, inputs.cluster.device)).profile;
  const ChangedServing deployment(std::move(own), result.concurrency);
  Drawn drawn;
  add_shapes(deployment.inputs(), TRY(deployment.shapes()), drawn.uncertainties);
  for (const auto add : {add_constants, add_expert_load, add_engine}) add(deployment.inputs(), drawn.uncertainties);
  std::erase_if(drawn.uncertainties, [&](const Uncertainty& one) {
    return options.without.contains(one.source) || options.without.contains(one.key);
  });
  for (const Uncertainty& one : drawn.uncertainties)
    drawn.z.push_back(normal_column(one.key, options.seed, options.draws));
  std::vector<InputChange> changes(1);  // the first is none
  for (std::size_t row = 0; row < options.draws; ++row) changes.push_back(change_of(drawn, row));
  for (const Uncertainty& one : drawn.uncertainties) one.apply(1, changes.emplace_back());
  std::vector<model::ServingResult> all = TRY(predict_all(deployment, options.threads, changes));
  const model::ServingResult now = all.front();
  const auto first_alone = all.begin() + 1 + static_cast<std::ptrdiff_t>(options.draws);
  for (auto alone = first_alone; alone != all.end(); ++alone)
    drawn.gradient.push_back(std::log(alone->tpot_s / now.tpot_s));
  const std::vector<model::ServingResult> draws(all.begin() + 1, first_alone);
  for (const model::ServingResult& draw : draws) drawn.draws.time_ratio.push_back(draw.tpot_s / now.tpot_s);
  model::ServingInterval interval;
  interval.tpot_s = relative(draws, now, result, [](const auto& one) { return one.tpot_s; });
  interval.ttft_unloaded_s = relative(draws, now, result, [](const auto& one) { return one.ttft_unloaded_s; });
  interval.output_tokens_per_s_per_gpu =
      relative(draws, now, result, [](const auto& one) { return one.output_tokens_per_s_per_gpu; });
  interval.usd_per_million_output_tokens = dollars(inputs, draws, now, result, options);
  interval.parts = parts_of(drawn, {});
  return interval;
}

}  // namespace plumbline::sim
