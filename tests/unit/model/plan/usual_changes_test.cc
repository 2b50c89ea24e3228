// What software may run otherwise than a plan has it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "model/plan/alternative.h"

namespace plumbline::model {
namespace {

using testing::ElementsAre;

// Returns the other values of a key, in order.
std::vector<std::string> others(const std::vector<UsualChange>& changes, std::string_view key) {
  std::vector<std::string> values;
  for (const UsualChange& change : changes)
    if (change.key == key) values.push_back(change.value);
  return values;
}

UsualChange first_of(const std::vector<UsualChange>& changes, std::string_view key) {
  return *std::ranges::find(changes, key, &UsualChange::key);
}

TEST(UsualChanges, HaveOneKeyOtherwise) {
  Plan plan;
  plan.recompute.policy = "selective";
  plan.places["recompute.policy"] = {"plan.toml", 3, ""};
  const auto changes = usual_changes(plan);
  EXPECT_THAT(others(changes, "recompute.policy"), ElementsAre("full", "none"));
  const UsualChange full = first_of(changes, "recompute.policy");
  EXPECT_EQ(full.plan.recompute.policy, "full");
  EXPECT_EQ(full.setting, "recompute.policy=full");
  EXPECT_EQ(full.now, "selective");
  EXPECT_FALSE(full.open);
  EXPECT_EQ(first_of(changes, "overlap.gradient_reduce").now, "on");
  EXPECT_THAT(others(changes, "overlap.gradient_reduce"), ElementsAre("off"));
}

TEST(UsualChanges, AKeyThatAStackGaveIsOpen) {
  Plan plan;
  EXPECT_TRUE(first_of(usual_changes(plan), "stack.graphs").open) << "the default";
  plan.stack.graphs = {"full_iteration"};
  plan.places["stack.graphs"] = {"made.toml", 1, "stack made"};
  const auto changes = usual_changes(plan);
  EXPECT_TRUE(first_of(changes, "stack.graphs").open);
  EXPECT_EQ(first_of(changes, "stack.graphs").now, "full");
  EXPECT_THAT(others(changes, "stack.graphs"), ElementsAre("partial", "none"));
}

TEST(UsualChanges, SoftwareThatLacksAValueIsNotOfferedIt) {
  Plan plan;
  plan.parallelism.expert = 8;
  plan.stack.dispatcher = "alltoall";
  EXPECT_THAT(others(usual_changes(plan), "stack.dispatcher"), ElementsAre("hybridep", "deepep"));
  plan.software["stack.dispatcher"] = {"made", {"alltoall", "deepep"}};
  plan.software["stack.graphs"] = {"made", {"none"}};
  const auto changes = usual_changes(plan);
  EXPECT_THAT(others(changes, "stack.dispatcher"), ElementsAre("deepep"));
  EXPECT_THAT(others(changes, "stack.graphs"), testing::IsEmpty());
  plan.parallelism.expert = 1;
  EXPECT_THAT(others(usual_changes(plan), "stack.dispatcher"), testing::IsEmpty()) << "no tokens leave their rank";
}

TEST(UsualChanges, OfServingAreThoseOfInference) {
  for (const UsualChange& change : usual_changes(Plan(), SoftwareOf::serving))
    EXPECT_TRUE(change.key.starts_with("inference.")) << change.key;
}

}  // namespace
}  // namespace plumbline::model
