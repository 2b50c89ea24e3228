// `simulate --slow` from a user's side: what one slow GPU costs a whole cluster.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/support/command.h"

namespace plumbline::tests {
namespace {

using nlohmann::json;
using testing::HasSubstr;

constexpr const char* whole_cluster =
    "simulate llama-3-8b-64xh800 --fidelity cluster --seeds 1 --no-interval --json - ";

TEST(SlowGpu, DelaysTheWholeStep) {
  const CommandResult with = plumbline(std::string(whole_cluster) + "--slow gpu17=0.5"),
                      without = plumbline(whole_cluster);
  ASSERT_EQ(with.exit_code, 0) << with.errors;
  const json slow = json::parse(with.output), even = json::parse(without.output);
  // Its stage computes for over three quarters of the step, so that half of its speed costs more than half a step more;
  // nothing takes more than twice as long.
  const double times = slow["step"]["time_s"].get<double>() / even["step"]["time_s"].get<double>();
  EXPECT_GT(times, 1.5);
  EXPECT_LT(times, 2);
  EXPECT_THAT(slow["cluster"]["priors"].dump(), HasSubstr("GPU 17"));
}

TEST(SlowGpu, IsOneOfTheCluster) {
  for (const char* wrong : {"gpu64=0.9", "17", "gpu17=0", "node1=0.9"}) {
    const CommandResult result = plumbline(std::string(whole_cluster) + "--slow " + wrong);
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_THAT(result.errors, HasSubstr("--slow: '" + std::string(wrong) + "'"));
  }
  EXPECT_THAT(plumbline("simulate llama-3-8b-64xh800 --slow gpu17=0.9").errors, HasSubstr("add --fidelity cluster"));
}

}  // namespace
}  // namespace plumbline::tests
