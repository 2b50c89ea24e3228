#include <gtest/gtest.h>

#include <string>

#include "reports/text/step/sections.h"
#include "reports/text/step/summary.h"
#include "reports/text/table.h"
#include "tests/support/example_result.h"
#include "tests/support/text_parts.h"

namespace plumbline::reports {
namespace {

using enum model::MeasuredVerdict;

std::string sentence(model::MeasuredVerdict verdict, double share_below) {
  model::MeasuredStep measured;
  measured.verdict = verdict;
  measured.share_below = share_below;
  return verdict_sentence(measured, 11.6);
}

TEST(MeasuredReport, HasAVerdictInOneSentence) {
  EXPECT_EQ(sentence(as_predicted, 0.34), "As predicted: 34 % of such runs are faster.");
  EXPECT_EQ(sentence(slower, 0.973),
            "Slower than 97 of 100 such runs: look for what runs otherwise than the plan says.");
  EXPECT_TRUE(sentence(slower, 0.99999).starts_with("Slower than at least 99 of 100 such runs"));
  EXPECT_TRUE(sentence(faster, 0.04).starts_with("Faster than 96 of 100 such runs: look for"));
  EXPECT_TRUE(
      sentence(impossible, 0).starts_with("Faster than what the hardware allows: below the lower bound of 11.60 s."));
}

TEST(MeasuredReport, HasAVerdictOfMemory) {
  EXPECT_EQ(memory_verdict({58e9, 0.5}), "As predicted: 50 % of such runs take less.");
  EXPECT_TRUE(memory_verdict({70e9, 0.95}).starts_with("More than in 95 of 100 such runs"));
  EXPECT_TRUE(memory_verdict({40e9, 0.02}).starts_with("Less than in 98 of 100 such runs"));
}

// The step is 22 s, and the rate of its log means 22.44 s, or twice that.
TEST(MeasuredReport, ALogIsDescribed) {
  model::StepResult result = support::example_result();
  result.interval = support::example_interval();
  result.measured = {.given = "train.log",
                     .time_s = 22,
                     .share_below = 0.67,
                     .memory = model::MeasuredMemory{60e9, 0.8, model::MemoryCount::reserved, 3e9},
                     .log = model::MeasuredLog{.format = "Megatron-LM",
                                               .steps = 97,
                                               .warm_up = 1,
                                               .pauses = 2,
                                               .low = 0.95,
                                               .high = 1.05,
                                               .tflops = 400,
                                               .count = model::RateConvention{"model FLOPs, full attention", 22.44}}};
  const auto text = [&] { return tests::one_line(measured_section(result)); };
  EXPECT_NE(
      text().find("A log of Megatron-LM: the median of 97 lines of steps, P10 to P90 20.90 s to 23.10 s; left out "
                  "are 1 of warm-up, 2 of pauses. Its 400.0 TFLOP/s are model FLOPs, full attention (+2 %)."),
      std::string::npos)
      << text();
  EXPECT_NE(text().find("Memory: 60.0 GB (57.0 reserved, and 3.0 around it as predicted) where"), std::string::npos);
  result.measured->log->count->time_s = 44;
  EXPECT_NE(text().find("(+100 %) at best: look whether the log is of this plan's model."), std::string::npos);
}

}  // namespace
}  // namespace plumbline::reports
