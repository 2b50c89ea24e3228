// Every shipped stack can be read, states what it is and where each entry comes from, and its settings make a plan;
// every profile names a stack that is shipped, or none.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "model/base/text_file.h"
#include "model/plan/layout.h"
#include "model/profile/stack.h"
#include "tests/support/architectures.h"
#include "tests/support/inputs.h"

namespace plumbline::tests {
namespace {

std::vector<std::string> stacks() { return model::names_in_folder(shipped("calibrate/stacks"), ".toml"); }

class Stacks : public testing::TestWithParam<std::string> {
 protected:
  const model::Stack stack_ = model::load_stack(shipped("calibrate/stacks/" + GetParam() + ".toml")).value();
};

TEST_P(Stacks, SaysWhatItIs) {
  EXPECT_EQ(stack_.name, GetParam());
  EXPECT_FALSE(stack_.description.empty());
  EXPECT_TRUE(stack_.other_models.empty() || std::ranges::count(stacks(), stack_.other_models) == 1);
  for (const model::PlanSetting& setting : stack_.settings) EXPECT_GT(setting.source.size(), 10u) << setting.key;
  for (const model::PlanSetting& list : stack_.has) EXPECT_GT(list.source.size(), 10u) << list.key;
  for (const model::Parameter& constant : stack_.parameters) {
    EXPECT_GT(constant.source.size(), 10u) << constant.name;
    const bool of_rows = constant.kind == model::Evidence::fitted && constant.source.find("step") != std::string::npos;
    EXPECT_TRUE(!of_rows || !constant.rows.empty()) << constant.name << " rests on steps and lists no rows";
  }
}

TEST_P(Stacks, AppliesToAPlan) {
  auto plan = model::load_plan(shipped("examples/llama-3-8b-64xh800.toml"), {"recompute.policy=selective"}).value();
  const auto applied = model::apply_stack(stack_, {}, plan);
  ASSERT_TRUE(applied) << to_string(applied.error());
  EXPECT_NE(plan.attention.kernel, "cudnn") << "devices that lack it refuse the plan";
  for (const model::PlanSetting& setting : stack_.settings)
    if (setting.instead_of.empty()) {
      EXPECT_EQ(plan.places.contains(setting.key), setting.needs.empty()) << setting.key;
    }
  for (const model::PlanSetting& list : stack_.has) EXPECT_TRUE(plan.software.contains(list.key));
  const auto again = model::read_plan(model::to_toml(plan), "again.toml", {});
  EXPECT_TRUE(again) << to_string(again.error());
}

// An operator without launches of its own has those of its class, which `permute` names too. The gradient of a sum over
// a token's rows makes no map again.
TEST_P(Stacks, CountsGatheredRowsApartFromAPermutation) {
  const auto states = [this](const char* name) {
    return std::ranges::find(stack_.parameters, name, &model::Parameter::name) != stack_.parameters.end();
  };
  EXPECT_EQ(states("kernel.permute.launches"), states("kernel.gather_rows.launches"));
}

INSTANTIATE_TEST_SUITE_P(Shipped, Stacks, testing::ValuesIn(stacks()), [](const auto& test) {
  std::string name = test.param;
  std::ranges::replace(name, '-', '_');
  return name;
});

TEST(StackFiles, NothingOfDeepSeekIsFitted) {
  const auto stack = model::load_stack(shipped("calibrate/stacks/deepseek-v3.toml")).value();
  for (const model::Parameter& constant : stack.parameters) EXPECT_TRUE(constant.rows.empty()) << constant.name;
}

// Transformer Engine has no GEMM with scales of blocks of 128 on Blackwell.
TEST(StackFiles, BlockwiseScalesAreThoseOfMxfp8OnBlackwell) {
  const auto format_on = [](const std::string& name, const std::string& stack) {
    auto plan = model::load_plan(shipped("examples/llama-3-8b-64xh800.toml"), {"precision.gemm=fp8"}).value();
    const auto profile = model::load_profile(shipped("calibrate/profiles/" + name + ".toml")).value();
    const auto software = model::load_stack(shipped("calibrate/stacks/" + stack + ".toml")).value();
    EXPECT_TRUE(model::apply_stack(software, profile, plan));
    return plan.precision.gemm;
  };
  for (const char* stack : {"megatron-core-2025", "megatron-core-2026"}) {
    for (const char* name : {"b200", "b300", "gb200", "gb300"})
      EXPECT_EQ(format_on(name, stack), model::Precision::mxfp8) << name;
    EXPECT_EQ(format_on("h100", stack), model::Precision::fp8);
  }
  EXPECT_EQ(format_on("b200", "deepseek-v3"), model::Precision::fp8);
}

// The all-to-all that the schedule hides is that of experts.
TEST(StackFiles, DeepSeekOverlapsNoDenseModel) {
  auto plan = model::load_plan(shipped("examples/llama-3-8b-64xh800.toml"), {}).value();
  ASSERT_TRUE(model::apply_stack(model::load_stack(shipped("calibrate/stacks/deepseek-v3.toml")).value(), {}, plan));
  plan.schedule.kind = "interleaved-overlap";
  plan.schedule.virtual_stages = 2;
  const auto layout = model::make_layout(plan, architecture("llama-3-8b"));
  ASSERT_FALSE(layout);
  EXPECT_NE(to_string(layout.error()).find("stack deepseek-v3 refuses it (expert-overlap)"), std::string::npos);
}

TEST(StackFiles, EveryProfileNamesOneThatIsShipped) {
  const std::vector<std::string> names = stacks();
  for (const std::string& name : model::names_in_folder(shipped("calibrate/profiles"), ".toml")) {
    const auto profile = model::load_profile(shipped("calibrate/profiles/" + name + ".toml")).value();
    EXPECT_TRUE(profile.stack() == model::no_stack || std::ranges::count(names, profile.stack()) == 1)
        << name << ": '" << profile.stack() << "'";
  }
}

}  // namespace
}  // namespace plumbline::tests
