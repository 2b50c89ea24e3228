// The operator graph is executed operator by operator. Its gradients agree with finite differences, experts on several
// ranks give the result of one rank, and recomputation changes nothing.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "model/base/random.h"
#include "model/cost/operator_class.h"
#include "model/cost/work.h"
#include "tests/support/real/tiny_training.h"

namespace plumbline::tests {
namespace {

using model::Precision;
using model::RecomputeGroup;

const model::RecomputePolicy kEverything = {RecomputeGroup::rmsnorm, RecomputeGroup::mla_up_projection,
                                            RecomputeGroup::swiglu,  RecomputeGroup::core_attention,
                                            RecomputeGroup::mlp,     RecomputeGroup::moe,
                                            RecomputeGroup::other};
const model::RecomputePolicy kSelective = {RecomputeGroup::rmsnorm, RecomputeGroup::mla_up_projection,
                                           RecomputeGroup::swiglu};

class Gradients : public testing::TestWithParam<std::tuple<TinyModel, Precision, std::int64_t>> {
 protected:
  const TinyModel& model() const { return std::get<0>(GetParam()); }
  TinyLayout layout(model::RecomputePolicy recompute = {}) const {
    return {.precision = std::get<1>(GetParam()), .recompute = std::move(recompute), .ranks = std::get<2>(GetParam())};
  }
};

// Returns the entry with the largest gradient, which is surely in use, and some others.
std::vector<Index> entries_to_check(const Matrix& gradient, model::Random& random) {
  std::vector<Index> entries(4);
  for (Index& entry : entries) entry = static_cast<Index>(random.next() % static_cast<std::uint64_t>(gradient.size()));
  entries[0] = std::max_element(gradient.data(), gradient.data() + gradient.size(),
                                [](double a, double b) { return std::abs(a) < std::abs(b); }) -
               gradient.data();
  return entries;
}

double step_of(const TinyModel& model) { return model.architecture.sparse.tokens > 0 ? 5e-5 : 2e-4; }

// Returns the central difference of what the parameter of that name is trained for, extrapolated from two steps: its
// error is of fourth order in the step, which must not change what an indexer chooses, or which of its products count.
double slope(const TinyTraining& training, const std::string& name, double& entry, double step) {
  const bool of_indexer = name.find("/index") != std::string::npos;
  const auto loss = [&] { return of_indexer ? training.index_loss() : training.loss(); };
  const double at = entry;
  const auto central = [&](double distance) {
    entry = at + distance;
    const double above = loss();
    entry = at - distance;
    const double below = loss();
    entry = at;
    return (above - below) / (2 * distance);
  };
  return (4 * central(step / 2) - central(step)) / 3;
}

TEST_P(Gradients, MeetFiniteDifferencesForEveryParameter) {
  TinyTraining training(model(), layout());
  const TinyTraining::Step step = training.step();
  model::Random random(2);
  for (auto& [name, parameter] : training.parameters()) {
    const Matrix& gradient = step.gradients.at(name);
    EXPECT_GT(gradient.cwiseAbs().maxCoeff(), 1e-6) << name << " has no influence on the loss";
    for (Index entry : entries_to_check(gradient, random)) {
      const double expected = slope(training, name, parameter.data()[entry], step_of(model()));
      // The loss is of order 1, so that rounding (1e-16) over the step leaves 1e-11 or less.
      EXPECT_NEAR(gradient.data()[entry], expected, 1e-5 * std::abs(expected) + 1e-10) << name << " [" << entry << "]";
    }
  }
}

// The interpreter drops what has been moved to the host: a tensor that is fetched too late, or never, is missing.
TEST_P(Gradients, AreTheSameBitsWithOffloading) {
  const TinyTraining::Step plain = TinyTraining(model(), layout()).step();
  for (const model::RecomputePolicy& policy : {model::RecomputePolicy{}, kSelective, kEverything}) {
    TinyLayout offloaded = layout(policy);
    offloaded.offloaded = true;
    const TinyTraining training(model(), offloaded);
    for (const model::Graph& graph : training.graphs()) EXPECT_EQ(check(graph), "") << graph.name;
    const TinyTraining::Step again = training.step();
    EXPECT_EQ(again.loss, plain.loss);
    for (const auto& [name, gradient] : plain.gradients) EXPECT_EQ(again.gradients.at(name), gradient) << name;
  }
}

TEST_P(Gradients, AreTheSameBitsWithRecomputation) {
  const TinyTraining::Step plain = TinyTraining(model(), layout()).step();
  for (const model::RecomputePolicy& policy : {kSelective, kEverything}) {
    const TinyTraining::Step again = TinyTraining(model(), layout(policy)).step();
    EXPECT_EQ(again.loss, plain.loss);
    for (const auto& [name, gradient] : plain.gradients) EXPECT_EQ(again.gradients.at(name), gradient) << name;
  }
}

TEST_P(Gradients, DoNotDependOnTheNumberOfRanks) {
  TinyLayout alone = layout();
  alone.ranks = 1;
  const TinyTraining::Step one = TinyTraining(model(), alone).step();
  const TinyTraining::Step several = TinyTraining(model(), layout()).step();
  // Every rank's loss is the mean over its share of the batch: the sum over ranks is ranks * mean.
  const auto ranks = static_cast<double>(layout().ranks);
  EXPECT_NEAR(several.loss, ranks * one.loss, 1e-12 * ranks * one.loss);
  const model::Architecture& a = model().architecture;
  // Slopes of scans and of several residual streams are numeric.
  const double least = a.recurrence.value_heads > 0 || a.residual_streams > 1 ? 1e-9 : 1e-12;
  for (const auto& [name, gradient] : one.gradients)
    EXPECT_LT((several.gradients.at(name) - ranks * gradient).cwiseAbs().maxCoeff(), least) << name;
}

// Adapters next to frozen parameters get the gradients that finite differences have; nothing computes another's. What
// is left of a backward pass is the same however the frozen weights are stored.
TEST_P(Gradients, OfAdaptersMeetFiniteDifferences) {
  const bool quantized = layout().precision != Precision::bf16;
  TinyLayout tuned = layout();
  tuned.adapters = {.rank = 2, .attention = true, .mlp = true, .experts = true};
  TinyTraining training(model(), tuned);
  // Adapters that add little leave the frozen layers the curvature that finite differences bear.
  for (auto& [name, parameter] : training.parameters())
    if (name.find("_adapter") != std::string::npos) parameter *= 0.25;
  const TinyTraining::Step step = training.step();
  for (const model::RecomputePolicy& policy : {kSelective, kEverything}) {
    tuned.recompute = policy;
    tuned.adapters.nf4 = !quantized;
    TinyTraining stored(model(), tuned);
    stored.parameters() = training.parameters();
    const TinyTraining::Step again = stored.step();
    for (const auto& [name, gradient] : step.gradients) EXPECT_EQ(again.gradients.at(name), gradient) << name;
  }
  model::Random random(2);
  std::size_t trained = 0;
  for (auto& [name, parameter] : training.parameters()) {
    const Matrix& gradient = step.gradients.at(name);
    const bool frozen = name.find("_adapter") == std::string::npos;
    EXPECT_EQ(gradient.cwiseAbs().maxCoeff() == 0, frozen) << name;
    if (frozen) continue;
    ++trained;
    const Index entry = entries_to_check(gradient, random)[0];
    const double expected = slope(training, name, parameter.data()[entry], step_of(model()));
    EXPECT_NEAR(gradient.data()[entry], expected, 1e-5 * std::abs(expected) + 1e-10) << name << " [" << entry << "]";
  }
  EXPECT_GT(trained, 0u);
}

// Returns the weights of all experts, each transposed.
Matrix transposed(const Matrix& weights, Index experts) {
  const Index height = weights.rows() / experts;
  Matrix result(experts * weights.cols(), height);
  for (Index e = 0; e < experts; ++e)
    result.middleRows(e * weights.cols(), weights.cols()) = weights.middleRows(e * height, height).transpose();
  return result;
}

// The two graphs differ only in casts, transposes and the layout of the experts' weights.
TEST_P(Gradients, DoNotDependOnTheNumberFormatButForRounding) {
  TinyLayout bf16 = layout();
  bf16.precision = Precision::bf16;
  TinyTraining reference(model(), bf16), training(model(), layout());
  const Index experts = model().architecture.experts.routed_experts;
  const auto laid_out = [&](const std::string& name, const Matrix& value) {
    const bool weight = name.find("/experts_") != std::string::npos && name.find("norm") == std::string::npos;
    const bool turns = layout().precision == Precision::fp8 && weight;
    return turns ? transposed(value, experts) : value;
  };
  for (const auto& [name, value] : reference.parameters()) training.parameters().at(name) = laid_out(name, value);
  const TinyTraining::Step expected = reference.step();
  const TinyTraining::Step actual = training.step();
  EXPECT_NEAR(actual.loss, expected.loss, 1e-12 * expected.loss);
  for (const auto& [name, gradient] : expected.gradients)
    EXPECT_LT((actual.gradients.at(name) - laid_out(name, gradient)).cwiseAbs().maxCoeff(), 1e-12) << name;
}

// On one rank the expected rows are the actual ones, as every token reaches k of its experts. The FLOPs that follow
// from the shapes are therefore exactly two per executed multiply-add.
TEST_P(Gradients, FlopsFollowFromShapes) {
  TinyLayout alone = layout(kSelective);
  alone.ranks = 1;
  const TinyTraining training(model(), alone);
  std::map<std::string, double> expected;
  for (std::size_t block = 0; block < training.graphs().size(); ++block) {
    const model::Graph& graph = training.graphs()[block];
    for (const model::Operator& op : graph.operators) {
      const std::string name =
          std::to_string(block) + " " + graph.name + "/" + std::string(to_string(op.phase)) + " " + op.name;
      const bool gemm = model::operator_class(graph, op) == model::OperatorClass::gemm ||
                        model::operator_class(graph, op) == model::OperatorClass::weight_gradient_gemm;
      expected[name] = gemm ? flops(graph, op, 1.0, false).value() : 0;
    }
  }
  const TinyTraining::Step step = training.step();
  EXPECT_EQ(step.multiply_adds.size(), expected.size());
  for (const auto& [name, count] : step.multiply_adds) EXPECT_DOUBLE_EQ(2 * count, expected.at(name)) << name;
}

INSTANTIATE_TEST_SUITE_P(SparseModels, Gradients,
                         testing::Combine(testing::ValuesIn(sparse_models()),
                                          testing::Values(Precision::bf16, Precision::fp8), testing::Values(1, 2)),
                         [](const auto& test) {
                           return std::get<0>(test.param).name + "_" + std::string(to_string(std::get<1>(test.param))) +
                                  "_ranks_" + std::to_string(std::get<2>(test.param));
                         });

INSTANTIATE_TEST_SUITE_P(RecurrentModels, Gradients,
                         testing::Combine(testing::ValuesIn(recurrent_models()),
                                          testing::Values(Precision::bf16, Precision::fp8), testing::Values(1, 2)),
                         [](const auto& test) {
                           return std::get<0>(test.param).name + "_" + std::string(to_string(std::get<1>(test.param))) +
                                  "_ranks_" + std::to_string(std::get<2>(test.param));
                         });

INSTANTIATE_TEST_SUITE_P(TinyModels, Gradients,
                         testing::Combine(testing::ValuesIn(tiny_models()),
                                          testing::Values(Precision::bf16, Precision::fp8, Precision::nvfp4),
                                          testing::Values(1, 2)),
                         [](const auto& test) {
                           return std::get<0>(test.param).name + "_" + std::string(to_string(std::get<1>(test.param))) +
                                  "_ranks_" + std::to_string(std::get<2>(test.param));
                         });

}  // namespace
}  // namespace plumbline::tests
