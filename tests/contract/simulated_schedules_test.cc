// Every registered schedule simulates a whole step, for a mixture of experts and for a dense model.
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "model/schedule/schedule.h"
#include "tests/support/step_inputs.h"

namespace plumbline::sim {
namespace {

// Returns two chunks per rank where a schedule accepts them, else one.
std::int32_t chunks_of(const model::ScheduleKind& kind, std::int32_t ranks) {
  return kind.check({.ranks = ranks, .micro_batches = 2 * ranks, .virtual_stages = 2}) ? 2 : 1;
}

// Returns the step time of each schedule, with layers spread evenly.
std::map<std::string, double> steps(const std::string& plan, std::int32_t ranks) {
  std::map<std::string, double> result;
  for (const model::ScheduleKind* kind : model::schedule_kinds()) {
    const std::string name(kind->name());
    const std::int32_t chunks = chunks_of(*kind, ranks);
    const Inputs inputs = tests::step_inputs(
        plan, "h800",
        {"schedule.kind=" + name, "schedule.layers_per_stage=[]", "schedule.virtual_stages=" + std::to_string(chunks)});
    const auto simulation = simulate(inputs, Fidelity::step, false);
    EXPECT_TRUE(simulation) << name << ": " << (simulation ? "" : to_string(simulation.error()));
    if (!simulation) continue;
    EXPECT_GE(simulation->result.step.time_s, *simulation->result.bound_s) << name;
    result[name] = simulation->result.step.time_s;
  }
  return result;
}

TEST(SimulatedSchedules, MixtureOfExpertsIsFastestWithOverlappedPairs) {
  const auto times = steps(tests::deepseek_plan, 16);
  EXPECT_EQ(times.size(), model::schedule_kinds().size());
  EXPECT_LT(times.at("dualpipe"), times.at("1f1b"));
}

TEST(SimulatedSchedules, DenseModelGainsFromFewerBubbles) {
  const auto times = steps("deepseek-67b-512xh800", 8);
  EXPECT_EQ(times.size(), model::schedule_kinds().size());
  // The makespan is the same. Only the overlapped part of the gradients' reduction differs a little.
  EXPECT_NEAR(times.at("1f1b"), times.at("gpipe"), 0.01 * times.at("gpipe"));
  EXPECT_LT(times.at("interleaved"), times.at("1f1b"));
  EXPECT_LT(times.at("zb-h1"), times.at("1f1b"));
  EXPECT_LT(times.at("zb-h2"), times.at("zb-h1"));
}

// A middle stage runs 120 micro-batches of 69 ms forward and 97 ms backward, and 15 more to fill and drain: (120 + 15)
// * 0.166 = 22.4 s with the layers of the plan, equal in its middle stages. The last stage with two heads takes longer.
TEST(SimulatedSchedules, PlainOneForwardOneBackwardTakesTheTimeByArithmetic) {
  const Inputs inputs =
      tests::step_inputs(tests::deepseek_plan, "h800",
                         {"schedule.kind=1f1b", "schedule.layers_per_stage=[3,4,4,4,4,4,4,4,4,4,4,4,4,4,4,2]"});
  const double seconds = simulate(inputs, Fidelity::step, false).value().result.step.time_s;
  EXPECT_GT(seconds, 24);
  EXPECT_LT(seconds, 28);
}

// Two stages more than layers: the first stage holds the embedding alone, the last one the head.
TEST(SimulatedSchedules, StagesMayHoldNothingButEmbeddingOrHead) {
  constexpr std::int32_t ranks = 8;
  for (const model::ScheduleKind* kind : model::schedule_kinds()) {
    const std::string name(kind->name());
    const std::int32_t chunks = chunks_of(*kind, ranks);
    const model::Schedule outline =
        kind->outline({.ranks = ranks, .micro_batches = 4 * ranks, .virtual_stages = chunks});
    Inputs inputs = tests::step_inputs("deepseek-67b-512xh800", "h800",
                                       {"schedule.kind=" + name, "schedule.virtual_stages=" + std::to_string(chunks)});
    inputs.architecture.layers = outline.stages - 2;
    for (const Fidelity fidelity : {Fidelity::closed_form, Fidelity::step}) {
      const auto simulation = simulate(inputs, fidelity, false);
      ASSERT_TRUE(simulation) << name << ": " << to_string(simulation.error());
      EXPECT_GE(simulation->result.step.time_s, *simulation->result.bound_s) << name;
      EXPECT_GT(simulation->result.memory.peak_bytes, 0) << name;
    }
  }
}

}  // namespace
}  // namespace plumbline::sim
