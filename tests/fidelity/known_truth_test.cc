// Intervals against steps whose truth is known. The simulator makes the steps: it predicts plans with constants that
// are drawn from their uncertainties. The interval is that of the constants as they are.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "model/profile/constant_rules.h"
#include "model/profile/device_profile.h"
#include "sim/interval/hypercube.h"
#include "sim/interval/interval.h"
#include "sim/interval/uncertainty.h"
#include "sim/predict/memos.h"
#include "sim/predict/predictor.h"
#include "tests/support/step_inputs.h"

namespace plumbline::tests {
namespace {

// Draws of the truth have a seed of their own; the intervals have that of the options.
constexpr std::uint64_t seed_of_truth = 20261123;

sim::Inputs inputs_of(const std::string& plan, const std::string& profile, const std::vector<std::string>& overrides) {
  sim::Inputs inputs =
      inputs_of_plan(model::load_plan(shipped("examples/" + plan + ".toml"), overrides).value(), profile).value();
  inputs.profile = model::profile_on(inputs.profile, inputs.cluster.device).value().profile;
  inputs.routing = std::make_shared<sim::ExpertGroupMemo>();
  return inputs;
}

// Small plans, dense and with experts, on profiles whose constants are known well and hardly.
std::vector<sim::Inputs> small_plans() {
  const std::vector<std::string> dense = {"model.num_hidden_layers=4", "cluster.gpus=16", "batch.global_batch_size=32"};
  std::vector<std::string> tensor = dense;
  tensor.emplace_back("parallelism.tensor=4");
  const std::vector<std::string> experts = {
      "model.num_hidden_layers=4",    "model.first_k_dense_replace=0", "cluster.gpus=16",
      "parallelism.pipeline=2",       "parallelism.expert=8",          "schedule.kind=1f1b",
      "schedule.layers_per_stage=[]", "batch.global_batch_size=32",    "routing.imbalance=0"};
  std::vector<sim::Inputs> plans;
  plans.push_back(inputs_of(llama_plan, "h800", dense));
  plans.push_back(inputs_of(llama_plan, "h800-datasheet", tensor));
  plans.push_back(inputs_of(deepseek_plan, "h800", experts));
  plans.push_back(inputs_of(deepseek_plan, "h800-public", experts));
  return plans;
}

// Returns steps of a plan with drawn constants, s: predictions from profiles that contain the drawn values.
std::vector<double> true_steps(const sim::Inputs& inputs, std::size_t count) {
  std::vector<sim::Uncertainty> found;
  sim::add_constants(inputs, found);
  std::vector<sim::InputChange> changes(count);
  for (const sim::Uncertainty& one : found) {
    const std::vector<double> z = sim::normal_column(one.key, seed_of_truth, count);
    for (std::size_t i = 0; i < count; ++i) one.apply(z[i], changes[i]);
  }
  std::vector<double> steps;
  for (const sim::InputChange& change : changes) {
    const model::Profile& known = inputs.profile;
    std::vector<model::Parameter> constants = known.parameters();
    for (const auto& [index, factor] : change.constants) constants[index].value *= factor;
    for (const auto& [index, factor] : change.constants) {
      const auto range = model::constant_range(constants[index]).value();
      constants[index].value = std::clamp(constants[index].value, range.low, range.high);
    }
    sim::Inputs truth = inputs;
    truth.profile = {known.name(), known.description(), std::move(constants), known.devices(), known.stack()};
    steps.push_back(sim::Predictor(truth).closed_form(truth.plan).value().step.time_s);
  }
  return steps;
}

const std::set<std::string> other_sources = {
    "GEMM shapes", "attention shapes",      "memory-bound shapes", "collective shapes", "all-to-all shapes",
    "expert load", "jitter and slow ranks", "power and silicon",   "what is left",      "allocator"};

model::PredictionInterval interval_of_constants(const sim::Inputs& inputs) {
  const auto result = sim::simulate(inputs, sim::Fidelity::closed_form, false).value().result;
  return sim::interval_of(inputs, result, {.draws = 256, .without = other_sources}).value();
}

// Eight of ten true steps are within the interval: 320 of 400, and 8 more or fewer.
TEST(KnownTruth, LiesInTheIntervalInEightOfTenCases) {
  constexpr std::size_t draws = 100;
  std::size_t inside = 0, below = 0, all = 0;
  for (const sim::Inputs& inputs : small_plans()) {
    const model::Quantiles interval = interval_of_constants(inputs).time_s;
    for (const double step : true_steps(inputs, draws)) {
      ++all;
      if (step < interval.p10) ++below;
      if (interval.contains(step)) ++inside;
    }
    EXPECT_GT(interval.half_width(), 0.005) << inputs.profile.name();
  }
  EXPECT_EQ(all, 400u);
  EXPECT_NEAR(static_cast<double>(inside) / static_cast<double>(all), 0.8, 0.02);
  EXPECT_NEAR(static_cast<double>(below) / static_cast<double>(all), 0.1, 0.02);
}

// The same with all sources that are drawn, and with experts whose load is one of them. The truths come from draws with
// another seed.
TEST(KnownTruth, OfAllSourcesLiesInTheInterval) {
  std::size_t inside = 0, all = 0;
  for (sim::Inputs& inputs : small_plans()) {
    if (inputs.architecture.experts.routed_experts > 0) inputs.plan.routing.imbalance = 0.1;
    const auto result = sim::simulate(inputs, sim::Fidelity::closed_form, false).value().result;
    const model::Quantiles interval = sim::interval_of(inputs, result, {.draws = 256, .parts = false}).value().time_s;
    const sim::StepDraws truths =
        sim::draw_interval(inputs, result, {.draws = 100, .seed = seed_of_truth, .parts = false}).value().draws;
    for (const double ratio : truths.time_ratio) {
      ++all;
      if (interval.contains(ratio * result.step.time_s)) ++inside;
    }
  }
  EXPECT_NEAR(static_cast<double>(inside) / static_cast<double>(all), 0.8, 0.02);
}

// Returns the inputs with the GEMM constants of another profile, as if they had been measured.
sim::Inputs with_gemms_of(const sim::Inputs& inputs, const model::Profile& measured) {
  const model::Profile& known = inputs.profile;
  std::vector<model::Parameter> constants;
  for (const model::Parameter& constant : known.parameters())
    if (!constant.name.starts_with("gemm.")) constants.push_back(constant);
  for (const model::Parameter& constant : measured.parameters())
    if (constant.name.starts_with("gemm.")) constants.push_back(constant);
  std::ranges::sort(constants, {}, &model::Parameter::name);
  std::vector<model::ConstantFit> fits;
  for (const model::ConstantFit& fit : measured.fits())
    if (fit.constants.front().front().starts_with("gemm.")) fits.push_back(fit);
  sim::Inputs out = inputs;
  out.profile = {known.name(),    known.description(), std::move(constants),
                 known.devices(), known.stack(),       std::move(fits)};
  return out;
}

// GEMMs of a GPU that is known by its datasheet are measured: the interval becomes about as narrow as foretold. What is
// foretold takes the GEMMs' share of the step from the datasheet, and 3 % for what a measurement leaves; both are a
// little different once it is made. Tables of other GPUs have no weight gradients, which stay assumed.
TEST(KnownTruth, MeasuringNarrowsTheIntervalAsForetold) {
  for (const auto& [topology, by_tables] : {std::pair{"h100-dgx", "h100"}, {"h200-hgx", "h200"}}) {
    const std::vector<std::string> small = {"model.num_hidden_layers=4", "cluster.gpus=16",
                                            "batch.global_batch_size=32", std::string("cluster.topology=") + topology};
    const sim::Inputs before = inputs_of(llama_plan, "generic-datasheet", small);
    const sim::Inputs after = with_gemms_of(before, inputs_of(llama_plan, by_tables, small).profile);
    const model::PredictionInterval wide = interval_of_constants(before);
    const auto gemms = std::ranges::find(wide.parts, "GEMM constants", &model::IntervalPart::source);
    ASSERT_NE(gemms, wide.parts.end()) << topology;
    ASSERT_TRUE(gemms->half_width_after) << topology;
    EXPECT_LT(*gemms->half_width_after, 0.8 * wide.time_s.half_width()) << topology;
    EXPECT_NEAR(interval_of_constants(after).time_s.half_width() / *gemms->half_width_after, 1, 0.25) << topology;
  }
}

}  // namespace
}  // namespace plumbline::tests
