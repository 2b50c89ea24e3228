// What a search tries of the keys whose values a software stack lists.
#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "sim/search/choices.h"
#include "tests/support/step_inputs.h"

namespace plumbline::sim {
namespace {

using Stages = std::vector<std::int64_t>;
using Words = std::vector<std::string>;

Inputs inputs_of(const std::vector<std::string>& overrides, const Words& stages) {
  Inputs inputs = tests::step_inputs(tests::llama_plan, "h800", overrides);
  inputs.plan.software["parallelism.zero_stage"] = {"old", stages};
  inputs.plan.software["schedule.kind"] = {"old", {"interleaved", "1f1b"}};
  return inputs;
}

TEST(SoftwareChoices, AreThoseOfTheStack) {
  const Inputs inputs = inputs_of({}, {"0", "1"});
  EXPECT_EQ(Choices(inputs, Breadth::quick).zero_stage, Stages{1});
  EXPECT_EQ(Choices(inputs, Breadth::complete).zero_stage, (Stages{0, 1}));
  const Words schedules = Choices(inputs, Breadth::quick).schedule(4);
  EXPECT_EQ(std::set<std::string>(schedules.begin(), schedules.end()), (std::set<std::string>{"1f1b", "interleaved"}));
}

TEST(SoftwareChoices, LackThePlansOwnWhereTheStackDoes) {
  const Inputs inputs = inputs_of({"parallelism.zero_stage=3", "schedule.kind=gpipe"}, {"0", "1"});
  EXPECT_EQ(Choices(inputs, Breadth::quick).zero_stage, Stages{1});
  EXPECT_EQ(Choices(inputs, Breadth::quick).schedule(4).size(), 2U);
}

TEST(SoftwareChoices, OfTheStackStandForThoseThatItLacks) {
  EXPECT_EQ(Choices(inputs_of({}, {"2"}), Breadth::quick).zero_stage, Stages{2});
  EXPECT_EQ(Choices(inputs_of({}, {"0", "2", "3"}), Breadth::quick).zero_stage, (Stages{2, 3}));
  EXPECT_EQ(Choices(inputs_of({}, {}), Breadth::quick).zero_stage, (Stages{1, 3}));
}

TEST(SoftwareChoices, AreThoseThatThePlanLists) {
  const Inputs inputs = inputs_of({"search.zero_stage=[2, 3]", "search.schedule=dualpipe"}, {"0", "1"});
  EXPECT_EQ(Choices(inputs, Breadth::quick).zero_stage, (Stages{2, 3}));
  EXPECT_EQ(Choices(inputs, Breadth::quick).schedule(4), Words{"dualpipe"});
}

}  // namespace
}  // namespace plumbline::sim
