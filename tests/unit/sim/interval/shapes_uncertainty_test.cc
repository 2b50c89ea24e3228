#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "sim/interval/uncertainty.h"
#include "sim/predict/simulate.h"
#include "tests/support/cost_models.h"
#include "tests/support/step_inputs.h"

namespace plumbline::sim {
namespace {

using model::CostFamily;

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
