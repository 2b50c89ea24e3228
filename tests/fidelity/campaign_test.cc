// Campaigns against the closed forms of checkpoints, restarts and waits for nodes.
#include "sim/campaign/campaign.h"

#include <gtest/gtest.h>

#include <cmath>

#include "sim/campaign/closed_form.h"
#include "tests/support/campaign_inputs.h"

namespace plumbline::sim {
namespace {

using tests::campaign_of;
using tests::day_s;
using tests::hour_s;

// Daly 2006, eq. 20: T = M exp(R / M) (exp((tau + w) / M) - 1) Ts / tau, with failures in checkpoints and restarts.
TEST(CampaignForms, MeetsDalysTotalTime) {
  struct Case {
    double between_s, interval_s, stall_s, restart_s;
  };
  for (const Case& c : {Case{10 * hour_s, 1200, 20, 0}, {2 * hour_s, 1200, 300, 900}, {1800, 1200, 600, 900}}) {
    CampaignInput input = campaign_of(50, c.between_s);
    input.checkpoint = {.interval_s = c.interval_s, .stall_s = c.stall_s, .write_s = c.stall_s};
    input.restart_s = c.restart_s;
    const double factor = c.between_s / c.interval_s * std::exp(c.restart_s / c.between_s) *
                          std::expm1((c.interval_s + c.stall_s) / c.between_s);
    const CampaignResult result = run_campaign(input).value();
    // 100 seeds of 50 days have at least 12,000 failures, so the mean scatters by some thousandths of the overhead.
    EXPECT_NEAR(result.mean.total() / (50 * day_s), factor, 0.01 * (factor - 1)) << c.between_s;
    EXPECT_DOUBLE_EQ(expected_goodput(input), 1 / factor);
  }
}

// The best interval is Young's and Daly's where failures are rare against the time that a checkpoint costs.
TEST(CampaignForms, FindsTheIntervalsOfYoungAndDaly) {
  for (const double stall_s : {2.0, 20.0}) {
    CampaignInput input = campaign_of(50, 5 * hour_s);
    input.checkpoint = {.stall_s = stall_s, .write_s = stall_s};
    const CampaignResult result = run_campaign(input).value();
    EXPECT_NEAR(result.checkpoint_interval_s / result.young_s, 1, 0.05);
    EXPECT_NEAR(result.checkpoint_interval_s / result.daly_s, 1, 0.05);
  }
  // Where they are not, the optimum of the exact form, exp(x) (1 - x) = exp(-w / M) with x = tau / M: of w = M, 0.8414.
  CampaignInput input = campaign_of(50, 2 * hour_s);
  input.checkpoint = {.stall_s = 2 * hour_s, .write_s = 2 * hour_s};
  const CampaignResult result = run_campaign(input).value();
  EXPECT_NEAR(std::exp(0.8414) * (1 - 0.8414), std::exp(-1), 1e-4);
  EXPECT_NEAR(result.checkpoint_interval_s / (2 * hour_s), 0.8414, 0.05);
}

// Kokolis et al. 2024 (arXiv 2410.21680): E[ETTR] = (1 - N r (u0 + dt / 2)) / (1 + w / dt), to the first order in the
// share of time that failures take.
TEST(CampaignForms, MeetsTheEffectiveTrainingTimeOfRsc) {
  for (const double between_s : {40 * hour_s, 100 * hour_s}) {
    CampaignInput input = campaign_of(200, between_s);
    input.checkpoint = {.interval_s = 3600, .stall_s = 30, .write_s = 30};
    input.failures[0].detect_s = 200;
    input.restart_s = 400;
    const double form = (1 - (600 + 1800) / between_s) / (1 + 30 / 3600.0);
    // The second order is half of the square of the overhead of 1.7 % and 0.7 %.
    EXPECT_NEAR(run_campaign(input).value().mean_goodput, form, 4e-4);
    EXPECT_NEAR(expected_goodput(input), form, 4e-4);
  }
}

// With s spares, failures every M and repairs of r, the run waits a share B(s + 1, r / M) of the time (Erlang).
TEST(CampaignForms, WaitsForNodesAsErlangsLossFormulaSays) {
  CampaignInput input = campaign_of(400, day_s);
  input.failures[0].repair_s = 2 * day_s;
  input.checkpoint = {.interval_s = 10, .stall_s = 0, .write_s = 0};
  // B(1, 2) = 2 / 3, B(2, 2) = (2 * 2 / 3) / (2 + 2 * 2 / 3) = 2 / 5, B(3, 2) = (2 * 2 / 5) / (3 + 2 * 2 / 5) = 4 / 19.
  const double shares[] = {2.0 / 3, 2.0 / 5, 4.0 / 19};
  for (input.spare_nodes = 0; input.spare_nodes < 3; ++input.spare_nodes) {
    const CampaignResult result = run_campaign(input).value();
    const double share = shares[static_cast<std::size_t>(input.spare_nodes)];
    EXPECT_NEAR(result.mean.wait_s / result.mean.total(), share, 0.01);
    EXPECT_NEAR(expected_goodput(input), 1 - share, 1e-3);
  }
}

// A planned stop each day costs its own time, a checkpoint and a restart.
TEST(CampaignForms, PlannedStopsCostTheirTime) {
  CampaignInput input = campaign_of(10.5, 0);
  input.checkpoint = {.interval_s = 100 * day_s, .stall_s = 60, .write_s = 60, .load_s = 90};
  input.restart_s = 150;
  input.planned_stops_per_day = 1;
  input.planned_stop_s = 600;
  const CampaignResult result = run_campaign(input).value();
  EXPECT_DOUBLE_EQ(result.mean.planned_s, 10 * 600);
  EXPECT_DOUBLE_EQ(result.mean.restart_s, 10 * (150 + 90));
  EXPECT_DOUBLE_EQ(result.mean.checkpoint_s, 10 * 60);
}

}  // namespace
}  // namespace plumbline::sim
