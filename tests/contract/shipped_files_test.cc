#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <toml++/toml.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "calibrate/ledger/ledger.h"
#include "calibrate/reliability/reliability.h"
#include "model/base/text_file.h"
#include "model/economics/ownership.h"
#include "model/plan/layout.h"
#include "model/plan/plan.h"
#include "model/profile/stack.h"
#include "tests/support/architectures.h"
#include "tests/support/inputs.h"
#include "tests/support/load_cluster.h"
#include "tests/support/published.h"
#include "tests/support/temporary_directory.h"
#include "topologies/fabric.h"
#include "topologies/topology.h"

namespace plumbline::topologies {
namespace {

using tests::load_cluster;
using tests::shipped;

// Rules for the prices of every shipped topology.

model::ClusterShape priced_cluster(const std::string& name, std::int64_t gpus = 0) {
  Variation variation;
  variation.gpus = gpus;
  return tests::load_cluster(shipped("topologies/" + name + ".toml"), shipped("topologies/devices"), variation).value();
}

class EveryPrice : public testing::TestWithParam<std::string> {};

TEST_P(EveryPrice, HasASourceAndEnclosesItsValue) {
  for (const model::Parameter& price : priced_cluster(GetParam()).prices.stated()) {
    EXPECT_FALSE(price.source.empty()) << price.name;
    EXPECT_LE(price.low.value_or(price.value), price.value) << price.name;
    EXPECT_GE(price.high.value_or(price.value), price.value) << price.name;
    if (price.low || price.high) {
      EXPECT_NE(price.source.find_first_of(":;,"), std::string::npos) << price.name << " says where its range is from";
    }
  }
}

// Low, value and high are in that order and the parts add up. Each price is there, or is null with a reason.
TEST_P(EveryPrice, HourlyPricesAreOrdered) {
  const model::ClusterShape cluster = priced_cluster(GetParam());
  for (const auto& price : {model::rent_price({}, cluster), model::purchase_price({}, cluster)}) {
    EXPECT_EQ(price.value.has_value(), price.missing.empty());
    if (!price.value) continue;
    EXPECT_GT(price.value->low, 0);
    EXPECT_LE(price.value->low, price.value->value);
    EXPECT_GE(price.value->high, price.value->value);
    if (price.value->capital) {
      EXPECT_DOUBLE_EQ(*price.value->capital + *price.value->electricity, price.value->value);
    }
  }
}

// The count from the wiring's numbers equals the count link by link.
TEST_P(EveryPrice, CablesAreTheLinksOfTheFabric) {
  const Topology topology =
      load_topology(shipped("topologies/" + GetParam() + ".toml"), shipped("topologies/devices"), {}).value();
  const FabricShape& shape = topology.fabric;
  if (shape.layers == 0) return;
  const std::int64_t bundle = std::max<std::int64_t>(1, shape.nics / shape.gpus_per_node);
  for (const std::int64_t nodes : {2, 5, 33, 260}) {
    const std::int64_t gpus = std::min(capacity(shape).gpus, nodes * shape.gpus_per_node);
    const Fabric fabric = Fabric::make(shape, gpus).value();
    std::int64_t nics = 0, cables = 0;
    for (const LinkGroup& group : inventory(fabric)) {
      if (group.kind == LinkKind::nic_up) nics = group.count * bundle;
      if (group.kind == LinkKind::leaf_up || group.kind == LinkKind::spine_up) cables += group.count * bundle;
    }
    const model::FabricParts parts = count_parts(fabric);
    EXPECT_EQ(parts.nics, nics) << gpus;
    EXPECT_EQ(parts.links, cables) << gpus;
    EXPECT_LE(parts.switches, fabric.leaves() + fabric.spines() + fabric.cores()) << gpus;
    // Every cable has a port at each of its ends.
    EXPECT_GE(parts.switches * shape.switch_ports, parts.nics + 2 * parts.links) << gpus;
    EXPECT_EQ(parts.switches, priced_cluster(GetParam(), gpus).fabric.switches);
  }
}

TEST_P(EveryPrice, MoreGpusNeverMakeACheaperFabric) {
  const model::ClusterShape one = priced_cluster(GetParam());
  if (!one.prices.link) return;
  double before = 0;
  for (const std::int64_t nodes : {1, 2, 4, 32, 33, 64, 256}) {
    const auto usd = model::fabric_price(priced_cluster(GetParam(), nodes * one.gpus_per_node)).value();
    EXPECT_GE(usd, before) << nodes;
    before = usd;
  }
}

INSTANTIATE_TEST_SUITE_P(Shipped, EveryPrice, testing::ValuesIn(model::names_in_folder(shipped("topologies"), ".toml")),
                         [](const auto& file) {
                           std::string name = file.param;
                           for (char& c : name)
                             if (c == '-') c = '_';
                           return name;
                         });

}  // namespace
}  // namespace plumbline::topologies

namespace plumbline::tests {
namespace {

// Single published figures: device points, the spread of step times, and what slows production steps.

TEST(PublishedPoints, OfDevicesSayWhatTheyAreFor) {
  const std::set<std::string> uses = {"gemm_best", "collective", "link", "moe_overlap", "sparse_attention"};
  const std::set<std::string> bounds = {"mean", "best", "minimum"};
  const auto rows = published("device_points");
  EXPECT_EQ(rows.size(), 63u);
  for (const Row& row : rows) {
    EXPECT_TRUE(uses.contains(row.at("use"))) << row.at("what");
    EXPECT_TRUE(bounds.contains(row.at("bound"))) << row.at("what");
    EXPECT_GT(number(row, "value"), 0) << row.at("what");
    EXPECT_FALSE(row.at("source").empty()) << row.at("what");
  }
}

// A run's steps lie on both sides of their median, and a higher percentile is not below a lower one.
TEST(PublishedPoints, OfStepTimesAreOrdered) {
  const auto rows = published("step_time_jitter");
  EXPECT_EQ(rows.size(), 53u);
  for (const Row& row : rows) {
    EXPECT_LT(number(row, "min_over_median"), 1);
    EXPECT_GE(number(row, "p90_over_median"), 1);
    EXPECT_GE(number(row, "p99_over_median"), number(row, "p90_over_median"));
    EXPECT_GE(number(row, "max_over_median"), number(row, "p99_over_median"));
  }
}

// Each fact has its own key, and a value or a range.
TEST(PublishedPoints, OfStragglersAreNumbers) {
  const toml::table file = toml::parse_file(shipped("calibrate/published/straggler_priors.toml"));
  const toml::array* facts = file["fact"].as_array();
  ASSERT_NE(facts, nullptr);
  std::set<std::string> keys;
  for (const toml::node& node : *facts) {
    const toml::table& fact = *node.as_table();
    const std::string key = fact["key"].value_or(std::string());
    EXPECT_TRUE(keys.insert(key).second) << key;
    EXPECT_FALSE(fact["source"].value_or(std::string()).empty()) << key;
    EXPECT_FALSE(fact["unit"].value_or(std::string()).empty()) << key;
    if (fact.contains("value")) {
      EXPECT_TRUE(fact["value"].is_number()) << key;
      EXPECT_FALSE(fact.contains("low") || fact.contains("high")) << key;
    } else {
      EXPECT_LT(fact["low"].value_or(1.0), fact["high"].value_or(0.0)) << key;
    }
    const bool prior = fact["status"].value_or(std::string()) == "secondhand";
    EXPECT_GE(fact["uncertainty"].value_or(0.0), prior ? 0.5 : 0.0) << key;
  }
  EXPECT_EQ(keys.size(), 35u);
}

// Every shipped file of reliability can be read, states what it is and where each entry comes from; every device with
// NICs has one.

TEST(ReliabilityFiles, SayWhatTheyAreAndWhereTheyComeFrom) {
  const std::string folder = shipped("calibrate/reliability");
  for (const std::string& name : model::names_in_folder(folder, ".toml")) {
    const auto data = calibrate::load_reliability(folder + "/" + name + ".toml");
    ASSERT_TRUE(data) << to_string(data.error());
    EXPECT_EQ(data->name, name);
    EXPECT_FALSE(data->description.empty());
    EXPECT_TRUE(std::ranges::any_of(data->failures, [](const auto& mode) { return mode.slows == 1; })) << name;
    for (const sim::FailureMode& mode : data->failures) EXPECT_GT(mode.per_gpu_hour, 0) << mode.name;
    for (const model::Parameter& constant : data->parameters) EXPECT_GT(constant.source.size(), 10u) << constant.name;
  }
}

TEST(ReliabilityFiles, CoverEveryDeviceOfAFabric) {
  for (const std::string& device : model::names_in_folder(shipped("topologies/devices"), ".toml"))
    EXPECT_EQ(calibrate::reliability_of_device(shipped("calibrate/reliability"), device).has_value(),
              device != "host-core")
        << device;
}

// arXiv 2407.21783 Table 5: the causes add up to the 419 unexpected interruptions of 54 days on 16,384 GPUs.
TEST(ReliabilityFiles, CausesOfLlama3AddUp) {
  const auto data = calibrate::load_reliability(shipped("calibrate/reliability/h100-llama3.toml")).value();
  double count = 0;
  for (const sim::FailureMode& mode : data.failures)
    if (mode.slows == 1) count += mode.per_gpu_hour * 16384 * 54 * 24;
  EXPECT_NEAR(count, 419, 1e-9);
}

// Rules for the shipped ledger: every prediction names the sources that made it, and none is younger than its
// measurement.

// Returns what is wrong with the entries of a ledger.
std::vector<std::string> wrong_entries(const std::string& folder) {
  std::vector<std::string> wrong;
  std::set<std::string> seen;
  for (const std::string& name : model::names_in_folder(folder, ".toml")) {
    const auto entry = calibrate::read_ledger_entry((std::filesystem::path(folder) / (name + ".toml")).string());
    if (!entry) {
      wrong.push_back(name + ": " + entry.error().key + ": " + entry.error().message);
      continue;
    }
    if (!std::regex_match(entry->revision, std::regex("[0-9a-f]{7,40}")))
      wrong.push_back(name + ": no commit is named '" + entry->revision + "'");
    if (!name.starts_with(entry->date.substr(0, 10) + "-" + entry->plan + "-"))
      wrong.push_back(name + ": its name has another date or plan");
    if (!seen.insert(entry->date + entry->plan_toml + entry->constants_hash).second)
      wrong.push_back(name + ": the same prediction twice");
  }
  return wrong;
}

TEST(Ledger, OfTheRepositoryIsMadeOfPredictions) {
  EXPECT_THAT(wrong_entries(shipped("calibrate/ledger")), testing::IsEmpty());
}

TEST(Ledger, ViolationsAreFound) {
  const TemporaryDirectory folder;
  calibrate::LedgerEntry entry;
  entry.date = "2026-11-23T10:30:00Z";
  entry.version = "0.1.0";
  entry.revision = "9a65f9bc1234-dirty";
  entry.plan = "a";
  entry.plan_toml = "[model]\n";
  entry.profile = entry.device = entry.fidelity = entry.constants_hash = "x";
  entry.draws = 1;
  entry.time_s = 1;
  entry.time = entry.peak_bytes = {1, 2, 3};
  folder.write("2026-11-23-a-x.toml", calibrate::ledger_toml(entry));
  entry.revision = "9a65f9bc1234";
  entry.measured = {.time_s = 2, .date = "2026-11-22T10:30:00Z", .source = "someone"};
  folder.write("2026-11-23-b-x.toml", calibrate::ledger_toml(entry));
  entry.measured.reset();
  entry.time = {2, 1, 3};
  folder.write("2026-11-23-c-x.toml", calibrate::ledger_toml(entry));
  EXPECT_THAT(wrong_entries(folder.path().string()),
              testing::ElementsAre(testing::HasSubstr("no commit is named"), testing::HasSubstr("older than"),
                                   testing::HasSubstr("not in order")));
}

// Every shipped stack can be read, states what it is and where each entry comes from, and its settings make a plan;
// every profile names a stack that is shipped, or none.

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
