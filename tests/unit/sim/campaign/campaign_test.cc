#include "sim/campaign/campaign.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <numeric>

#include "model/base/random.h"
#include "sim/campaign/closed_form.h"
#include "tests/support/campaign_inputs.h"

namespace plumbline::sim {
namespace {

using testing::HasSubstr;
using tests::campaign_of;
using tests::day_s;
using tests::hour_s;

constexpr double endless = std::numeric_limits<double>::infinity();

CampaignResult campaign_run(const CampaignInput& input) { return run_campaign(input).value(); }

// Counts the events of the first seed whose text begins so.
std::size_t campaign_events(const CampaignResult& result, const std::string& what) {
  return static_cast<std::size_t>(
      std::ranges::count_if(result.events, [&](const CampaignEvent& event) { return event.what.starts_with(what); }));
}

TEST(Campaign, NothingFailsAtARateOfZero) {
  CampaignInput input = campaign_of(10, 0);
  input.failures = {{.name = "GPU", .per_gpu_hour = 0, .repair_s = day_s}};
  input.checkpoint = {.stall_s = 60, .write_s = 60};
  const CampaignResult best = campaign_run(input);
  EXPECT_EQ(best.days.p50, 10);
  EXPECT_EQ(best.goodput.p10, 1);
  EXPECT_EQ(best.hours_between_failures, endless);
  EXPECT_THAT(best.never, testing::IsEmpty());
  EXPECT_EQ(expected_goodput(input), 1);
  // 240 hours have 239 checkpoints within them.
  input.checkpoint.interval_s = hour_s;
  const CampaignResult hourly = campaign_run(input);
  EXPECT_NEAR(hourly.mean.checkpoint_s, 239 * 60, 1e-6);
  EXPECT_DOUBLE_EQ(hourly.days.p90 * day_s, 10 * day_s + 239 * 60);
}

TEST(Campaign, TimesAddUpAndFailuresAreCountedByKind) {
  CampaignInput input = campaign_of(20, 8 * hour_s);
  input.failures[0] = {.name = "GPU", .per_gpu_hour = 1 / 512.0, .detect_s = 300, .repair_s = 2 * day_s};
  input.failures.push_back({.name = "software", .per_gpu_hour = 1 / 1024.0, .detect_s = 60});
  input.failures.push_back({.name = "congestion", .per_gpu_hour = 1 / 512.0, .slows = 1.5, .lasts_s = 1200});
  input.failures.push_back({.name = "slow GPU", .per_gpu_hour = 1e-4, .repair_s = day_s, .slows = 1.1});
  input.checkpoint = {.interval_s = 1800, .stall_s = 5, .write_s = 60, .load_s = 30};
  input.spare_nodes = 1;
  input.restart_s = 300;
  input.swap_s = 120;
  input.health_check_every_s = day_s;
  input.health_check_s = 600;
  input.planned_stops_per_day = 0.25;
  input.planned_stop_s = 3600;
  const CampaignResult result = campaign_run(input);
  EXPECT_THAT(result.never, testing::IsEmpty());
  const double mean_days =
      std::accumulate(result.days_of_seed.begin(), result.days_of_seed.end(), 0.0) / static_cast<double>(input.seeds);
  EXPECT_NEAR(result.mean.total() / day_s, mean_days, 1e-9 * mean_days);
  EXPECT_NEAR(result.mean.useful_s, 20 * day_s, 1e-6);
  for (const double part : {result.mean.lost_s, result.mean.checkpoint_s, result.mean.detect_s, result.mean.restart_s,
                            result.mean.wait_s, result.mean.slow_s, result.mean.planned_s})
    EXPECT_GT(part, 0);
  EXPECT_NEAR(result.interruptions_of_mode[0] + result.interruptions_of_mode[1], result.mean_interruptions, 1e-9);
  EXPECT_NEAR(result.interruptions_of_mode[0] / result.interruptions_of_mode[1], 2, 0.3);
  EXPECT_DOUBLE_EQ(result.hours_between_failures, 1 / (64 * (1 / 512.0 + 1 / 1024.0)));
  EXPECT_NEAR(expected_goodput(input), result.mean_goodput, 0.02);
  EXPECT_GT(campaign_events(result, "failure: GPU"), 0u);
  EXPECT_GT(campaign_events(result, "planned stop"), 3u);
  EXPECT_EQ(result.events.back().what, "finished");
  EXPECT_EQ(result.events.back().progress, 1);
  EXPECT_DOUBLE_EQ(result.events.back().time_s / day_s, result.days_of_seed[0]);
}

// A task runs 16 seeds; one after another, the first task comes first.
TEST(Campaign, ThatIsStoppedIsOverTheSeedsThatWereRun) {
  CampaignInput input = campaign_of(5, 4 * hour_s);
  input.checkpoint = {.interval_s = 1800, .stall_s = 20, .write_s = 20};
  input.seeds = 50;
  std::size_t tasks = 0;
  const Watch watch{[&] { return tasks >= 1; }, [&](std::size_t done, std::size_t) { tasks = done; }};
  const CampaignResult whole = campaign_run(input);
  const auto some = on_threads(1, [&] { return run_campaign(input, local_tasks(), watch); });
  ASSERT_TRUE(some) << to_string(some.error());
  EXPECT_FALSE(some->complete);
  EXPECT_TRUE(whole.complete);
  ASSERT_EQ(some->days_of_seed.size(), 16u);
  EXPECT_TRUE(std::equal(some->days_of_seed.begin(), some->days_of_seed.end(), whole.days_of_seed.begin()));
  EXPECT_EQ(run_campaign(input, local_tasks(), {.stopped = [] { return true; }}).error().kind,
            model::ErrorKind::interrupted);
}

// Runs tasks one after another, the last one first.
class Backwards final : public Tasks {
 public:
  model::Result<std::vector<std::string>> run(const TaskSet& set) override {
    std::vector<std::string> results(set.count);
    for (std::size_t task = set.count; task-- > 0;) results[task] = TRY(set.run(task));
    keys.push_back(set.key);
    return results;
  }
  std::vector<std::string> keys;
};

TEST(Campaign, HasTheSameBitsWhereverItsSeedsRun) {
  CampaignInput input = campaign_of(5, 4 * hour_s);
  input.checkpoint = {.stall_s = 20, .write_s = 20};
  Backwards tasks;
  const CampaignResult one = run_campaign(input, tasks).value(), other = campaign_run(input);
  EXPECT_EQ(one.days_of_seed, other.days_of_seed);
  EXPECT_EQ(one.checkpoint_interval_s, other.checkpoint_interval_s);
  EXPECT_EQ(one.mean.lost_s, other.mean.lost_s);
  // Each interval that was tried is work of its own.
  std::ranges::sort(tasks.keys);
  EXPECT_EQ(std::ranges::adjacent_find(tasks.keys), tasks.keys.end());
  // More seeds begin with the same ones.
  input.checkpoint.interval_s = one.checkpoint_interval_s;
  input.seeds = 150;
  const auto more = campaign_run(input).days_of_seed;
  EXPECT_TRUE(std::equal(one.days_of_seed.begin(), one.days_of_seed.end(), more.begin()));
}

TEST(Campaign, CertainFailureNeverFinishes) {
  CampaignInput input = campaign_of(10, 1e-3);
  input.checkpoint = {.stall_s = 10, .write_s = 10};
  input.restart_s = 1;
  const CampaignResult result = campaign_run(input);
  EXPECT_THAT(result.never, HasSubstr("a failure comes every"));
  EXPECT_EQ(result.finished, 0);
  EXPECT_EQ(result.days.p10, endless);
}

TEST(Campaign, CheckpointsLongerThanTheTimeBetweenFailuresNeverFinish) {
  CampaignInput input = campaign_of(10, 600);
  input.checkpoint = {.stall_s = 2 * hour_s, .write_s = 2 * hour_s};
  EXPECT_THAT(campaign_run(input).never, HasSubstr("a checkpoint takes 2 h"));
  input.checkpoint = {.interval_s = 3 * hour_s, .stall_s = 10, .write_s = 10};
  EXPECT_THAT(campaign_run(input).never, HasSubstr("a checkpoint every 3 h"));
  input.checkpoint.interval_s = 300;
  EXPECT_THAT(campaign_run(input).never, testing::IsEmpty());
}

TEST(Campaign, PlannedStopsThatLeaveNoTimeNeverFinish) {
  CampaignInput input = campaign_of(10, 0);
  input.checkpoint = {.interval_s = hour_s, .load_s = 60};
  input.restart_s = 540;
  input.planned_stops_per_day = 144;
  EXPECT_THAT(campaign_run(input).never, HasSubstr("a planned stop comes every 0.167 h"));
  input.planned_stops_per_day = 100;
  EXPECT_THAT(campaign_run(input).never, testing::IsEmpty());
}

TEST(Campaign, MoreEventsThanAreSimulatedAreRefused) {
  CampaignInput often = campaign_of(10, 0);
  often.health_check_every_s = 1e-3;
  CampaignInput endless_run = campaign_of(10, 600);
  endless_run.phases[0].tokens = 1e300;
  for (const CampaignInput& input : {often, endless_run}) {
    const auto result = run_campaign(input);
    ASSERT_FALSE(result);
    EXPECT_THAT(result.error().message, HasSubstr("at most 1e+06 are simulated"));
  }
}

TEST(Campaign, ARestartThatNothingSurvivesNeverFinishes) {
  CampaignInput input = campaign_of(10, 600);
  input.checkpoint = {.interval_s = 60, .stall_s = 1, .write_s = 1};
  input.restart_s = 2 * hour_s;
  EXPECT_THAT(campaign_run(input).never, HasSubstr("hardly a restart survives"));
}

// It needs no checkpoint, however long one takes.
TEST(Campaign, ARunOfLessThanAStepEnds) {
  CampaignInput input = campaign_of(1e-9, day_s);
  input.checkpoint = {.stall_s = 20, .write_s = 20};
  input.restart_s = 600;
  EXPECT_THAT(campaign_run(input).never, testing::IsEmpty());
}

TEST(Campaign, NodesThatNobodyRepairsRunOut) {
  CampaignInput input = campaign_of(30, day_s);
  input.failures[0].repair_s = endless;
  input.checkpoint = {.interval_s = 600, .stall_s = 1, .write_s = 1};
  EXPECT_THAT(campaign_run(input).never, HasSubstr("nodes that fail are not repaired, and those left run out"));
  // 30 failures are expected; 60 spares are enough for all seeds, 30 for about half of them.
  input.spare_nodes = 60;
  EXPECT_THAT(campaign_run(input).never, testing::IsEmpty());
  input.spare_nodes = 30;
  const CampaignResult some = campaign_run(input);
  EXPECT_THAT(some.never, HasSubstr("of 100 runs: nodes that fail are not repaired, and 30 spare nodes run out"));
  EXPECT_GT(some.finished, 0.3);
  EXPECT_LT(some.finished, 0.7);
  EXPECT_EQ(some.days.p90, endless);
  EXPECT_LT(some.days.p10, endless);
  EXPECT_GT(some.mean_goodput, 0.9);  // of those that finish
}

TEST(Campaign, SparesSaveTheWaitForRepairs) {
  CampaignInput input = campaign_of(30, day_s);
  input.failures[0].repair_s = 2 * day_s;
  input.checkpoint = {.interval_s = 600, .stall_s = 1, .write_s = 1};
  double before = 0;
  for (const std::int64_t spares : {0, 1, 2, 4, 16}) {
    input.spare_nodes = spares;
    const CampaignResult result = campaign_run(input);
    EXPECT_GT(result.mean_goodput, before);
    EXPECT_NEAR(expected_goodput(input), result.mean_goodput, 0.02) << spares;
    before = result.mean_goodput;
  }
  EXPECT_GT(before, 0.97);
}

TEST(Campaign, FewerReplicasGoOnWhereNodesAreMissing) {
  CampaignInput input = campaign_of(30, day_s);
  input.failures[0].repair_s = 2 * day_s;
  input.checkpoint = {.interval_s = 600, .stall_s = 1, .write_s = 1};
  const CampaignResult waits = campaign_run(input);
  input.elastic = true;
  const CampaignResult elastic = campaign_run(input);
  EXPECT_LT(elastic.days.p50, waits.days.p50);
  EXPECT_GT(elastic.mean.slow_s, 0);
  EXPECT_GT(campaign_events(elastic, "nodes return"), 0u);
  EXPECT_NEAR(expected_goodput(input), elastic.mean_goodput, 0.03);
  // A replica of two nodes leaves as a whole.
  input.replica_nodes = 2;
  EXPECT_GT(campaign_run(input).days.p50, elastic.days.p50);
}

TEST(Campaign, ACheckpointIsOfUseOnceItIsWritten) {
  CampaignInput input = campaign_of(30, day_s);
  input.checkpoint = {.interval_s = 1000, .stall_s = 1, .write_s = 1};
  const CampaignResult fast = campaign_run(input);
  input.checkpoint.write_s = 601;
  const CampaignResult slow = campaign_run(input);
  EXPECT_NEAR((slow.mean.lost_s - fast.mean.lost_s) / slow.mean_interruptions, 600, 60);
  EXPECT_NEAR(expected_goodput(input), slow.mean_goodput, 0.002);
}

TEST(Campaign, ACheckpointWaitsForTheOneBefore) {
  CampaignInput input = campaign_of(30, day_s);
  input.checkpoint = {.stall_s = 0.01, .write_s = 300.01};  // sqrt(2 * 0.01 * a day) is 42 s
  EXPECT_DOUBLE_EQ(campaign_run(input).checkpoint_interval_s, 300);
  EXPECT_DOUBLE_EQ(closed_form_interval(input), 300);
  input.checkpoint.interval_s = 300;
  const CampaignResult longer = campaign_run(input);
  input.checkpoint.interval_s = 60;
  const CampaignResult asked = campaign_run(input);
  EXPECT_DOUBLE_EQ(asked.checkpoint_interval_s, 300);
  EXPECT_NEAR(asked.mean.checkpoint_s, longer.mean.checkpoint_s, 0.01 * longer.mean.checkpoint_s);
}

TEST(Campaign, CopiesOnNodesAreLostWithThem) {
  CampaignInput input = campaign_of(30, day_s);
  input.failures[0].repair_s = hour_s;
  input.spare_nodes = 8;
  input.checkpoint = {.interval_s = 100, .stall_s = 0.1, .write_s = 0.1, .load_s = 10};
  input.checkpoint.storage_every = 100;
  input.checkpoint.storage_load_s = 600;
  const double storage = campaign_run(input).mean.lost_s;
  // The node's own copy leaves with it, its neighbor's only where both do.
  input.checkpoint.copies = 1;
  const CampaignResult own = campaign_run(input);
  EXPECT_GT(own.mean.lost_s, 50 * storage);
  EXPECT_NEAR(own.mean.restart_s / own.mean_interruptions, 600, 10);
  input.checkpoint.copies = 2;
  const CampaignResult neighbor = campaign_run(input);
  EXPECT_LT(neighbor.mean.lost_s, 1.5 * storage);
  EXPECT_NEAR(neighbor.mean.restart_s / neighbor.mean_interruptions, 10, 1);
  input.failures[0].nodes = 2;
  EXPECT_GT(campaign_run(input).mean.lost_s, 50 * storage);
  // A restart in place finds its copy.
  input.checkpoint.copies = 1;
  input.failures[0].repair_s = 0;
  EXPECT_LT(campaign_run(input).mean.lost_s, 1.5 * storage);
}

TEST(Campaign, SlowNodesLastUntilTheyAreFound) {
  CampaignInput input = campaign_of(30, 0);
  input.failures = {{.name = "slow GPU", .per_gpu_hour = 1 / (64 * 48.0), .repair_s = hour_s, .slows = 1.2}};
  input.checkpoint = {.interval_s = day_s};
  input.spare_nodes = 4;
  const CampaignResult unseen = campaign_run(input);
  EXPECT_NEAR(unseen.mean_goodput, 1 / 1.2, 0.02);  // from the second day or so
  input.health_check_every_s = day_s;
  const CampaignResult checked = campaign_run(input);
  EXPECT_GT(campaign_events(checked, "evicted: slow GPU"), 3u);
  EXPECT_GT(checked.mean_goodput, 0.94);
  EXPECT_EQ(checked.mean_interruptions, 0);
  input.failures[0].detect_s = 600;
  EXPECT_GT(campaign_run(input).mean_goodput, 0.998);
}

TEST(Campaign, PhasesTakeTheirOwnSteps) {
  CampaignInput input = campaign_of(1, 0);
  // 100 steps of 10 s, then 50 of 40 s.
  input.phases = {{"short", 1e6, 1e4, 10}, {"long", 1e6, 2e4, 40}};
  input.planned_stops_per_day = 86400 / 1000.0;
  input.checkpoint = {.interval_s = 10'000};
  const CampaignResult result = campaign_run(input);
  EXPECT_DOUBLE_EQ(result.mean.useful_s, 3000);
  EXPECT_EQ(result.events.front().what, "planned stop");
  EXPECT_DOUBLE_EQ(result.events.front().progress, 0.5);
}

// Any mixture of what a campaign may have: times add up, and useful ones are those of all steps.
TEST(Campaign, AnyMixtureAddsUp) {
  model::Random random(5);
  const auto below = [&](double most) { return most * random.uniform(); };
  const auto maybe = [&](double most) { return random.uniform() < 0.5 ? 0.0 : below(most); };
  for (int trial = 0; trial < 200; ++trial) {
    CampaignInput input = campaign_of(1 + below(10), hour_s + below(3 * day_s));
    input.failures[0].detect_s = maybe(900);
    input.failures[0].repair_s = maybe(3 * day_s);
    input.failures[0].nodes = 1 + static_cast<std::int64_t>(below(2));
    input.failures.push_back({.name = "slow GPU", .per_gpu_hour = maybe(1e-3), .detect_s = maybe(hour_s)});
    input.failures.back().slows = 1.01 + below(1);
    input.failures.back().lasts_s = maybe(day_s);
    input.failures.back().repair_s = maybe(day_s);
    input.checkpoint = {.interval_s = 10 + below(hour_s), .stall_s = maybe(60), .load_s = maybe(300)};
    input.checkpoint.write_s = input.checkpoint.stall_s + maybe(600);
    input.checkpoint.copies = static_cast<std::int64_t>(below(3));
    input.checkpoint.storage_every = static_cast<std::int64_t>(1 + below(20));
    input.checkpoint.storage_write_s = maybe(hour_s);
    input.spare_nodes = static_cast<std::int64_t>(maybe(4));
    input.restart_s = maybe(900);
    input.elastic = random.uniform() < 0.5;
    input.replica_nodes = 1 + static_cast<std::int64_t>(below(4));
    input.planned_stops_per_day = maybe(2);
    input.planned_stop_s = maybe(hour_s);
    input.health_check_every_s = maybe(day_s);
    input.health_check_s = maybe(600);
    input.seeds = 3;
    const CampaignResult result = run_campaign(input).value();
    if (!result.never.empty()) continue;
    const double total = result.mean.total();
    EXPECT_NEAR(result.mean.useful_s, input.phases[0].tokens, 1e-9 * total) << trial;
    EXPECT_NEAR(result.events.back().time_s / day_s, result.days_of_seed[0], 1e-9 * result.days_of_seed[0]) << trial;
    for (const double part : {result.mean.lost_s, result.mean.slow_s, result.mean.wait_s, result.mean.planned_s})
      EXPECT_GE(part, -1e-9 * total) << trial;
    for (std::size_t event = 1; event < result.events.size(); ++event)
      EXPECT_GE(result.events[event].time_s, result.events[event - 1].time_s) << trial;
    EXPECT_LE(result.mean_goodput, 1 + 1e-9);
    EXPECT_GT(expected_goodput(input), 0);
  }
}

TEST(Campaign, RefusesAmountsThatAreNone) {
  CampaignInput input = campaign_of(10, day_s);
  input.restart_s = -1;
  EXPECT_THAT(run_campaign(input).error().message, HasSubstr("restart is -1"));
  input.restart_s = 0;
  input.failures[0].per_gpu_hour = endless;
  EXPECT_THAT(run_campaign(input).error().message, HasSubstr("rate of GPU is inf"));
  input = campaign_of(10, day_s);
  input.phases.clear();
  EXPECT_THAT(run_campaign(input).error().message, HasSubstr("number of phases is 0"));
  input = campaign_of(10, day_s);
  input.replica_nodes = 9;
  EXPECT_THAT(run_campaign(input).error().message, HasSubstr("nodes of a replica is 9"));
}

// 16 GPUs of two nodes copy 10 GB/s each to their hosts and send 5 GB/s; the storage takes 100 GB/s.
CheckpointPolicy policy_of(CheckpointKind kind, double bytes, bool on_ssd = false) {
  model::ClusterShape cluster;
  cluster.gpus = 16;
  cluster.gpus_per_node = 8;
  cluster.nics_per_node = 8;
  cluster.nic_bandwidth = model::BytesPerSecond{5e9};
  cluster.device.host_bandwidth = model::BytesPerSecond{10e9};
  const CheckpointStorage storage{
      .all = 100e9, .ssd = 200e9, .every = 20, .stall_s = 0.5, .neighbor_stall_s = 0.125, .commit_s = 2};
  return checkpoint_policy(kind, on_ssd, bytes, cluster, storage);
}

TEST(Checkpoint, OfNoBytesStillTakesTime) {
  const CheckpointPolicy asynchronous = policy_of(CheckpointKind::asynchronous, 0);
  EXPECT_EQ(asynchronous.stall_s, 0.5);
  EXPECT_EQ(asynchronous.write_s, 2.5);
  EXPECT_EQ(policy_of(CheckpointKind::synchronous, 0).stall_s, 2.5);
  EXPECT_EQ(policy_of(CheckpointKind::neighbor, 0).write_s, 0.125);
}

TEST(Checkpoint, AddsTheTimesOfItsBytes) {
  constexpr double bytes = 800e9;  // 50 GB a GPU: 5 s to its host, 8 s to the storage, 10 s to a neighbor
  const CheckpointPolicy synchronous = policy_of(CheckpointKind::synchronous, bytes);
  EXPECT_DOUBLE_EQ(synchronous.stall_s, 0.5 + 5 + 8 + 2);
  EXPECT_DOUBLE_EQ(synchronous.write_s, synchronous.stall_s);
  EXPECT_DOUBLE_EQ(synchronous.load_s, 5 + 8);
  const CheckpointPolicy asynchronous = policy_of(CheckpointKind::asynchronous, bytes);
  EXPECT_DOUBLE_EQ(asynchronous.stall_s, 0.5 + 5);
  EXPECT_DOUBLE_EQ(asynchronous.write_s, synchronous.write_s);
  const CheckpointPolicy neighbor = policy_of(CheckpointKind::neighbor, bytes);
  EXPECT_DOUBLE_EQ(neighbor.stall_s, 0.125 + 5);
  EXPECT_DOUBLE_EQ(neighbor.write_s, 0.125 + 5 + 10);
  EXPECT_DOUBLE_EQ(neighbor.storage_write_s, neighbor.write_s + 8 + 2);
  EXPECT_DOUBLE_EQ(policy_of(CheckpointKind::asynchronous, bytes, true).write_s, 0.5 + 5 + 2 + 2);
}

}  // namespace
}  // namespace plumbline::sim
