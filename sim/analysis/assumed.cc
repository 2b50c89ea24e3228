#include "sim/analysis/assumed.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>

#include "model/plan/alternative.h"
#include "sim/predict/predictor.h"
#include "sim/serving/serving.h"

namespace plumbline::sim {
namespace {

using model::AssumedKey;

constexpr double least_change = 0.05;

// `ratio_of` returns the time of a plan over that of the plan as it is; nothing where it cannot be.
template <class RatioOf>
std::vector<AssumedKey> assumed_keys(const model::Plan& plan, model::SoftwareOf what, const RatioOf& ratio_of) {
  std::vector<AssumedKey> found;
  for (const model::UsualChange& change : model::usual_changes(plan, what)) {
    if (!change.open || std::ranges::find(found, change.key, &AssumedKey::key) != found.end()) continue;
    const std::optional<double> ratio = ratio_of(change.plan);
    if (!ratio || std::abs(*ratio - 1) <= least_change) continue;
    const auto place = plan.places.find(change.key);
    found.push_back({std::string(change.key), std::string(change.name), change.now, change.value, change.setting,
                     place == plan.places.end() ? "" : place->second.implied_by, *ratio});
  }
  std::ranges::stable_sort(found, std::ranges::greater{},
                           [](const AssumedKey& one) { return std::abs(std::log(one.ratio)); });
  return found;
}

}  // namespace

model::Result<std::vector<AssumedKey>> assumed_of_step(const Inputs& inputs) {
  Predictor predictor(inputs);
  const PlanEstimate now = TRY(predictor.closed_form(inputs.plan));
  return assumed_keys(inputs.plan, model::SoftwareOf::training, [&](const model::Plan& plan) {
    const auto other = predictor.closed_form(plan);
    const bool possible = other && (other->fits || !now.fits);
    return possible ? std::optional(other->step.time_s / now.step.time_s) : std::nullopt;
  });
}

model::Result<std::vector<AssumedKey>> assumed_of_deployment(const Inputs& inputs, double concurrency) {
  const ServingPredictor predictor(inputs);
  // Limits would change how many requests are in flight.
  const auto tpot_of = [&](model::Plan plan) {
    plan.inference.concurrency = std::max<std::int64_t>(1, std::llround(concurrency));
    plan.inference.max_ttft_s = plan.inference.max_tpot_s = std::nullopt;
    return predictor.predict(plan).map([](const model::ServingResult& result) { return result.tpot_s; });
  };
  const double now = TRY(tpot_of(inputs.plan));
  return assumed_keys(inputs.plan, model::SoftwareOf::serving, [&](const model::Plan& plan) {
    const auto other = tpot_of(plan);
    return other ? std::optional(*other / now) : std::nullopt;
  });
}

}  // namespace plumbline::sim
