#include "cli/deadline.h"

#include <gtest/gtest.h>

#include "cli/data.h"
#include "cli/plan/plan_verb.h"
#include "tests/support/inputs.h"

namespace plumbline::cli {
namespace {

using model::ErrorKind;
using tests::expect_error;

TEST(Deadline, ADateCountsFromTheFirstDayOfThePlan) {
  model::Plan plan;
  plan.campaign.start = "2026-12-01";
  const auto first = first_day(plan, "2026-12-31");
  EXPECT_EQ(days_until("--deadline", "2026-12-31", first).value(), 30);
  EXPECT_EQ(days_until("--deadline", "8w", first).value(), 56);
  expect_error(days_until("--deadline", "2026-12-01", first), ErrorKind::input, "--deadline",
               "2026-12-01 is not after the start, 2026-12-01");
}

TEST(Deadline, ADurationNeedsNoFirstDay) {
  EXPECT_FALSE(first_day({}, "60d"));
  EXPECT_TRUE(first_day({}, "2026-12-31"));  // today
  EXPECT_EQ(days_until("--finish-by", "36h", std::nullopt).value(), 1.5);
  expect_error(days_until("--finish-by", "90days", std::nullopt), ErrorKind::input, "--finish-by",
               "'90days' is neither a date nor a duration");
}

TEST(Deadline, ATrainingHasAStepAtLeast) {
  SearchRequest request;
  request.plan.plan = "llama-3-8b";
  request.offers = {"h100-dgx:8"};
  request.tokens = "5";  // a step of the default recipe has 32 sequences of 4,096 tokens
  const auto recipe = find_recipe(request);
  ASSERT_TRUE(recipe) << to_string(recipe.error());
  auto options = load_options(request, *recipe, Purpose::training);
  ASSERT_TRUE(options) << to_string(options.error());
  const auto answer = find_plans(request, *recipe, std::move(*options), sim::local_tasks(), [] { return true; });
  expect_error(answer, ErrorKind::input, "--tokens", "5 tokens are less than a step, which has 131,072");
  request.tokens = "14.8T";
  EXPECT_EQ(overrides_of(request).value(), std::vector<std::string>{"run.tokens=1.48e+13"});
}

TEST(Data, AModelWhereAPlanIsWantedIsAnsweredWithWhatMakesOne) {
  expect_error(resolve(Shipped::plan, "qwen3-235b"), ErrorKind::input, "", "'qwen3-235b' is a model, not a plan");
}

}  // namespace
}  // namespace plumbline::cli
