// A production fleet of simulated jobs next to what ByteDance published of its own: 10.4 % of GPU-hours lost to
// stragglers, 21.3 % and more in the worst decile of jobs (straggler.bytedance.* of straggler_priors.toml). No prior is
// one of these figures. As there, the loss of a job is 1 - 1 / S, with S its step over that without slow ranks, jitter,
// uneven micro-batches and uneven stages.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "model/base/random.h"
#include "sim/cluster/cluster_step.h"
#include "sim/cluster/fleet_priors.h"
#include "tests/support/step_inputs.h"

namespace plumbline::tests {
namespace {

constexpr int jobs = 40;

// How much the jobs of a fleet suffer from what is not known well: every prior at one end of its range, or its middle.
struct Severity {
  const char* name;
  double sim::Prior::*end;
  // Part of the jobs with packed documents of uneven length: one of the three published traces of ByteDance has them;
  // the ends are assumed.
  double packed;
  // Part of the jobs whose layers are spread evenly over stages although the first and last hold embedding and head;
  // others are split by time. Nothing is published: from none to all.
  double evenly_split;
};

const std::vector<Severity> severities = {{"low", &sim::Prior::low, 0.1, 0},
                                          {"middle", &sim::Prior::middle, 1 / 3.0, 0.5},
                                          {"high", &sim::Prior::high, 0.6, 1}};

// Pretraining jobs of dense models of 8 to 72 billion parameters on 128 to 512 GPUs. Long sequences are packed of
// documents whose mean length is a sixteenth to a half of them.
std::vector<std::string> job_of(model::Random& random, const Severity& severity) {
  const auto pick = [&](std::initializer_list<const char*> values) {
    return std::string(*(values.begin() + random.next() % values.size()));
  };
  const std::string gpus = pick({"128", "256", "512"}), pipeline = pick({"2", "4", "8"}),
                    tensor = pick({"2", "4", "8"});
  const std::string model = pick({"llama-3-8b", "qwen3-32b", "deepseek-67b", "llama-3-70b", "qwen2.5-72b"});
  const bool evenly = random.uniform() < severity.evenly_split;
  std::vector<std::string> keys = {
      "model.config=models/" + model + ".json",
      std::string("schedule.layers_per_stage=") + (evenly ? "even" : "balanced"),
      "cluster.gpus=" + gpus,
      "cluster.fleet=stragglers",
      "parallelism.pipeline=" + pipeline,
      "parallelism.tensor=" + tensor,
      "schedule.virtual_stages=1",
      fmt::format("cluster.speed_deviation={}", sim::speed_deviation.*severity.end),
      fmt::format("cluster.jitter={}", std::log1p(sim::operation_p90.*severity.end) / 1.2816)};
  const double long_sequence = 32768;
  const bool packed = random.uniform() < severity.packed;
  const double length = long_sequence * std::exp2(-1 - 3 * random.uniform());
  const auto micro_batches = static_cast<int>(16 * std::exp2(random.next() % 3));  // of each replica
  keys.push_back(fmt::format("batch.global_batch_size={}",
                             micro_batches * std::stoi(gpus) / std::stoi(pipeline) / std::stoi(tensor)));
  if (packed) {
    keys.push_back(fmt::format("batch.sequence_length={}", long_sequence));
    keys.push_back(fmt::format("batch.document_length={}", std::round(length)));
  }
  return keys;
}

// Returns the lost share of a job's GPU-hours.
double loss_of(const std::vector<std::string>& keys, std::uint64_t seed) {
  const auto simulation =
      sim::simulate_cluster(step_inputs(llama_plan, shipped_profile("h800"), keys), {.seeds = 1, .seed = seed});
  EXPECT_TRUE(simulation.has_value()) << simulation.error().message << fmt::format("{}", fmt::join(keys, " "));
  if (!simulation) return 0;
  double without = simulation->result.step.time_s;
  for (const model::BubblePart& part : simulation->result.cluster->bubble)
    if (part.cause != "point-to-point" && part.cause != "schedule") without -= part.step_s;
  return 1 - without / simulation->result.step.time_s;
}

struct FleetLoss {
  double mean = 0, worst_decile = 0;
};

FleetLoss simulated_fleet(const Severity& severity) {
  std::vector<double> losses;
  model::Random random(1);
  for (int job = 0; job < jobs; ++job) losses.push_back(loss_of(job_of(random, severity), 100 + job));
  const model::Quantiles quantiles = model::quantiles_of(losses);
  FleetLoss loss{0, quantiles.p90};
  for (const double one : losses) loss.mean += one / jobs;
  fmt::print("{} priors: {:.1f} % of GPU-hours lost, worst decile {:.1f} %, median {:.1f} %\n", severity.name,
             100 * loss.mean, 100 * loss.worst_decile, 100 * quantiles.p50);
  return loss;
}

TEST(StragglerFleet, PublishedLossLiesWithinTheRangeOfPriors) {
  std::vector<FleetLoss> fleets;
  for (const Severity& severity : severities) fleets.push_back(simulated_fleet(severity));
  fmt::print("published: 10.4 % of GPU-hours, worst decile 21.3 % and more\n");
  EXPECT_LT(fleets.front().mean, 0.104);
  EXPECT_GT(fleets.back().mean, 0.104);
  EXPECT_LT(fleets.front().worst_decile, 0.213);
  EXPECT_GT(fleets.back().worst_decile, 0.213);
}

}  // namespace
}  // namespace plumbline::tests
