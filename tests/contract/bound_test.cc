// No step beats its lower bound, and what it loses against it adds up to the step: random plans, every schedule.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "model/random.h"
#include "model/schedule/schedule.h"
#include "sim/simulate.h"
#include "tests/support/step_inputs.h"

namespace plumbline::sim {
namespace {

using Settings = std::vector<std::string>;

std::string choice(model::Random& random, const std::vector<std::string>& values) {
  return values[random.next() % values.size()];
}

std::vector<std::string> schedule_names() {
  std::vector<std::string> names;
  for (const model::ScheduleKind* kind : model::schedule_kinds()) names.emplace_back(kind->name());
  return names;
}

Settings random_settings(model::Random& random, bool experts) {
  const std::string tensor = choice(random, {"1", "1", "2", "8"});
  const std::string schedule = choice(random, schedule_names());
  Settings settings = {
      "parallelism.tensor=" + tensor,
      std::string("parallelism.sequence=") + (tensor == "1" ? "false" : "true"),
      "parallelism.context=" + choice(random, {"1", "1", "2"}),
      "parallelism.context_method=" + choice(random, {"ring", "all-gather"}),
      "parallelism.pipeline=" + choice(random, {"1", "2", "4", "8"}),
      "parallelism.zero_stage=" + choice(random, {"0", "1", "2", "3"}),
      "schedule.kind=" + schedule,
      "schedule.layers_per_stage=[]",
      "schedule.virtual_stages=" +
          std::string(schedule == "gpipe" || schedule == "1f1b" || schedule.starts_with("zb-h") ? "1" : "2"),
      "recompute.policy=" + choice(random, {"none", "full"}),
      "precision.gemm=" + choice(random, {"bf16", "fp8", "fp8_tensor", "fp16", "tf32"}),
      "attention.kernel=" + choice(random, {"fused", "unfused"}),
      "overlap.communication_sms=" + choice(random, {"0", "8", "20", "40"}),
      "overlap.sm_policy=" + choice(random, {"static", "none", "dynamic"}),
      "overlap.tensor=" + choice(random, {"false", "true"}),
      "overlap.gradient_reduce=" + choice(random, {"false", "true"}),
      "overlap.parameter_gather=" + choice(random, {"false", "true"}),
      "optimizer.gradient_clipping=" + choice(random, {"false", "true"}),
      "optimizer.ema=" + choice(random, {"none", "host"}),
      "offload.optimizer=" + choice(random, {"false", "false", "true"}),
      "offload.activations=" + choice(random, {"0.0", "0.0", "0.5"}),
      "cluster.nic_gbps=" + choice(random, {"25", "100", "400", "800"}),
      "batch.global_batch_size=" + choice(random, {"128", "256"}),
      "input.prefetch=" + choice(random, {"false", "true"}),
  };
  if (experts) {
    settings.push_back("parallelism.expert=" + choice(random, {"1", "2", "4", "8"}));
    settings.push_back("routing.imbalance=" + choice(random, {"0.0", "0.1", "0.5"}));
  }
  return settings;
}

double sum_of(const model::StepResult& result) {
  double sum = *result.bound_s;
  for (const model::LostTime& part : result.lost) sum += part.seconds;
  return sum;
}

void expect_account(const model::StepResult& result, const std::string& text) {
  ASSERT_TRUE(result.bound_s) << text;
  const double step = result.step.time_s;
  EXPECT_GT(*result.bound_s, 0) << text;
  EXPECT_LE(*result.bound_s, step) << text;
  EXPECT_NEAR(sum_of(result), step, 1e-9 * step) << text;
  EXPECT_FALSE(result.bound_by.empty());
  for (const model::LostTime& part : result.lost) {
    EXPECT_GT(part.seconds, 0) << part.cause << "\n" << text;
    EXPECT_FALSE(part.remedy.empty()) << part.cause;
  }
  double breakdown = 0;
  for (const auto& part : result.step.breakdown) breakdown += part.seconds;
  if (!result.step.breakdown.empty()) {
    EXPECT_NEAR(breakdown, step, 1e-9 * step) << text;
  }
}

// Returns how many of the plans were valid.
int run_random_plans(const Settings& common, bool experts, std::uint64_t seed, int plans) {
  model::Random random(seed);
  int valid = 0;
  for (int tried = 0; tried < plans; ++tried) {
    Settings settings = common;
    std::string text;
    for (std::string& setting : random_settings(random, experts)) {
      text += setting + " ";
      settings.push_back(std::move(setting));
    }
    const Inputs inputs = tests::step_inputs(tests::llama_plan, "h800", settings);
    const auto events = simulate(inputs, Fidelity::step, false);
    if (!events) {
      EXPECT_EQ(events.error().kind, model::ErrorKind::infeasible) << text << to_string(events.error());
      continue;
    }
    expect_account(events->result, text);
    const auto closed = simulate(inputs, Fidelity::closed_form, false);
    EXPECT_TRUE(closed) << text;
    if (closed) expect_account(closed->result, "closed form: " + text);
    ++valid;
  }
  return valid;
}

TEST(Bound, HoldsAndAddsUpForDenseModels) { EXPECT_GE(run_random_plans({}, false, 21, 150), 60); }

TEST(Bound, HoldsAndAddsUpForMixturesOfExperts) {
  EXPECT_GE(run_random_plans({"model.config=models/mixtral-8x7b.json"}, true, 22, 150), 60);
}

TEST(Bound, HoldsWhereTransfersShareLinks) {
  const Settings slow = {"cluster.nic_gbps=50"};
  for (const Settings& settings :
       {Settings{}, slow, Settings{"schedule.kind=zb-h1"}, Settings{"parallelism.pipeline=4", "schedule.kind=dualpipe"},
        Settings{"model.config=models/mixtral-8x7b.json", "parallelism.expert=8", "cluster.nic_gbps=100"}}) {
    const auto simulation = simulate_on_network(tests::wired_inputs(tests::llama_plan, "h800", settings), false);
    ASSERT_TRUE(simulation) << to_string(simulation.error());
    expect_account(simulation->result, settings.empty() ? "" : settings.front());
  }
}

}  // namespace
}  // namespace plumbline::sim
