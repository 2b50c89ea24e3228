#include "sim/search/detail/plan_draws.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace plumbline::sim {
namespace {

Inputs inputs(const std::string& cluster, const std::string& stack, Left left) {
  Inputs made;
  made.cluster.name = cluster;
  made.profile = model::Profile("profile", "", {}, {}, stack);
  made.left = left;
  return made;
}

std::map<std::string, double> variances(const Inputs& inputs) {
  std::map<std::string, double> found;
  for (const ErrorPart& part : step_errors(inputs)) found[part.key] += part.deviation * part.deviation;
  return found;
}

// Returns the variance of the parts that both have, with the same draw.
double shared(const Inputs& first, const Inputs& second) {
  double sum = 0;
  const auto others = variances(second);
  for (const auto& [key, variance] : variances(first))
    if (others.contains(key)) sum += variance;
  return sum;
}

double own(const Inputs& first, const Inputs& second) { return shared(first, first) - shared(first, second); }

TEST(PlanDraws, PartsAddUpToWhatIsLeft) {
  for (const Left& left : {Left{.common = 0.08, .own = 0.15}, Left{.common = 0.08, .own = 0.05}, Left{}})
    EXPECT_NEAR(shared(inputs("a", "stack", left), inputs("a", "stack", left)),
                left.common * left.common + left.own * left.own, 1e-12);
}

TEST(PlanDraws, PlansShareWhatTheyHaveInCommon) {
  const Left left{.common = 0.08, .own = 0.15};
  const Inputs plan = inputs("a", "stack", left);
  Inputs schedule = plan, layout = plan;
  schedule.plan.schedule.kind = "zb-h1";
  layout.plan.batch.micro_batch_size = 2;
  EXPECT_NEAR(own(plan, schedule), schedule_scatter * schedule_scatter, 1e-12);
  EXPECT_NEAR(own(plan, layout), layout_scatter * layout_scatter, 1e-12);
  // On other hardware half of common^2 is shared, and with another stack nothing is.
  EXPECT_NEAR(shared(plan, inputs("b", "stack", left)), 0.08 * 0.08 / 2, 1e-12);
  EXPECT_EQ(shared(plan, inputs("a", "other", left)), 0);
}

TEST(PlanDraws, PlansOfARunDifferByNoMoreThanPlansDo) {
  const Inputs plan = inputs("a", "stack", {.common = 0.08, .own = 0.05});
  Inputs layout = plan;
  layout.plan.batch.micro_batch_size = 2;
  EXPECT_NEAR(own(plan, layout), 0.05 * 0.05, 1e-12);
}

}  // namespace
}  // namespace plumbline::sim
