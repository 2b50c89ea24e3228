#include "model/economics/economics.h"

#include <gtest/gtest.h>

#include "model/economics/ownership.h"
#include "tests/support/inputs.h"
#include "tests/support/load_cluster.h"

namespace plumbline::model {
namespace {

ClusterShape deepseek_cluster() {
  return tests::load_cluster(tests::shipped("topologies/h800-rail-fat-tree.toml"), tests::shipped("topologies/devices"),
                             {.gpus = 2048})
      .value();
}

Plan deepseek_plan() { return load_plan(tests::shipped("examples/deepseek-v3-2048xh800.toml"), {}).value(); }

TEST(Economics, DeepSeekV3) {
  // The measured step of arXiv 2505.09343, table 4.
  const auto cost = run_cost(deepseek_plan(), 19.926, deepseek_cluster());
  ASSERT_TRUE(cost);
  EXPECT_EQ(cost->tokens, 14.8e12);
  // 14.8e12 / (15360 * 4096 = 62,914,560) = 235,239.66
  EXPECT_NEAR(cost->steps, 235239.66, 0.01);
  // 235,239.66 * 19.926 s = 4,687,385 s = 54.252 days
  EXPECT_NEAR(cost->days, 54.252, 0.001);
  // 4,687,385 s / 3600 * 2048 = 2.6666 M GPU-hours
  EXPECT_NEAR(cost->gpu_hours, 2.6666e6, 100);
  EXPECT_DOUBLE_EQ(cost->cost_usd.value(), 2 * cost->gpu_hours);
  EXPECT_EQ(cost->goodput, 1.0);
}

TEST(Economics, StatedPhasesAreAddedAsPublished) {
  const auto cost = run_cost(deepseek_plan(), 19.926, deepseek_cluster());
  ASSERT_TRUE(cost);
  ASSERT_EQ(cost->phases.size(), 3u);
  EXPECT_EQ(cost->phases[0].name, "pretraining");
  EXPECT_EQ(cost->phases[0].kind, "predicted");
  EXPECT_EQ(cost->phases[0].gpu_hours, cost->gpu_hours);
  EXPECT_EQ(cost->phases[1].name, "context_extension");
  EXPECT_EQ(cost->phases[1].kind, "published");
  EXPECT_EQ(cost->phases[1].gpu_hours, 119000);
  EXPECT_FALSE(cost->phases[1].source.empty());
  EXPECT_EQ(cost->phases[2].gpu_hours, 5000);
  EXPECT_DOUBLE_EQ(cost->total_gpu_hours, cost->gpu_hours + 124000);
  EXPECT_DOUBLE_EQ(cost->total_cost_usd.value(), 2 * cost->total_gpu_hours);
}

TEST(Economics, GoodputLengthensTheRunButNotStatedPhases) {
  Plan plan = deepseek_plan();
  const RunCost ideal = run_cost(plan, 10, deepseek_cluster()).value();
  EXPECT_EQ(ideal.goodput_source, "without failures");
  plan.run.goodput = 0.8;
  const RunCost stated =
      run_cost(plan, 10, deepseek_cluster(), std::nullopt, CampaignGoodput{0.5, "a campaign"}).value();
  EXPECT_EQ(stated.goodput, 0.8);
  EXPECT_DOUBLE_EQ(stated.days, ideal.days / 0.8);
  EXPECT_DOUBLE_EQ(stated.cost_usd.value(), *ideal.cost_usd / 0.8);
  EXPECT_DOUBLE_EQ(stated.total_gpu_hours, ideal.gpu_hours / 0.8 + 124000);
  EXPECT_EQ(stated.steps, ideal.steps);
  plan.run.goodput = "campaign";
  const RunCost predicted =
      run_cost(plan, 10, deepseek_cluster(), std::nullopt, CampaignGoodput{0.5, "a campaign"}).value();
  EXPECT_DOUBLE_EQ(predicted.gpu_hours, 2 * ideal.gpu_hours);
  EXPECT_EQ(predicted.goodput_source, "a campaign");
  EXPECT_EQ(run_cost(plan, 10, deepseek_cluster())->goodput, 1);
}

TEST(Economics, NoTokensNoRun) {
  Plan plan = deepseek_plan();
  plan.run.tokens.reset();
  EXPECT_FALSE(run_cost(plan, 19.926, deepseek_cluster()));
}

TEST(Economics, ScalesWithTheStepAndTheGpus) {
  Plan plan = deepseek_plan();
  const auto once = run_cost(plan, 10, deepseek_cluster());
  const auto slower = run_cost(plan, 20, deepseek_cluster());
  plan.cluster.gpus *= 2;
  const auto wider = run_cost(plan, 10, deepseek_cluster());
  EXPECT_DOUBLE_EQ(slower->gpu_hours, 2 * once->gpu_hours);
  EXPECT_DOUBLE_EQ(wider->gpu_hours, 2 * once->gpu_hours);
  EXPECT_DOUBLE_EQ(wider->days, once->days);
}

Parameter stated(double value, Evidence kind = Evidence::published) {
  Parameter parameter;
  parameter.value = value;
  parameter.kind = kind;
  parameter.source = "a price list";
  return parameter;
}

// Two nodes have eight GPUs with a NIC each, and one switch.
ClusterShape priced_cluster() {
  ClusterShape shape;
  shape.name = "small";
  shape.gpus = 16;
  shape.gpus_per_node = 8;
  shape.device.tdp = 700;
  shape.fabric = {16, 1, 0};
  Prices& prices = shape.prices;
  prices.rent = stated(2);
  prices.rent->low = 1.5;
  prices.rent->high = 4;
  prices.server = stated(300000);
  prices.nic = stated(1000);
  prices.fabric_switch = stated(64000);
  prices.depreciation = stated(4, Evidence::assumed);
  prices.utilization = stated(0.5);
  prices.pue = stated(1.2);
  prices.electricity = stated(0.1);
  prices.host_power = stated(4000);
  prices.nic_power = stated(20);
  prices.switch_power = stated(1600);
  return shape;
}

TEST(Ownership, PurchaseByHand) {
  // Fabric: 16 * 1,000 + 64,000 = 80,000 USD. Capital of a GPU: 300,000 / 8 + 80,000 / 16 = 42,500 USD over
  // 4 * 8,766 * 0.5 = 17,532 hours: 2.4241387 USD.
  // Power: 700 + 4,000 / 8 + (16 * 20 + 1,600) / 16 = 1,320 W, 1,584 W with PUE: 0.1584 USD per hour.
  const auto price = purchase_price({}, priced_cluster());
  ASSERT_TRUE(price.value) << price.missing;
  EXPECT_EQ(fabric_price(priced_cluster()), 80000);
  EXPECT_NEAR(*price.value->capital, 2.4241387, 1e-6);
  EXPECT_NEAR(*price.value->electricity, 0.1584, 1e-12);
  EXPECT_NEAR(price.value->value, 2.5825387, 1e-6);
  EXPECT_EQ(price.value->kind, "assumed");  // that of the years
  EXPECT_DOUBLE_EQ(supplied_power({}, priced_cluster()).value.value(), 1584);
}

TEST(Ownership, RangeTakesEveryConstantAtTheSameEnd) {
  ClusterShape shape = priced_cluster();
  shape.prices.depreciation->low = 2;  // a short life costs more
  shape.prices.depreciation->high = 5;
  shape.prices.electricity->low = 0.05;
  shape.prices.electricity->high = 0.2;
  const HourlyPrice price = purchase_price({}, shape).value.value();
  EXPECT_NEAR(price.low, 42500 / (5 * 8766 * 0.5) + 0.0792, 1e-9);
  EXPECT_NEAR(price.high, 42500 / (2 * 8766 * 0.5) + 0.3168, 1e-9);
}

TEST(Ownership, PurchaseFollowsItsConstantsAndRentDoesNot) {
  const ClusterShape shape = priced_cluster();
  const double before = purchase_price({}, shape).value->value;
  const auto with = [&](auto field, double value) {
    Plan plan;
    plan.run.*field = value;
    EXPECT_EQ(rent_price(plan, shape).value->value, 2);
    EXPECT_EQ(rent_price(plan, shape).value->low, 1.5);
    return purchase_price(plan, shape).value->value;
  };
  using Run = decltype(Plan::run);
  EXPECT_LT(with(&Run::depreciation_years, 5), before);
  EXPECT_GT(with(&Run::depreciation_years, 3), before);
  EXPECT_LT(with(&Run::utilization, 0.9), before);
  EXPECT_GT(with(&Run::pue, 1.5), before);
  EXPECT_GT(with(&Run::electricity_usd_per_kwh, 0.2), before);
}

TEST(Ownership, ThePlansPriceIsTheRent) {
  Plan plan;
  plan.run.price_usd_per_gpu_hour = 3;
  const auto rent = rent_price(plan, priced_cluster());
  EXPECT_EQ(rent.value->value, 3);
  EXPECT_EQ(rent.value->low, 3);
  EXPECT_EQ(rent.value->kind, "stated");
  EXPECT_EQ(purchase_price(plan, priced_cluster()).value->value, purchase_price({}, priced_cluster()).value->value);
  plan.run.price_usd_per_gpu_hour = 0;
  EXPECT_FALSE(rent_price(plan, priced_cluster()).value);
}

TEST(Ownership, WhatIsMissingIsNamed) {
  ClusterShape shape = priced_cluster();
  shape.prices.server.reset();
  shape.prices.switch_power.reset();
  shape.prices.rent.reset();
  EXPECT_EQ(rent_price({}, shape).missing, "small does not state price.rent");
  EXPECT_EQ(purchase_price({}, shape).missing, "small does not state price.server, power.switch");
  EXPECT_EQ(supplied_power({}, shape).missing, "small does not state power.switch");
  shape = priced_cluster();
  shape.device.tdp = 0;
  EXPECT_EQ(supplied_power({}, shape).missing, "small does not state tdp of its device");
}

TEST(Ownership, ASingleNodeNeedsNoFabric) {
  ClusterShape shape = priced_cluster();
  shape.gpus = 8;
  shape.fabric = {};
  shape.prices.nic.reset();
  shape.prices.fabric_switch.reset();
  EXPECT_EQ(fabric_price(shape), 0);
  // 300,000 / 8 = 37,500 USD over 17,532 hours, and (700 + 500) * 1.2 W.
  EXPECT_NEAR(purchase_price({}, shape).value->value, 37500 / 17532.0 + 0.144, 1e-9);
}

TEST(Ownership, RunCountsEnergyAndTheChosenPrice) {
  Plan plan;
  plan.cluster.gpus = 16;
  plan.batch.global_batch_size = 1000;
  plan.batch.sequence_length = 1000;
  plan.run.tokens = 3.6e9;  // 3,600 steps
  plan.run.phases = {{"stated", 100, "a paper"}};
  // 3,600 steps of 10 s on 16 GPUs: 160 GPU-hours, and 260 with the given ones.
  const RunCost rented = run_cost(plan, 10, priced_cluster()).value();
  EXPECT_DOUBLE_EQ(rented.gpu_hours, 160);
  EXPECT_DOUBLE_EQ(*rented.cost_usd, 320);
  EXPECT_DOUBLE_EQ(*rented.total_cost_usd, 520);
  EXPECT_DOUBLE_EQ(*rented.cost_low_usd(160), 240);
  EXPECT_DOUBLE_EQ(*rented.cost_high_usd(160), 640);
  EXPECT_DOUBLE_EQ(*rented.energy_mwh(160), 160 * 1584e-6);
  plan.run.ownership = "purchase";
  const RunCost owned = run_cost(plan, 10, priced_cluster()).value();
  EXPECT_DOUBLE_EQ(*owned.total_cost_usd, 260 * owned.purchase.value->value);
  EXPECT_EQ(owned.rent.value->value, 2);
  EXPECT_EQ(owned.fabric.nics, 16);
}

TEST(Ownership, WithoutAPriceThereIsNoCost) {
  ClusterShape shape = priced_cluster();
  shape.prices = {};
  Plan plan;
  plan.cluster.gpus = 16;
  plan.batch.global_batch_size = 1;
  plan.batch.sequence_length = 1;
  plan.run.tokens = 1;
  const RunCost run = run_cost(plan, 10, shape).value();
  EXPECT_FALSE(run.cost_usd);
  EXPECT_FALSE(run.total_cost_usd);
  EXPECT_FALSE(run.cost_low_usd(1));
  EXPECT_FALSE(run.energy_mwh(1));
  EXPECT_FALSE(run.rent.missing.empty());
  EXPECT_FALSE(run.purchase.missing.empty());
}

}  // namespace
}  // namespace plumbline::model
