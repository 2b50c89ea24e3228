#include "reports/text/step/summary.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "reports/json/json.h"
#include "reports/json/read_json.h"
#include "reports/text/step/sections.h"
#include "reports/text/table.h"
#include "tests/support/example_result.h"
#include "tests/support/text_parts.h"

namespace plumbline::reports {
namespace {

using enum model::MeasuredVerdict;

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

TEST(Summary, SaysHowAPlanFitsThatFillsTheDevice) {
  auto result = support::example_result();
  result.interval = support::example_interval();
  result.interval->peak_bytes = {84e9, 90e9, 95e9};
  EXPECT_NE(tests::one_line(summary(result, support::example_plan()))
                .find("84.0 to 95.0 GB in eight of ten cases, on a device without limit: before it fails, the "
                      "allocator returns what it holds unused."),
            std::string::npos);
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

model::StepResult cluster_result() {
  model::StepResult result = support::example_result();
  result.fidelity = "cluster";
  result.cluster = model::ClusterSpread{.gpus = 2048,
                                        .seeds = 4,
                                        .step_s = {19.5, 20, 20.5},
                                        .mean_step_s = 20,
                                        .even_step_s = 19,
                                        .compute_s = {16, 16.5, 17},
                                        .wait_s = {2, 2.5, 3},
                                        .rank_wait_s = {2, 3, 2.5},
                                        .bubble = {{"slow ranks", -0.25, 0.5}, {"schedule", 2.3, 2.3}},
                                        .events = 123456,
                                        .priors = {"speed of GPUs <0.5 %>"}};
  return result;
}

const std::vector<Comparison> published = {{"bubble", "s", 2.05, 2.06, "a table", ""}};

TEST(ClusterReport, SaysWhatWasDrawnAndWhatItCosts) {
  const std::string text = summary(cluster_result(), support::example_plan(), published);
  tests::expect_parts(
      text, {"Every GPU of the cluster", "Mean of 4 drawn fleets of 2,048 GPUs, slot by slot", "19.50 to 20.50 s",
             "alike 19.00 s", "slow ranks", "-0.250 s", "0.500 s", "2.050 s", "published", "2.060 s",
             "rank 0 wait least (2.000 s), those of rank 1 most (3.000 s)", "<0.5 %>"});
  EXPECT_LE(tests::longest_line(text), terminal_width) << text;
}

TEST(ClusterReport, IsReadBackFromJson) {
  const std::string text = to_json(cluster_result(), support::example_plan());
  const auto stored = read_result(text, "result.json");
  ASSERT_TRUE(stored.has_value()) << stored.error().message;
  ASSERT_TRUE(stored->result.cluster.has_value());
  EXPECT_EQ(to_json(stored->result, support::example_plan()).find("\"cluster\": null"), std::string::npos);
  const model::ClusterSpread read = *stored->result.cluster, written = *cluster_result().cluster;
  EXPECT_EQ(read.step_s, written.step_s);
  EXPECT_EQ(read.rank_wait_s, written.rank_wait_s);
  EXPECT_EQ(read.events, written.events);
  EXPECT_EQ(read.priors, written.priors);
  ASSERT_EQ(read.bubble.size(), 2u);
  EXPECT_EQ(read.bubble[0].cause, "slow ranks");
  EXPECT_EQ(read.bubble[0].step_s, 0.5);
  const auto without = nlohmann::json::parse(to_json(support::example_result(), support::example_plan()));
  EXPECT_TRUE(without["cluster"].is_null());
}

TEST(ClusterReport, HasRowsInCsv) {
  const std::string csv = to_csv(cluster_result());
  tests::expect_parts(csv, {"cluster.step_s.p90,20.5,s", "cluster.rank_wait_s.1,3,s",
                            "cluster.bubble.slow ranks.seconds,-0.25,s", "cluster.seeds,4,1"});
}

// What a prediction rests on, by origin of its constants.

model::StepResult with_constants() {
  using enum model::Evidence;
  model::StepResult result = support::example_result();
  const auto constant = [](const char* name, model::Evidence kind, const char* source, double share,
                           const char* stack = "") {
    return model::ProvenanceEntry{{.name = name, .kind = kind, .source = source, .stack = stack}, share};
  };
  result.provenance = {constant("gemm.bf16.k_time", fitted, "two thirds of 400 GEMMs", 0.5),
                       constant("memory.norm.bandwidth", assumed, "as h100 (2.9 TB/s, measured); the same memory", 0.2),
                       constant("network.nic_rate", assumed, "as exchange.dispatch.nic_rate (47.8 GB/s, fitted)", 0.1),
                       constant("exchange.notify", assumed, "as h100 (3.7 us, assumed), by device.sms 148/132", 0.06),
                       constant("collective.ring.ll.network_hop", published, "NCCL src/graph/tuning.cc", 0.05),
                       constant("kernel.rmsnorm.passes", fitted, "three steps", 0.04, "mine")};
  return result;
}

TEST(Coverage, DividesAStepByWhereItsConstantsComeFrom) {
  const model::StepResult result = with_constants();
  const model::Plan plan = support::example_plan();
  const std::string own = "h800-sxm", other = "h20-sxm";
  const std::vector<std::string> devices = {own};
  const std::string csv = coverage_csv({result, plan, own, devices});
  tests::expect_parts(
      csv, {"GEMMs,gemm.bf16.k_time,this GPU,fitted,0.5", "memory-bound kernels,memory.norm.bandwidth,another GPU",
            "collectives,network.nic_rate,assumed", "dispatch and combine,exchange.notify,assumed",
            "collectives,collective.ring.ll.network_hop,stated", "software,kernel.rmsnorm.passes,this GPU"});
  const std::string text = coverage_text({result, plan, own, devices});
  tests::expect_parts(
      text, {"nccl-tests", "Not measured on this GPU (4 of 4):", "as h100 (2.9 TB/s, measured); the same memory"});
  // What holds for one GPU was not measured on another.
  EXPECT_NE(coverage_csv({result, plan, other, devices}).find("gemm.bf16.k_time,another GPU"), std::string::npos);
  EXPECT_NE(coverage_csv({result, plan, other, {}}).find("gemm.bf16.k_time,this GPU"), std::string::npos);
}

// The bubble and the optimizer rest on all constants. Of what is left below a thousandth there is no row.
TEST(Coverage, AddsUpToTheStep) {
  model::StepResult result = with_constants();
  const std::string device = "h800-sxm";
  const auto row = [&](const std::string& name) {
    const std::string text = coverage_text({result, support::example_plan(), device, {}});
    const std::size_t begin = text.find("\n  " + name + "  ");
    return begin == std::string::npos ? "" : text.substr(begin, text.find('\n', begin + 1) - begin);
  };
  EXPECT_NE(row("not divided").find(" 5.0 %"), std::string::npos) << row("not divided");
  EXPECT_NE(row("step").find("100.0 %"), std::string::npos) << row("step");
  result.provenance.front().share_of_step += 0.0499;
  EXPECT_EQ(row("not divided"), "");
}

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

// Parameters 20, gradients 20, optimizer 10, reserve 10 GB, and three ops with 0, 30 and 10 GB of activations; 1 GB of
// temporary tensors at the second.
model::RankLevels three_ops() {
  model::RankLevels levels;
  levels.rank.parameters_bytes = levels.rank.gradients_bytes = 20e9;
  levels.rank.optimizer_bytes = levels.rank.reserve_bytes = 10e9;
  for (const double activations : {0.0, 30e9, 10e9}) {
    model::MemoryLevel level{"x of y in F of micro-batch 0", "F"};
    level.activations_bytes = activations;
    level.temporary_bytes = activations == 30e9 ? 1e9 : 0;
    level.total_bytes = 60e9 + activations + level.temporary_bytes;
    levels.ops.push_back(level);
  }
  levels.fullest = 1;
  levels.rank.peak_bytes = 91e9;
  return levels;
}

std::string line_with(const std::string& text, const std::string& start) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with(start)) return line;
  return "";
}

TEST(MemoryPlot, StacksWhatStaysBelowWhatComesAndGoes) {
  // 18 rows of 5 GB up to the capacity of 90 GB, each op a third of 72 columns; the letter is that at the row's middle.
  model::RankLevels levels = three_ops();
  levels.rank.peak_bytes = 89e9;
  levels.ops[1].activations_bytes = 28e9;
  const std::string text = memory_plot(levels, 90e9);
  EXPECT_EQ(line_with(text, "   0.0 |"), "   0.0 |" + std::string(72, 'p'));
  EXPECT_EQ(line_with(text, "  30.0 |"), "  30.0 |" + std::string(72, 'g'));
  EXPECT_EQ(line_with(text, "  45.0 |"), "  45.0 |" + std::string(72, 'o'));
  // At 62.5 GB the first op holds nothing, the others activations; at 77.5 only the second does.
  EXPECT_EQ(line_with(text, "  60.0 |"), "  60.0 |" + std::string(24, ' ') + std::string(48, 'a'));
  EXPECT_EQ(line_with(text, "  75.0 |"), "  75.0 |" + std::string(24, ' ') + std::string(24, 'a'));
  EXPECT_EQ(line_with(text, "  90.0 +"), "  90.0 +" + std::string(72, '-'));
  EXPECT_NE(text.find("op 0"), std::string::npos);
  EXPECT_NE(text.find("op 2"), std::string::npos);
}

TEST(MemoryPlot, ShowsWhatIsAboveTheCapacity) {
  // Rows of 91 / 18 GB; the line of the capacity of 70 GB crosses the second op.
  const std::string text = memory_plot(three_ops(), 70e9);
  EXPECT_EQ(line_with(text, "  70.0 +"),
            "  70.0 +" + std::string(24, '-') + std::string(24, 'a') + std::string(24, '-'));
  EXPECT_LE(tests::longest_line(text), 80u) << text;
}

TEST(MemoryPlot, NothingWithoutOps) { EXPECT_EQ(memory_plot({}, 80e9), ""); }

TEST(MemoryAdviceText, ListsChangesOrTheClosest) {
  model::MemoryAdvice advice;
  advice.tried = 7;
  advice.fitting.push_back({{"a.b=1", "c.d=2"}, 80e9, "x", 70e9, 1.5e9, 12e9, 0.953, 4.5e9, 1.042});
  advice.fitting.push_back({{"e.f=4"}, 79e9, "x", 72e9, 3e9, 3e9, 1, 1e9});
  std::string text = memory_advice(advice, 80e9);
  tests::expect_parts(text, {"a.b=1, c.d=2  +4.2 %     70.0  1.5 to 12.0     4.5     95.3 %\n",
                             "e.f=4              -     72.0          3.0     1.0     > 99 %\n", "2 of the 7 changes"});
  advice.fitting.clear();
  advice.closest = model::MemoryChange{{"e.f=3"}, 81e9, "x"};
  advice.closest->fits_probability = 0.4;
  text = memory_advice(advice, 80e9);
  EXPECT_NE(text.find("None of the 7 changes"), std::string::npos) << text;
  EXPECT_NE(text.find("Closest: e.f=3, which fits with 40.0 %: 81.0 GB of 80.0 GB."), std::string::npos) << text;
}

TEST(MemoryChart, HasAPointForEveryOpAndMarksThePeak) {
  const LineChart chart = memory_chart(three_ops(), 80e9, "llama");
  ASSERT_EQ(chart.panels.size(), 2u);
  for (const LineChart::Panel& panel : chart.panels)
    for (const LineChart::Series& series : panel.series) EXPECT_EQ(series.points.size(), 3u) << series.name;
  EXPECT_EQ(chart.panels[0].series[0].points[1].y, 91.0);
  ASSERT_EQ(chart.marks.size(), 1u);
  EXPECT_EQ(chart.marks[0].x, 1);
  EXPECT_EQ(chart.marks[0].y, 91);
}

TEST(MemorySummary, StatesWhatIsNeededWhereTheAllocatorFillsTheDevice) {
  // Two ranks that their allocators fill. The second needs more when unused segments are returned.
  model::Memory memory;
  memory.peak_bytes = memory.capacity_bytes = 80e9;
  for (const double least : {70e9, 76e9}) {
    model::RankMemory rank;
    rank.rank = static_cast<std::int64_t>(memory.ranks.size());
    rank.peak_bytes = rank.high_bytes = 80e9;
    rank.low_bytes = least;
    rank.allocated_bytes = least - 3e9;
    rank.segments_bytes = 78e9;
    rank.library_bytes = 2e9;
    rank.unused_low_bytes = 1e9;
    rank.unused_high_bytes = 5e9;
    memory.ranks.push_back(rank);
  }
  const std::string text = memory_summary(memory);
  EXPECT_NE(text.find("Fits: rank 1 needs 73.0 GB of tensors and 3.0 to 7.0 GB more, of 80.0 GB;\n  margin 4.0 GB."),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("80.0  10.0\n"), std::string::npos) << text;
}

TEST(MemorySummary, StatesTheTensorsOfAPlanThatDoesNotFit) {
  model::Memory memory;
  memory.peak_bytes = 85e9;
  memory.capacity_bytes = 80e9;
  memory.fits = false;
  model::RankMemory rank;
  rank.peak_bytes = rank.low_bytes = rank.high_bytes = 85e9;
  rank.allocated_bytes = 79e9;
  rank.segments_bytes = 81e9;
  rank.library_bytes = 4e9;
  memory.ranks = {rank};
  const std::string text = memory_summary(memory);
  EXPECT_NE(
      text.find("DOES NOT FIT: rank 0 needs 79.0 GB of tensors and 4.0 GB more, of 80.0 GB; too\n  much: 5.0 GB."),
      std::string::npos)
      << text;
}

}  // namespace
}  // namespace plumbline::reports
