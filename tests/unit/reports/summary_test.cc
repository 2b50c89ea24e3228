#include "reports/text/step/summary.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "reports/text/table.h"
#include "tests/support/example_result.h"
#include "tests/support/text_parts.h"

namespace plumbline::reports {
namespace {

const std::vector<Comparison> summarised_figures = {
    {"step time", "s", 20.0, 19.926, "arXiv 2412.19437 and the published profile of one step", ""},
    {"GPU-hours, pretraining", "h", 2.677e6, 2.664e6, "arXiv 2412.19437, table 1", ""}};

TEST(Summary, ExplainsErrorsAndReductionsThatNothingHides) {
  model::StepResult result = support::example_result();
  result.step.exposed_gradient_reduce_s = 0.01 * result.step.time_s;
  const std::string_view reductions = "Reductions of gradients";
  EXPECT_EQ(summary(result, support::example_plan(), summarised_figures).find(reductions), std::string::npos);
  result.step.exposed_gradient_reduce_s = 0.2 * result.step.time_s;
  std::vector<Comparison> figures = summarised_figures;
  figures.front().note = "a known cause.";
  const std::string text = summary(result, support::example_plan(), figures);
  EXPECT_NE(text.find(reductions), std::string::npos);
  EXPECT_NE(text.find("Error of the step time: a known cause."), std::string::npos);
}

TEST(Summary, ColoursOnlyWhenAsked) {
  const auto result = support::example_result();
  const auto plan = support::example_plan();
  EXPECT_EQ(summary(result, plan, summarised_figures).find('\x1b'), std::string::npos);
  const std::string colored = summary(result, plan, summarised_figures, {.color = true});
  EXPECT_NE(colored.find("\x1b[1mMemory"), std::string::npos);
}

TEST(Summary, HasWhatIsAssumedOfTheSoftwareInItsHead) {
  auto result = support::example_result();
  EXPECT_EQ(summary(result, support::example_plan()).find("assumed: "), std::string::npos);
  result.assumed = {
      {"stack.dispatcher", "dispatcher", "alltoall", "hybridep", "stack.dispatcher=hybridep", "", 0.69},
      {"stack.dispatch_overlap", "overlap of dispatch", "", "off", "stack.dispatch_overlap=false", "", 1.2}};
  const std::string text = summary(result, support::example_plan());
  EXPECT_LE(tests::longest_line(text), terminal_width) << text;
  EXPECT_NE(text.find("\nassumed: dispatcher alltoall (hybridep: -31.0 %), overlap of dispatch (off:\n+20.0 %)\n"),
            std::string::npos)
      << text;
}

TEST(Summary, LeadsWithTheInterval) {
  auto result = support::example_result();
  result.interval = support::example_interval();
  const std::string text = summary(result, support::example_plan(), summarised_figures);
  EXPECT_LE(tests::longest_line(text), terminal_width) << text;
  tests::expect_parts(text,
                      {"step time              21.00 s  8 of 10 take 19.00 to 24.00 s",
                       "from components        20.00 s  divided below; lower bound 11.90 s",
                       "Measured steps took 1.07 times what is predicted (531 steps of 5 sets).",
                       "Peak as clusters run it: 56.0 to 61.0 GB in eight of ten cases.",
                       "GPU-hours                           2,540,000   2,810,000   3,210,000",
                       // (24 - 19) / 2 / 21
                       "±11.9 %, from 128 draws", "what is left       50.0 %  a step of your stack on 8 GPUs", "±6.0 %",
                       // the ninth and tenth source
                       "Others: memory-bound shapes 1.4 %, software stack 1.4 %."});
  const std::string without = summary(support::example_result(), support::example_plan(), summarised_figures);
  for (const char* part : {"clusters run it", "from components", "uncertainty"})
    EXPECT_EQ(without.find(part), std::string::npos) << part;
}

TEST(Csv, HasAllQuantilesAndParts) {
  auto result = support::example_result();
  EXPECT_NE(to_csv(result).find("interval.gpu_hours.p50,,h"), std::string::npos);
  result.interval = support::example_interval();
  const std::string text = to_csv(result);
  tests::expect_parts(
      text, {"interval.time_s.p90,24,s", "interval.peak_bytes.p10,56000000000,B", "interval.fits_probability,0.998,1",
             "interval.parts.GEMM constants.share,0.1,1", "interval.parts.expert load.half_width_after,,1"});
}

TEST(Summary, LeavesOutWhatWasNotComputed) {
  auto result = support::example_result();
  result.bound_s.reset();
  result.run.reset();
  result.step.bubble_s.reset();
  result.step.exposed_communication_s.reset();
  result.step.breakdown.clear();
  const std::string text = summary(result, support::example_plan());
  for (const char* part :
       {"lower bound", "loses against", "The whole run", "bubble", "waits for", "By class", "Predicted beside"})
    EXPECT_EQ(text.find(part), std::string::npos) << part;
}

TEST(Summary, GivesTheReasonWhyThereIsNoPrice) {
  auto result = support::example_result();
  result.run->rent = {std::nullopt, "the cluster does not state price.rent"};
  result.run->cost_usd.reset();
  result.run->total_cost_usd.reset();
  result.run->power_w = {std::nullopt, "the cluster does not state power.host"};
  const std::string text = summary(result, support::example_plan());
  EXPECT_NE(text.find("price.rent"), std::string::npos) << text;
  EXPECT_NE(text.find("Energy: unknown, the cluster does not state power.host"), std::string::npos) << text;
  EXPECT_EQ(text.find("$5,592,000"), std::string::npos) << text;
}

TEST(Summary, NamesTheRankOverTheCapacity) {
  auto memory = support::example_result().memory;
  memory.ranks[3].peak_bytes = memory.peak_bytes = 95.1e9;
  memory.fits = false;
  const std::string text = memory_summary(memory);
  EXPECT_NE(text.find("DOES NOT FIT: peak 95.1 GB of 84.9 GB."), std::string::npos) << text;
  EXPECT_NE(text.find("over"), std::string::npos);
}

TEST(Summary, ShowsTheFullestOfManyRanks) {
  auto memory = support::example_result().memory;
  const auto sixteen = memory.ranks;
  for (std::int64_t copy = 1; copy < 4; ++copy) {
    for (auto rank : sixteen) {
      rank.rank += 16 * copy;
      memory.ranks.push_back(rank);
    }
  }
  const std::string text = memory_summary(memory);
  EXPECT_LE(tests::longest_line(text), terminal_width) << text;
  EXPECT_NE(text.find("The 16 fullest of 64 ranks"), std::string::npos);
}

TEST(Format, NumbersAsPeopleReadThem) {
  EXPECT_EQ(grouped(2664000), "2,664,000");
  EXPECT_EQ(grouped(999.6), "1,000");
  EXPECT_EQ(grouped(-12345), "-12,345");
  EXPECT_EQ(grouped(-0.2), "0");
  EXPECT_EQ(number(20), "20.00");
  EXPECT_EQ(number(5000), "5,000");
  EXPECT_EQ(number(999.96), "1,000");
  EXPECT_EQ(number(999.94), "999.9");
  EXPECT_EQ(number(0), "0.000");
  EXPECT_EQ(number(2.664e6), "2,664,000");
  EXPECT_EQ(number(3.3e-9), "3.3e-09");
  EXPECT_EQ(duration(19.926), "19.93 s");
  EXPECT_EQ(duration(0.129), "129.0 ms");
  EXPECT_EQ(duration(1.2e-5), "12.00 us");
  EXPECT_EQ(scaled(14.8e12), "14.80 T");
  EXPECT_EQ(scaled(512), "512");
  EXPECT_EQ(gigabytes(84943110144.0), "84.9");
  EXPECT_EQ(signed_percent(-0.0123), "-1.2 %");
}

}  // namespace
}  // namespace plumbline::reports
