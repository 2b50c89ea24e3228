#include <algorithm>
#include <string>
#include <vector>

#include "calibrate/residuals/regression.h"
#include "model/cost/constants.h"
#include "model/profile/constant_change.h"

namespace plumbline::calibrate {
namespace {

using model::Result;

constexpr double growth = 1.02;  // of the times of a family, small enough that the step grows in proportion

// Patterns of the constants of a family: those that are times, and those that are rates.
struct Family {
  StepCause cause;
  std::vector<std::string_view> times, rates;
};

const std::vector<Family>& families() {
  static const std::vector<Family> all = {
      {StepCause::gemms,
       {"gemm.*k_time", "gemm.*wave_overhead", "gemm.*ramp"},
       {"gemm.*memory_bandwidth", "gemm.*output_bandwidth"}},
      {StepCause::attention,
       {"attention.*pair_time", "attention.*row_time"},
       {"attention.*_rate", "attention.*kv_bandwidth"}},
      {StepCause::memory_bound, {}, {"memory.*.bandwidth"}},
      {StepCause::launches, {"kernel.*launch_gap"}, {}},
      {StepCause::links,
       {"network.*latency", "collective.*launch", "collective.*base", "collective.*hop", "exchange.*time",
        "exchange.*start"},
       {"network.nic_rate*", "network.nvlink_rate*", "collective.*bandwidth*", "exchange.*rate*"}},
  };
  return all;
}

// Returns the profile with the times of a family grown by a factor.
Result<model::Profile> grown(const model::Profile& profile, const Family& family, double factor) {
  std::vector<model::ConstantChange> changes;
  const auto add = [&](std::string_view pattern, double by) {
    const auto fits = [&](const model::Parameter& constant) { return model::name_fits(constant.name, pattern); };
    if (std::ranges::any_of(profile.parameters(), fits)) changes.push_back({std::string(pattern), by});
  };
  for (const std::string_view pattern : family.times) add(pattern, factor);
  for (const std::string_view pattern : family.rates) add(pattern, 1 / factor);
  return profile.with_changes(changes);
}

Result<double> seconds_of(const sim::Inputs& inputs, sim::PredictorPool& predictors) {
  return predictors.with(inputs, [&](sim::Predictor& predictor) { return predictor.closed_form(inputs.plan); })
      .map([](const sim::PlanEstimate& estimate) { return estimate.step.time_s; });
}

// Returns by what a launch gap has to grow for a microsecond more; 0 where the profile has none.
double launch_growth(const model::Profile& profile) {
  const auto gap = model::ConstantReader(profile).find("kernel.launch_gap");
  return gap && gap->value > 0 ? 1 + 1e-6 / gap->value : 0;
}

}  // namespace

std::string_view to_string(StepCause cause) {
  constexpr std::string_view names[] = {"GEMMs", "attention", "memory-bound", "launches", "links", "hidden"};
  return names[static_cast<std::size_t>(cause)];
}

Result<StepShares> step_shares(const sim::Inputs& inputs, sim::PredictorPool& predictors) {
  const double step = TRY(seconds_of(inputs, predictors));
  StepShares shares{};
  for (const Family& family : families()) {
    const bool launches = family.cause == StepCause::launches;
    const double factor = launches ? launch_growth(inputs.profile) : growth;
    if (factor == 0) continue;
    sim::Inputs changed = inputs;
    changed.profile = TRY(grown(inputs.profile, family, factor));
    const double longer = TRY(seconds_of(changed, predictors));
    shares[static_cast<std::size_t>(family.cause)] = (longer - step) / (launches ? 1 : growth - 1);
  }
  sim::Inputs apart = inputs;
  apart.plan.overlap.gradient_reduce = apart.plan.overlap.parameter_gather = false;
  const double exposed = TRY(seconds_of(apart, predictors));
  shares[static_cast<std::size_t>(StepCause::hidden)] = std::max(0.0, exposed - step);
  return shares;
}

}  // namespace plumbline::calibrate
