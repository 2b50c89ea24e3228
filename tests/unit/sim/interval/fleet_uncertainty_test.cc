#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "model/base/statistics.h"
#include "sim/interval/detail/parts.h"
#include "sim/interval/hypercube.h"
#include "sim/interval/uncertainty.h"
#include "sim/predict/simulate.h"
#include "tests/support/cost_models.h"
#include "tests/support/inputs.h"
#include "tests/support/step_inputs.h"

namespace plumbline::sim {
namespace {

using Add = void (*)(const Inputs&, std::vector<Uncertainty>&);
using model::CostFamily;

std::map<std::string, Uncertainty> found(const Inputs& inputs, Add add) {
  std::vector<Uncertainty> all;
  add(inputs, all);
  std::map<std::string, Uncertainty> by_key;
  for (const Uncertainty& each : all) by_key.emplace(each.key, each);
  EXPECT_EQ(by_key.size(), all.size());
  return by_key;
}

InputChange drawn(const Uncertainty& uncertainty, double z) {
  InputChange change;
  uncertainty.apply(z, change);
  return change;
}

// Returns the product of the factors on a constant.
double factor(const Inputs& inputs, const InputChange& change, const std::string& name) {
  double product = 1;
  for (const auto& [index, by] : change.constants)
    if (inputs.profile.parameters()[index].name == name) product *= by;
  return product;
}

TEST(Spread, PassesThroughWhatSourcesState) {
  const Prior spread{1, 2, 4};
  EXPECT_DOUBLE_EQ(linear(spread, 0), 2);
  EXPECT_DOUBLE_EQ(linear(spread, model::normal_p90), 4);
  EXPECT_DOUBLE_EQ(linear(spread, -2 * model::normal_p90), 0);
  EXPECT_DOUBLE_EQ(geometric(spread, model::normal_p90), 4);
  EXPECT_DOUBLE_EQ(geometric(spread, -2 * model::normal_p90), 0.5);
}

TEST(Load, DenseModelsAndForcedBalanceHaveNone) {
  EXPECT_TRUE(found(tests::step_inputs(tests::llama_plan, "h800"), add_load).empty());
  for (const std::string forced : {"routing.imbalance=0", "parallelism.expert=1"})
    EXPECT_TRUE(found(tests::step_inputs(tests::deepseek_plan, "h800", {forced}), add_load).empty()) << forced;
  Inputs padded = tests::step_inputs(tests::deepseek_plan, "h800");
  padded.plan.routing.pad_to_capacity = true;
  padded.plan.routing.capacity_factor = 1.25;
  EXPECT_TRUE(found(padded, add_load).empty());
}

// The plan states 0.075, half of the 0.15 of one expert and a quarter of what an auxiliary loss leaves: the range of
// the sources around it is 0.04 / 2.4 / 0.15 to 2 times.
TEST(Load, SpreadsAroundWhatThePlanStates) {
  const auto all = found(tests::step_inputs(tests::deepseek_plan, "h800"), add_load);
  const Uncertainty& load = all.at("load of experts");
  EXPECT_EQ(load.source, "expert load");
  EXPECT_DOUBLE_EQ(*drawn(load, 0).imbalance, 0.075);
  EXPECT_NEAR(*drawn(load, model::normal_p90).imbalance, 0.15, 1e-12);
  EXPECT_NEAR(*drawn(load, -model::normal_p90).imbalance, 0.075 * 0.04 / 2.4 / 0.15, 1e-12);
  EXPECT_EQ(*drawn(load, -4).imbalance, 0);
}

TEST(Load, APlanThatStatesNothingIsDrawnUneven) {
  Inputs inputs = tests::step_inputs(tests::deepseek_plan, "h800");
  inputs.plan.routing.imbalance = 0;
  inputs.plan.places.erase("routing.imbalance");
  const Uncertainty load = found(inputs, add_load).at("load of experts");
  EXPECT_DOUBLE_EQ(*drawn(load, 0).imbalance, 0.075);
  EXPECT_NEAR(*drawn(load, -model::normal_p90).imbalance, 0, 1e-12);
}

TEST(Silicon, OneGpuHasNoSlowest) {
  const Inputs one = tests::step_inputs(
      tests::llama_plan, "h200",
      {"cluster.gpus=1", "parallelism.tensor=1", "parallelism.pipeline=1", "cluster.topology=h200-hgx"});
  EXPECT_FALSE(found(one, add_silicon).contains("slowest GPU"));
}

// The middles are those of the prediction itself; what a plan states is known.
TEST(Silicon, TheSlowestGpuIsDrawnAroundThePrediction) {
  const Inputs inputs = tests::step_inputs(tests::llama_plan, "h200", {"cluster.topology=h200-hgx"});
  EXPECT_DOUBLE_EQ(*drawn(found(inputs, add_silicon).at("slowest GPU"), 0).speed_deviation, 0.005);
  const Inputs known =
      tests::step_inputs(tests::llama_plan, "h200", {"cluster.topology=h200-hgx", "cluster.speed_deviation=0.01"});
  EXPECT_FALSE(found(known, add_silicon).contains("slowest GPU"));
}

TEST(Silicon, EnergiesShareTheirError) {
  const Inputs inputs = tests::step_inputs(tests::llama_plan, "h200", {"cluster.topology=h200-hgx"});
  const auto all = found(inputs, add_silicon);
  const InputChange more = drawn(all.at("energy of a FLOP"), 1);
  EXPECT_NEAR(factor(inputs, more, "power.gemm.bf16.energy_per_flop"), 1.089, 1e-9);
  EXPECT_GT(factor(inputs, more, "power.gemm.fp8.energy_per_flop"), 1);
  EXPECT_FALSE(all.contains("held GEMMs in 16 bits"));
  // A larger exponent belongs to larger energies: the clock at the limit of the fit stays.
  const InputChange steeper = drawn(all.at("exponent of the clock"), 1);
  EXPECT_DOUBLE_EQ(factor(inputs, steeper, "power.clock_exponent"), 1.75);
  EXPECT_NEAR(factor(inputs, steeper, "power.gemm.bf16.energy_per_flop"), std::pow(1.12, 0.8 * 0.75), 1e-9);
}

TEST(Silicon, RatesOfBurstsAreNotHeld) {
  const Inputs bursts = tests::step_inputs(tests::llama_plan, "h100-public");
  const Uncertainty held = found(bursts, add_silicon).at("held GEMMs in 16 bits");
  EXPECT_DOUBLE_EQ(factor(bursts, drawn(held, 0), "kernel.sustained_clock"), 1 / 1.12);
  EXPECT_DOUBLE_EQ(factor(bursts, drawn(held, -4), "kernel.sustained_clock"), 1);
  for (const std::string profile : {"h800-datasheet", "h800", "h200"})
    EXPECT_FALSE(found(tests::step_inputs(tests::llama_plan, profile), add_silicon).contains("held GEMMs in 16 bits"))
        << profile;
}

double step_factor(const Inputs& inputs, double z) {
  InputChange change;
  for (const auto& [key, each] : found(inputs, add_fleet)) each.apply(z, change);
  return change.step_factor;
}

TEST(Fleet, JitterIsSmallAndOneSided) {
  const Inputs inputs = tests::step_inputs(tests::llama_plan, "h800");
  for (const double z : {-3.0, 0.0, 1.0}) {
    EXPECT_GT(step_factor(inputs, z), 1);
    EXPECT_LT(step_factor(inputs, z), 1.03);
  }
}

// 42.5 % of jobs are at least 10 % slower. At the worst decile doubt adds half of 1.28 * 0.2395 to the square.
TEST(Fleet, StragglersHaveThePublishedQuantiles) {
  const Inputs fleet = tests::step_inputs(tests::llama_plan, "h800", {"cluster.fleet=stragglers"});
  const Uncertainty slow = found(fleet, add_fleet).at("stragglers");
  EXPECT_EQ(slow.source, "jitter and slow ranks");
  EXPECT_EQ(drawn(slow, -3).step_factor, 1);
  EXPECT_NEAR(drawn(slow, 0.1891).step_factor, 1.10, 0.01);
  EXPECT_GT(drawn(slow, model::normal_p90).step_factor, 1.27);
  EXPECT_LT(drawn(slow, model::normal_p90).step_factor, 1.40);
  EXPECT_FALSE(found(tests::step_inputs(tests::llama_plan, "h800"), add_fleet).contains("stragglers"));
}

TEST(Fleet, AnUnknownFleetHasTheNearestName) {
  const auto plan = model::load_plan(tests::shipped("examples/llama-3-8b-64xh800.toml"), {"cluster.fleet=straggler"});
  tests::expect_error(plan, model::ErrorKind::input, "--set", 0, "cluster.fleet", "did you mean 'stragglers'?");
}

TEST(Fleet, APlanKeepsItsFleet) {
  const auto plan = model::load_plan(tests::shipped("examples/llama-3-8b-64xh800.toml"), {"cluster.fleet=stragglers"});
  EXPECT_EQ(model::read_plan(model::to_toml(*plan), "again.toml", {})->cluster.fleet, "stragglers");
}

model::PredictionInterval memory_interval(const Inputs& inputs, const model::Memory& memory,
                                          const std::optional<Left>& left = std::nullopt) {
  const auto allocator = found(inputs, add_allocator);
  std::vector<PeakDraw> draws;
  for (const double a : {-1.5, -0.5, 0.0, 0.5, 1.5})
    for (const double b : {-1.5, -0.5, 0.0, 0.5, 1.5}) {
      InputChange change;
      double z = a;
      for (const auto& [key, each] : allocator) each.apply(std::exchange(z, b), change);
      draws.push_back(DrawnPeaks(inputs, memory).of(change));
    }
  model::PredictionInterval interval;
  set_memory(draws, left, memory, interval);
  return interval;
}

// The peak of a prediction is that of even rows.
TEST(MemoryInterval, ContainsThePeak) {
  for (const std::string& name : {tests::llama_plan, tests::deepseek_plan}) {
    const Inputs inputs = tests::step_inputs(name, "h800", {"routing.imbalance=0"});
    const model::StepResult result = simulate(inputs, Fidelity::closed_form, false).value().result;
    const model::PredictionInterval interval = memory_interval(inputs, result.memory);
    EXPECT_LE(interval.peak_bytes.p10, result.memory.peak_bytes) << name;
    EXPECT_GE(interval.peak_bytes.p90, result.memory.peak_bytes) << name;
    EXPECT_GE(interval.peak_bytes.p10, fullest_bytes(result.memory, PeakOf::allocated)) << name;
  }
}

TEST(MemoryInterval, PlansFarFromTheCapacityFitSurelyOrNot) {
  const Inputs inputs = tests::step_inputs(tests::llama_plan, "h800");
  model::Memory memory = simulate(inputs, Fidelity::closed_form, false)->result.memory;
  memory.capacity_bytes = 3 * memory.peak_bytes;
  EXPECT_EQ(memory_interval(inputs, memory, Left{0, 0.03, 0.03, ""}).fits_probability, 1);
  memory.capacity_bytes = memory.peak_bytes / 3;
  EXPECT_EQ(memory_interval(inputs, memory, Left{0, 0.03, 0.03, ""}).fits_probability, 0);
}

model::Memory of_capacity(double bytes) {
  model::Memory memory;
  memory.capacity_bytes = bytes;
  return memory;
}

TEST(MemoryInterval, AnAllocatorFillsTheDeviceBeforeItFails) {
  PeakDraw draw{100, 60};
  model::PredictionInterval interval;
  set_memory({draw}, std::nullopt, of_capacity(80), interval);
  EXPECT_EQ(interval.fits_probability, 1);
  EXPECT_DOUBLE_EQ(interval.peak_bytes.p50, 100);  // on a larger device
  set_memory({draw}, std::nullopt, of_capacity(50), interval);
  EXPECT_EQ(interval.fits_probability, 0);
  EXPECT_DOUBLE_EQ(interval.peak_bytes.p50, 100);
}

TEST(MemoryInterval, AHostThatHoldsLittleMoreThanTheTensorsMayFail) {
  const auto fits = [](double host_bytes, double capacity) {
    model::Memory memory = of_capacity(80);
    memory.host_bytes = host_bytes;
    memory.host_capacity_bytes = capacity;
    model::PredictionInterval interval;
    set_memory({{100, 60}}, std::nullopt, memory, interval);
    return interval.fits_probability;
  };
  EXPECT_EQ(fits(100, 0), 1);              // not known
  EXPECT_EQ(fits(0, 10), 1);               // nothing is offloaded
  EXPECT_EQ(fits(100, 160), 1);            // above tensors and half as much again
  EXPECT_NEAR(fits(100, 120), 0.4, 1e-9);  // a fifth of the half
  EXPECT_EQ(fits(100, 99), 0);
}

TEST(MemoryInterval, HasNoPeakBelowTheTensors) {
  model::PredictionInterval interval;
  const Left wide{0, 0.3, 0.4, ""};
  set_memory({{100, 60, 90}}, wide, of_capacity(1000), interval);
  EXPECT_DOUBLE_EQ(interval.peak_bytes.p10, 90);
  set_memory({{100, 60, 90}}, wide, of_capacity(80), interval);
  EXPECT_EQ(interval.fits_probability, 0);
}

// Tensors do not depend on the allocator, and its segments not on the driver.
TEST(MemoryInterval, IsOfWhatIsPrinted) {
  const Inputs inputs = tests::step_inputs(tests::llama_plan, "h800");
  const model::Memory memory = simulate(inputs, Fidelity::closed_form, false)->result.memory;
  InputChange change;
  EXPECT_DOUBLE_EQ(DrawnPeaks(inputs, memory).of(change).bytes, memory.peak_bytes);
  change.allocator = 1;
  change.libraries = 2;
  const double tensors = fullest_bytes(memory, PeakOf::allocated), segments = fullest_bytes(memory, PeakOf::reserved);
  EXPECT_DOUBLE_EQ(DrawnPeaks(inputs, memory, PeakOf::allocated).of(change).bytes, tensors);
  const double more = DrawnPeaks(inputs, memory, PeakOf::reserved).of(change).bytes - segments;
  EXPECT_GT(more, 0);
  EXPECT_NEAR(DrawnPeaks(inputs, memory).of(change).bytes - memory.peak_bytes, more + memory.ranks[0].library_bytes, 1);
}

// Rows of the fullest of 64 ranks: 2.344 times what varies with routing, over the square root of the rank's layers.
TEST(MemoryInterval, TheFullestRankHoldsMoreRows) {
  const Inputs inputs = tests::step_inputs(tests::deepseek_plan, "h800", {"routing.imbalance=0"});
  const model::Memory memory = simulate(inputs, Fidelity::closed_form, false)->result.memory;
  model::Memory one = memory;
  one.ranks = {memory.ranks[0]};
  const model::RankMemory& rank = one.ranks[0];
  EXPECT_GT(rank.routed_bytes, 0);
  EXPECT_LT(rank.routed_bytes, rank.activations_bytes + rank.temporary_bytes + rank.communication_bytes);
  InputChange change;
  const double even = DrawnPeaks(inputs, one).of(change).bytes;
  change.imbalance = 0.1;
  const double layers = static_cast<double>(inputs.architecture.layers / inputs.plan.parallelism.pipeline);
  EXPECT_NEAR(DrawnPeaks(inputs, one).of(change).bytes - even,
              0.1 * model::expected_largest(64) / std::sqrt(layers) * rank.routed_bytes, 1);
}

double step_of(const Inputs& inputs) {
  return simulate(inputs, Fidelity::closed_form, false).value().result.step.time_s;
}

class Shapes : public testing::Test {
 protected:
  // Returns the inputs with a residual of 0.1 for the families that are named.
  Inputs with_residuals(const std::vector<std::string>& families) const {
    std::vector<model::Parameter> parameters;
    std::ranges::copy_if(inputs_.profile.parameters(), std::back_inserter(parameters),
                         [](const model::Parameter& p) { return !p.name.starts_with("residual."); });
    for (const std::string& family : families)
      parameters.push_back({"residual." + family, 0.1, "1", model::Evidence::fitted, "a table"});
    Inputs with = inputs_;
    with.profile = {"with residuals", "", parameters, inputs_.profile.devices()};
    return with;
  }

  const Inputs inputs_ = tests::step_inputs(tests::llama_plan, "h800", {});
  const std::vector<model::ShapeKey> shapes_ = shapes_of(inputs_).value();
};

TEST_F(Shapes, OfAStepAreOfTheFamiliesThatItUses) {
  std::set<CostFamily> families;
  for (const model::ShapeKey& shape : shapes_) families.insert(shape.family);
  EXPECT_EQ(families,
            (std::set{CostFamily::gemm, CostFamily::attention, CostFamily::memory_bound, CostFamily::collective}));
  EXPECT_TRUE(std::ranges::is_sorted(shapes_));
  EXPECT_EQ(shapes_of(inputs_).value(), shapes_);
}

// Waits for stragglers lengthen a step, and no kernel has another shape.
TEST_F(Shapes, AreThoseOfAStepWithUnevenRows) {
  const Inputs uneven = tests::step_inputs(tests::deepseek_plan, "h800", {"routing.imbalance=0.1"});
  model::ShapeFactors asked;
  asked.record();
  Inputs recorded = uneven;
  recorded.shapes = &asked;
  step_of(recorded);
  std::vector<model::ShapeKey> shapes;
  for (const auto& [shape, factor] : asked.all()) shapes.push_back(shape);
  std::ranges::sort(shapes);
  EXPECT_EQ(shapes_of(uneven).value(), shapes);
}

TEST_F(Shapes, NoFactorChangesNothing) {
  model::ShapeFactors ones;
  for (const model::ShapeKey& shape : shapes_) ones.set(shape, 1);
  Inputs with = inputs_;
  with.shapes = &ones;
  EXPECT_NEAR(step_of(with) / step_of(inputs_), 1, 1e-12);
}

// Twice the time of every shape is twice the step, but for launch gaps, the host and messages between stages.
TEST_F(Shapes, FactorsOfAllShapesScaleTheStep) {
  model::ShapeFactors twice;
  for (const model::ShapeKey& shape : shapes_) twice.set(shape, 2);
  Inputs with = inputs_;
  with.shapes = &twice;
  const double ratio = step_of(with) / step_of(inputs_);
  EXPECT_GT(ratio, 1.8);
  EXPECT_LE(ratio, 2);
}

TEST_F(Shapes, HaveAnUncertaintyEachWhereTheProfileStatesAResidual) {
  const Inputs with = with_residuals({"gemm", "attention"});
  std::vector<Uncertainty> found;
  add_shapes(with, shapes_, found);
  std::set<std::string> keys, sources;
  for (const Uncertainty& one : found) {
    keys.insert(one.key);
    sources.insert(one.source);
    InputChange change;
    one.apply(2, change);
    ASSERT_EQ(change.shapes.all().size(), 1U);
    EXPECT_DOUBLE_EQ(change.shapes.all().begin()->second, std::exp(0.2));
    EXPECT_DOUBLE_EQ(one.after, 0.3);
  }
  EXPECT_EQ(keys.size(), found.size());
  EXPECT_EQ(sources, (std::set<std::string>{"GEMM shapes", "attention shapes"}));
  EXPECT_EQ(static_cast<std::ptrdiff_t>(found.size()), std::ranges::count_if(shapes_, [](const model::ShapeKey& shape) {
              return shape.family == CostFamily::gemm || shape.family == CostFamily::attention;
            }));
}

// Micro-batches and layers share the shapes of their kernels.
TEST_F(Shapes, AreTheSameForMoreMicroBatches) {
  EXPECT_EQ(shapes_of(tests::step_inputs(tests::llama_plan, "h800", {"batch.global_batch_size=2048"})).value(),
            shapes_);
}

TEST_F(Shapes, OfKernelsShareTheFactorUnderAllConditions) {
  const CostModels plain = tests::costs_of(inputs_);
  model::ShapeFactors factors;
  CostModels changed = plain;
  changed.kernels.use(&factors);
  for (const model::ShapeKey& shape : shapes_) factors.set(shape, 1.5);
  const model::StepProgram program = tests::program_of(inputs_);
  std::size_t gemms = 0;
  for (const model::Graph& graph : program.blocks)
    for (const model::Operator& op : graph.operators) {
      if (!is_gemm(model::operator_class(graph, op))) continue;
      for (const model::Conditions& conditions : {model::Conditions{.sms = 132}, model::Conditions{.sms = 100}}) {
        const model::KernelTime before = plain.kernels.time(graph, op, conditions);
        const model::KernelTime after = changed.kernels.time(graph, op, conditions);
        EXPECT_NEAR(after.seconds - after.gaps, 1.5 * (before.seconds - before.gaps), 1e-12) << op.name;
        EXPECT_EQ(after.gaps, before.gaps);
        ++gemms;
      }
      EXPECT_EQ(changed.kernels.best(graph, op), plain.kernels.best(graph, op));
    }
  EXPECT_GT(gemms, 10U);
}

}  // namespace
}  // namespace plumbline::sim
