#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "sim/interval/detail/parts.h"
#include "sim/interval/uncertainty.h"
#include "tests/support/step_inputs.h"

namespace plumbline::sim {
namespace {

// Constants of a profile by name with what z = 1 of a number adds to ln(value).
using Moves = std::map<std::string, double>;

class ConstantsOfFits : public testing::Test {
 protected:
  // Returns the numbers behind the errors of these constants.
  std::vector<Moves> numbers(const std::vector<model::ConstantFit>& fits) const {
    Inputs inputs = tests::step_inputs(tests::llama_plan, "h800");
    inputs.profile = {"with fits",
                      "",
                      {{"network.latency", 3, "us", model::Evidence::fitted, "a table", 0.3},
                       {"network.nic_rate", 40, "GB/s", model::Evidence::fitted, "a table", 0.1},
                       {"network.nvlink_rate", 300, "GB/s", model::Evidence::fitted, "a table", 0.2}},
                      {},
                      "",
                      fits};
    std::vector<Uncertainty> found;
    add_constants(inputs, found);
    std::vector<Moves> result;
    for (const Uncertainty& one : found) {
      InputChange change;
      one.apply(1, change);
      Moves& moves = result.emplace_back();
      for (const auto& [index, factor] : change.constants)
        moves[inputs.profile.parameters()[index].name] += std::log(factor);
    }
    return result;
  }

  static double covariance(const std::vector<Moves>& numbers, const std::string& a, const std::string& b) {
    double sum = 0;
    for (const Moves& moves : numbers)
      if (moves.contains(a) && moves.contains(b)) sum += moves.at(a) * moves.at(b);
    return sum;
  }

  const double latency_ = std::log1p(0.3), nic_ = std::log1p(0.1), nvlink_ = std::log1p(0.2);
};

TEST_F(ConstantsOfFits, WithoutFitsEachHasANumberOfItsOwn) {
  const auto found = numbers({});
  ASSERT_EQ(found.size(), 3U);
  for (const Moves& moves : found) EXPECT_EQ(moves.size(), 1U);
  EXPECT_NEAR(found[0].at("network.latency"), latency_, 1e-12);
}

TEST_F(ConstantsOfFits, AFactUnderTwoNamesIsOneNumber) {
  const auto found = numbers({{{{"network.nic_rate", "network.nvlink_rate"}}, {}}});
  ASSERT_EQ(found.size(), 2U);
  ASSERT_EQ(found[0].size(), 2U);
  EXPECT_NEAR(found[0].at("network.nic_rate"), nic_, 1e-12);
  EXPECT_NEAR(found[0].at("network.nvlink_rate"), nvlink_, 1e-12);
}

TEST_F(ConstantsOfFits, VaryAsTheirCorrelationsSay) {
  const auto found =
      numbers({{{{"network.nic_rate"}, {"network.nvlink_rate"}, {"network.latency"}}, {{-0.5}, {0, 0.8}}}});
  ASSERT_EQ(found.size(), 3U);
  EXPECT_NEAR(covariance(found, "network.nic_rate", "network.nic_rate"), nic_ * nic_, 1e-12);
  EXPECT_NEAR(covariance(found, "network.latency", "network.latency"), latency_ * latency_, 1e-12);
  EXPECT_NEAR(covariance(found, "network.nic_rate", "network.nvlink_rate"), -0.5 * nic_ * nvlink_, 1e-12);
  EXPECT_NEAR(covariance(found, "network.nic_rate", "network.latency"), 0, 1e-12);
  EXPECT_NEAR(covariance(found, "network.nvlink_rate", "network.latency"), 0.8 * nvlink_ * latency_, 1e-12);
}

// The exponent with which times add up is 1 at least: what it is above 1 is log-normal. One deviation up is a fifth
// more of 1.24, 0.488 above 1, and one down is 0.24 over 0.488 / 0.24 above it.
TEST(ConstantsAboveAnOrigin, NeverReachIt) {
  Inputs inputs = tests::step_inputs(tests::llama_plan, "h800");
  inputs.profile = {"with an exponent",
                    "",
                    {{"gemm.bf16_weight_gradient.memory_exponent", 1.24, "1", model::Evidence::fitted, "records", 0.2}},
                    {},
                    ""};
  std::vector<Uncertainty> found;
  add_constants(inputs, found);
  ASSERT_EQ(found.size(), 1U);
  const auto drawn = [&](double z) {
    InputChange change;
    found.front().apply(z, change);
    return changed_profile(inputs.profile, change).parameters().front().value;
  };
  EXPECT_NEAR(drawn(0), 1.24, 1e-12);
  EXPECT_NEAR(drawn(1), 1.488, 1e-12);
  EXPECT_NEAR(drawn(-1), 1 + 0.24 * 0.24 / 0.488, 1e-12);
  EXPECT_GT(drawn(-3), 1);
}

}  // namespace
}  // namespace plumbline::sim
