// Failures, effective time and checkpoints of published runs, from rates by component. Rates of a source are no
// prediction of that source's own count: what is validated is that the simulation meets it, and what times follow.
#include "sim/campaign/campaign.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "calibrate/reliability/reliability.h"
#include "model/architecture/metrics.h"
#include "model/plan/plan.h"
#include "sim/campaign/closed_form.h"
#include "tests/support/campaign_inputs.h"
#include "tests/support/inputs.h"
#include "tests/support/load_cluster.h"

namespace plumbline::tests {
namespace {

calibrate::Reliability reliability_data(const std::string& name) {
  return calibrate::load_reliability(shipped("calibrate/reliability/" + name + ".toml")).value();
}

model::ClusterShape whole_cluster(const std::string& name, std::int64_t gpus) {
  topologies::Variation variation;
  variation.gpus = gpus;
  return load_cluster(shipped("topologies/" + name + ".toml"), shipped("topologies/devices"), variation).value();
}

// A run of some days without interruption, with the failures, restarts and repairs of a file. The step does not matter.
sim::CampaignInput campaign_on(const calibrate::Reliability& data, std::int64_t gpus, double days) {
  sim::CampaignInput input = campaign_of(days, 0);
  input.gpus = gpus;
  input.failures = data.failures;
  input.restart_s = data.restart_s;
  input.swap_s = data.swap_s;
  input.spare_nodes = 1000;  // Nodes are taken from a larger cluster.
  input.seeds = 200;
  return input;
}

// arXiv 2407.21783 section 3.3.4: 54 days, 419 unexpected interruptions, 47 planned ones, over 90 % effective time.
TEST(PublishedCampaigns, Llama3IsInterruptedAsOften) {
  const calibrate::Reliability data = reliability_data("h100-llama3");
  const model::ClusterShape cluster = whole_cluster("h100-dgx", 16384);
  sim::CampaignInput input = campaign_on(data, 16384, 54 * 0.9);
  // How long the planned ones took is not published: a checkpoint and a restart are counted.
  input.planned_stops_per_day = 47 / 54.0;
  // 405e9 parameters with 14 bytes of BF16 weight, FP32 master weight and moments, saved to the parallel storage.
  const double bytes = 405e9 * 14;
  struct Policy {
    std::string name;
    sim::CheckpointKind kind;
  };
  for (const Policy& policy : {Policy{"synchronous", sim::CheckpointKind::synchronous},
                               {"asynchronous", sim::CheckpointKind::asynchronous},
                               {"neighbor", sim::CheckpointKind::neighbor}}) {
    input.checkpoint = sim::checkpoint_policy(policy.kind, false, bytes, cluster, data.storage);
    const sim::CampaignResult result = sim::run_campaign(input).value();
    ASSERT_TRUE(result.never.empty()) << result.never;
    const double days = result.mean.total() / day_s;
    const double of_54_days = result.mean_interruptions / days * 54;
    fmt::print(
        "{}: {:.0f} interruptions in 54 days (published 419), effective {:.1f} % (published over 90 %), "
        "checkpoint every {:.0f} s at {:.1f} s of stall\n",
        policy.name, of_54_days, 100 * result.mean_goodput, result.checkpoint_interval_s, input.checkpoint.stall_s);
    for (const auto& [part, seconds] : {std::pair{"lost", result.mean.lost_s},
                                        {"checkpoints", result.mean.checkpoint_s},
                                        {"detection", result.mean.detect_s},
                                        {"restart", result.mean.restart_s},
                                        {"slow", result.mean.slow_s}})
      fmt::print("  {} {:.2f} %\n", part, 100 * seconds / result.mean.total());
    EXPECT_NEAR(of_54_days, 419, 0.15 * 419);
  }
}

// Where times of detection and restart lie in their ranges decides whether over 90 % are effective.
TEST(PublishedCampaigns, EffectiveTimeOfLlama3OverItsAssumptions) {
  const calibrate::Reliability data = reliability_data("h100-llama3");
  sim::CampaignInput input = campaign_on(data, 16384, 54 * 0.9);
  input.planned_stops_per_day = 47 / 54.0;
  input.checkpoint = sim::checkpoint_policy(sim::CheckpointKind::synchronous, false, 405e9 * 14,
                                            whole_cluster("h100-dgx", 16384), data.storage);
  input.checkpoint.interval_s = 250;
  const auto at = [&](double end) {
    for (sim::FailureMode& mode : input.failures)
      if (mode.slows <= 1) mode.detect_s = end * 600;
    input.restart_s = end * 900;
    return sim::run_campaign(input).value().mean_goodput;
  };
  const double fast = at(0), slow = at(1);
  fmt::print("effective {:.1f} to {:.1f} % (published over 90 %)\n", 100 * slow, 100 * fast);
  EXPECT_LT(slow, 0.9);
  EXPECT_GT(fast, 0.9);
}

// arXiv 2410.21680: mean time to failure of jobs, from 6.50 failures in 1,000 node-days. The printed 7.9 h of jobs of
// 1,024 GPUs does not follow from that rate; those of 16,384 and 131,072 are the paper's own projections of it.
TEST(PublishedCampaigns, TimesBetweenFailuresOfRsc) {
  struct Printed {
    std::int64_t gpus;
    double hours;
    bool follows;
  };
  const calibrate::Reliability data = reliability_data("a100-rsc1");
  for (const Printed& printed : {Printed{1024, 7.9, false}, {16384, 1.8, true}, {131072, 0.23, true}}) {
    sim::CampaignInput input = campaign_on(data, printed.gpus, 5.0 * 16384 / static_cast<double>(printed.gpus));
    input.checkpoint = {.interval_s = 60, .stall_s = 0, .write_s = 0};
    input.restart_s = 0;
    for (sim::FailureMode& mode : input.failures) mode.detect_s = 0;
    const sim::CampaignResult result = sim::run_campaign(input).value();
    const double simulated = result.mean.total() / hour_s / result.mean_interruptions;
    fmt::print("{} GPUs: {:.3g} h between failures, {:.3g} h simulated, printed {} h\n", printed.gpus,
               result.hours_between_failures, simulated, printed.hours);
    EXPECT_NEAR(simulated, result.hours_between_failures, 0.02 * simulated);
    EXPECT_EQ(std::abs(simulated / printed.hours - 1) < 0.15, printed.follows);
  }
}

// bigscience-workshop/bigscience train/tr11-176B-ml: checkpoints of BLOOM, 176.2e9 parameters in BF16 with FP32 master
// weights and moments, have 2.3 TB, and were written in 40 s from 48 nodes.
TEST(PublishedCampaigns, CheckpointsOfBloom) {
  model::Plan plan;
  model::ModelMetrics metrics;
  metrics.parameters = 176.2e9;
  const double bytes = sim::checkpoint_bytes(plan, metrics);
  const model::ClusterShape cluster = whole_cluster("a100-dgx", 384);
  const auto policy = sim::checkpoint_policy(sim::CheckpointKind::synchronous, false, bytes, cluster,
                                             reliability_data("a100-rsc1").storage);
  fmt::print("{:.3g} TB (printed 2.3), {:.1f} s (printed 40)\n", bytes / 1e12, policy.stall_s);
  EXPECT_NEAR(bytes / 2.3e12, 1, 0.1);
  EXPECT_NEAR(policy.stall_s / 40, 1, 0.15);
}

}  // namespace
}  // namespace plumbline::tests
