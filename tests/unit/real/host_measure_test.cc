#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "model/cost/measured_operators.h"
#include "model/program/program.h"
#include "real/host/measure/case_file.h"
#include "real/host/measure/detail/small_graphs.h"
#include "real/host/measure/measure.h"
#include "real/measure/kernel_case/case_sweep.h"
#include "real/measure/rounds.h"
#include "real/measure/sequence_buffers.h"
#include "real/measure/workload.h"
#include "tests/support/inputs.h"
#include "tests/support/processes.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/tiny_programs.h"

namespace plumbline::real::host {
namespace {

using tests::expect_error;

void expect_refused(const std::string& text, int line, const std::string& key, const std::string& what) {
  const auto read = parse_cases(text, "cases.toml");
  ASSERT_FALSE(read) << text;
  expect_error(read.error(), model::ErrorKind::input, "cases.toml", line, key, what);
}

TEST(HostCases, ASingleValueStandsForAList) {
  const auto file = parse_cases(
      "launch = false\n[[product]]\nm = [16, 64]\nn = 32\nk = 8\ncores = [1, 2]\nformat = \"bf16\"\n"
      "[[plan]]\nplan = \"tiny\"\nset = [\"parallelism.pipeline=2\"]\n"
      "[[collective]]\noperators = \"all_reduce\"\nranks = 2\nbytes = 1024\n",
      "cases.toml");
  ASSERT_TRUE(file) << to_string(file.error());
  EXPECT_FALSE(file->launch);
  ASSERT_EQ(file->grids.size(), 2u);
  EXPECT_EQ(file->grids[0].table, "product");
  EXPECT_EQ(file->grids[0].axes, (std::vector<Numbers>{{16, 64}, {32}, {8}, {1, 2}}));
  EXPECT_EQ(file->grids[0].format, model::Precision::bf16);
  ASSERT_EQ(file->plans.size(), 1u);
  EXPECT_EQ(file->plans[0].plan, "tiny");
  EXPECT_EQ(file->plans[0].set, std::vector<std::string>{"parallelism.pipeline=2"});
  EXPECT_EQ(file->plans[0].cores, Numbers{1});
  EXPECT_EQ(file->plans[0].line, 8);
  EXPECT_EQ(file->grids[1].operators, std::vector<std::string>{"all_reduce"});
}

TEST(HostCases, ErrorsNameLineAndNearestName) {
  const std::string gemm = "[[product]]\nm = 1\nn = 2\nk = 3\n";
  expect_refused(gemm + "core = 1\n", 5, "product.core", "did you mean 'cores'?");
  expect_refused("[[product]]\nm = 1\nn = 2\n", 1, "product.k", "required key is missing");
  expect_refused("[[prodct]]\nm = 1\n", 1, "prodct", "did you mean 'product'?");
  expect_refused("[product]\nm = 1\n", 1, "product", "write each as [[product]]");
  expect_refused(gemm + "cores = 0\n", 5, "product.cores", "whole numbers above 0");
  expect_refused(gemm + "cores = []\n", 5, "product.cores", "whole numbers above 0");
  expect_refused(gemm + "format = \"fp8\"\n", 5, "product.format", "the host computes no 'fp8'");
  expect_refused("[[memory]]\noperators = [\"rmsnrm\"]\nrows = 1\ncolumns = 1\n", 2, "memory.operators",
                 "did you mean 'rmsnorm'?");
  expect_refused("[[collective]]\noperators = \"all_gater\"\nranks = 2\nbytes = 8\n", 2, "collective.operators",
                 "did you mean 'all_gather'?");
  expect_refused("[[plan]]\nplan = 3\n", 2, "plan.plan", "expected a string");
  expect_refused("launch = 1\n", 1, "launch", "true or false");
  expect_refused("m = [\n", 1, "", "end-of-file");
  expect_refused("", 0, "", "holds no case");
}

TEST(HostCases, TheBuiltInSweepCoversAllCores) {
  EXPECT_EQ(built_in_cases(6).grids.at(0).axes.back(), (Numbers{1, 2, 4, 6}));
  EXPECT_EQ(built_in_cases(1).grids.at(0).axes.back(), Numbers{1});
  const auto copies = [](int cores) {
    return std::ranges::count(built_in_cases(cores).grids, "interference", &Grid::table);
  };
  EXPECT_EQ(copies(1), 0) << "a copy with a GEMM takes a core of its own";
  EXPECT_EQ(copies(2), 1);
}

TEST(HostStatistics, OrderStatisticsAndMedianDeviation) {
  // Sorted 1 2 3 4 100: p10 lies 0.4 of the way from 1 to 2, p90 0.6 of the way from 4 to 100. Deviations from 3 are
  // 2 1 0 1 97, their median 1.
  const Spread spread = spread_of({100, 3, 1, 4, 2});
  EXPECT_DOUBLE_EQ(spread.min, 1);
  EXPECT_DOUBLE_EQ(spread.p10, 1.4);
  EXPECT_DOUBLE_EQ(spread.p50, 3);
  EXPECT_DOUBLE_EQ(spread.p90, 61.6);
  EXPECT_DOUBLE_EQ(spread.mad, 1);
  const Spread single = spread_of({2.5});
  EXPECT_DOUBLE_EQ(single.p10, 2.5);
  EXPECT_DOUBLE_EQ(single.p90, 2.5);
  EXPECT_DOUBLE_EQ(single.mad, 0);
}

std::set<std::string> keys_of(const std::vector<model::Graph>& graphs) {
  std::set<std::string> keys;
  for (const model::Graph& graph : graphs) {
    for (const model::Operator& op : graph.operators)
      if (!has_stand_in(op.kind)) keys.insert(model::operator_key(graph, op));
  }
  return keys;
}

// Returns the keys of what is timed on one rank alone, in order.
std::vector<std::string> computed_keys(const std::vector<Workload>& workloads, const std::set<std::string>& between) {
  std::vector<std::string> keys;
  for (const Subject& subject : distinct_subjects(workloads))
    if (!between.contains(subject.op)) keys.push_back(subject.key);
  return keys;
}

TEST(HostWorkloads, APlanBringsEachOperatorOnce) {
  const std::set<std::string> between = {"dispatch",   "dispatch_grad",  "combine",   "combine_grad",
                                         "all_reduce", "reduce_scatter", "all_gather"};
  const model::StepProgram program = tests::tiny_program();
  std::set<std::string> expected = keys_of(program.blocks);
  expected.merge(keys_of(program.stage_optimizers));
  const std::vector<std::string> keys = computed_keys(plan_workloads(program, "tiny", {1}), between);
  EXPECT_EQ(keys.size(), expected.size());
  EXPECT_EQ(std::set<std::string>(keys.begin(), keys.end()), expected);
  EXPECT_EQ(computed_keys(plan_workloads(program, "tiny", {1, 2}), between).size(), 2 * expected.size());
  std::set<std::string> exchanged;
  for (const Subject& subject : distinct_subjects(plan_workloads(program, "tiny", {1})))
    if (between.contains(subject.op)) exchanged.insert(subject.op);
  EXPECT_THAT(exchanged, testing::IsSupersetOf({"dispatch", "dispatch_grad", "combine", "combine_grad"}));
}

TEST(HostWorkloads, AStageRunsForwardThenBackwardThenItsUpdate) {
  const model::StepProgram program = tests::tiny_program();
  const Workload workload = plan_workloads(program, "tiny", {1}).front();
  const auto& stage = std::get<Sequence>(workload);
  std::vector<std::pair<std::size_t, model::Phase>> order;
  for (const Sequence::Step& step : stage.steps) {
    const std::pair place = {step.block, stage.op(step).phase};
    if (order.empty() || order.back() != place) order.push_back(place);
  }
  // An embedding, a dense and a mixture-of-experts layer, then the optimizer; the embedding has no input gradient.
  using enum model::Phase;
  EXPECT_THAT(order,
              testing::ElementsAre(std::pair(0, F), std::pair(1, F), std::pair(2, F), std::pair(2, I), std::pair(2, W),
                                   std::pair(1, I), std::pair(1, W), std::pair(0, W), std::pair(3, W)));
  const std::vector<Subject> subjects = subjects_of(workload);
  EXPECT_TRUE(
      std::ranges::none_of(subjects, [](const Subject& s) { return s.op == "dispatch" || s.op == "all_reduce"; }));
  const auto routed = std::ranges::find(subjects, "tiny/moe_layer/router_choice", &Subject::name);
  ASSERT_NE(routed, subjects.end());
  EXPECT_EQ(routed->format, "fp32");
}

TEST(HostWorkloads, AGemmHasItsGradients) {
  const auto file = parse_cases("launch = false\n[[product]]\nm = 16\nn = 32\nk = 8\n", "cases.toml");
  const std::vector<Subject> subjects = distinct_subjects(workloads_of(*file));
  ASSERT_EQ(subjects.size(), 3u);
  using Shape = std::vector<std::pair<std::string, std::int64_t>>;
  EXPECT_EQ(subjects[0].shape, (Shape{{"m", 16}, {"n", 32}, {"k", 8}, {"groups", 1}}));
  EXPECT_EQ(subjects[1].shape, (Shape{{"m", 16}, {"n", 8}, {"k", 32}, {"groups", 1}}));
  EXPECT_EQ(subjects[2].shape, (Shape{{"m", 32}, {"n", 8}, {"k", 16}, {"groups", 1}}));
  for (const Subject& subject : subjects) {
    EXPECT_EQ(subject.op, "matmul");
    EXPECT_EQ(subject.flops, 2.0 * 16 * 32 * 8);
  }
  EXPECT_EQ(subjects[0].phase, "F");
  EXPECT_EQ(subjects[2].phase, "W");
}

// Every rank sends as many rows as it receives: 16 tokens to 2 experts each, 4 experts of the rank.
TEST(HostContents, ReceivedTokensNameTheRanksExperts) {
  const model::StepProgram program = tests::tiny_program();
  const auto moe = std::ranges::find(program.blocks, "moe_layer", &model::Graph::name);
  ASSERT_NE(moe, program.blocks.end());
  const auto permute = std::ranges::find(moe->operators, model::OperatorKind::permute, &model::Operator::kind);
  const auto rows = moe->tensor(permute->writes[0]).shape[0].size;
  std::vector<std::int64_t> per_expert(4);
  for (const float index : Contents(*moe, 1).values(permute->reads[1])) {
    if (index < 0) continue;
    ++per_expert.at(static_cast<std::size_t>(index));
  }
  for (const std::int64_t count : per_expert) EXPECT_LE(std::abs(count - rows / 4), 1);
  const model::Graph loss = memory_graph("cross_entropy", 64, 16, model::Precision::fp32);
  const std::vector<float> labels = Contents(loss, 1).values(loss.operators[0].reads[1]);
  EXPECT_TRUE(std::ranges::all_of(labels, [](float label) { return label >= 0 && label < 16; }));
  EXPECT_GT(std::set<float>(labels.begin(), labels.end()).size(), 8u);
}

std::vector<Workload> small_workloads() {
  const auto file = parse_cases(
      "[[product]]\nm = 16\nn = 32\nk = 8\ncores = [1, 2]\n[[attention]]\nsequence = 16\nheads = 2\nhead_dim = 8\n"
      "[[memory]]\noperators = [\"rmsnorm\", \"layernorm\", \"swiglu\", \"gelu\", \"add\", \"split\", \"rotary\", "
      "\"sigmoid_gate\", \"cast\", \"cross_entropy\", \"adamw\"]\nrows = 16\ncolumns = 8\nformat = \"bf16\"\n"
      "[[message]]\nbytes = [4, 4096]\n"
      "[[collective]]\noperators = [\"all_reduce\", \"reduce_scatter\", \"all_gather\"]\nranks = [2, 3]\nbytes = 4096\n"
      "[[interference]]\nm = 64\nn = 64\nk = 64\n",
      "cases.toml");
  return workloads_of(file.value());
}

class HostMeasure : public testing::TestWithParam<ClockKind> {};

TEST_P(HostMeasure, EveryCaseHasPositiveSamples) {
  std::vector<Workload> workloads = plan_workloads(tests::tiny_program(), "tiny", {1});
  for (Workload& workload : small_workloads()) workloads.push_back(std::move(workload));
  std::size_t steps = 0, rounds = 0;
  const auto series =
      measure(workloads, {{.clock = GetParam()}, 2, {}, 7}, [&](const MeasureProgress& progress, const auto&) {
        ++steps;
        rounds += progress.round_ended ? 1 : 0;
        return true;
      });
  ASSERT_TRUE(series) << to_string(series.error());
  EXPECT_EQ(steps, 3 * workloads.size());  // the first round warms up
  EXPECT_EQ(rounds, 2u);
  std::set<std::string> found;
  for (const Series& one : *series) {
    found.insert(one.subject.op);
    EXPECT_GE(one.seconds.size(), 1u) << one.subject.key;
    EXPECT_TRUE(std::ranges::all_of(one.seconds, [](double seconds) { return seconds > 0; }));
    EXPECT_EQ(one.copy_rate > 0, one.subject.communication_sms > 0) << one.subject.key;
  }
  EXPECT_EQ(series->size(), distinct_subjects(workloads).size());
  EXPECT_THAT(found, testing::IsSupersetOf({"matmul", "grouped_matmul", "attention", "attention_grad", "router",
                                            "permute", "cross_entropy", "adamw", "message", "all_reduce", "launch"}));
}

INSTANTIATE_TEST_SUITE_P(Clocks, HostMeasure, testing::Values(ClockKind::cpu, ClockKind::wall),
                         [](const auto& clock) { return std::string(to_string(clock.param)); });

TEST(HostMeasureEnds, WhenTheObserverAsksForIt) {
  const auto file = parse_cases("launch = false\n[[message]]\nbytes = [4, 8, 16]\n", "cases.toml");
  const std::vector<Workload> workloads = workloads_of(*file);
  std::size_t steps = 0;
  const auto series =
      measure(workloads, {{.clock = ClockKind::wall}, 100, {}, 1}, [&](const MeasureProgress&, const auto&) {
        return ++steps < 5;  // three of the first round, two of the next
      });
  ASSERT_TRUE(series) << to_string(series.error());
  EXPECT_EQ(steps, 5u);
  EXPECT_EQ(series->size(), 2u);
}

TEST(HostMeasureEnds, WhereTheHostCannotCompute) {
  const std::vector<Workload> workloads = [] {
    Sequence sequence;
    sequence.graphs.push_back(gemm_graph(8, 8, 8, model::Precision::fp8));
    sequence.blocks.push_back({0, ""});
    sequence.steps.push_back({0, 0});
    return std::vector<Workload>{std::move(sequence)};
  }();
  const auto series = measure(workloads, {}, nullptr);
  ASSERT_FALSE(series);
  expect_error(series.error(), model::ErrorKind::infeasible, "", 0, "", "the host has no fp8");
}

}  // namespace
}  // namespace plumbline::real::host

namespace plumbline::real {
namespace {

// The time budget of a sweep of cases.

TEST(MeasureBudget, ReadsDurations) {
  EXPECT_EQ(parse_duration("8m"), 480);
  EXPECT_EQ(parse_duration("90s"), 90);
  EXPECT_EQ(parse_duration("1.5h"), 5400);
  EXPECT_EQ(parse_duration("42"), 42);
  for (const char* wrong : {"", "m", "0", "-3", "8x", "8 m", "nan", "inf", "1e30h"})
    EXPECT_FALSE(parse_duration(wrong).has_value()) << wrong;
}

TEST(MeasureBudget, WhatWouldRunPastTheEndDoesNotFit) {
  double now = 100;
  Budget budget(10, [&] { return now; });
  EXPECT_TRUE(budget.fits(10));
  EXPECT_FALSE(budget.fits(10.1));
  now = 107;
  EXPECT_DOUBLE_EQ(budget.elapsed(), 7);
  EXPECT_DOUBLE_EQ(*budget.left(), 3);
  EXPECT_TRUE(budget.fits(2.9));
  EXPECT_FALSE(budget.fits(3.1));
  now = 111;
  EXPECT_FALSE(budget.fits(0.001));
}

TEST(MeasureBudget, WithoutALimitEverythingFits) {
  const Budget budget(std::nullopt, [] { return 0.0; });
  EXPECT_TRUE(budget.fits(1e9));
  EXPECT_FALSE(budget.left().has_value());
}

TEST(MeasureBudget, EstimatesAreCorrectedByWhatCasesTook) {
  Budget budget(10, [] { return 0.0; });
  // The case is twice as slow as estimated: a correction of 1 * 0.75 + 2 * 0.25 = 1.25, so that exactly 8 s fit.
  budget.spent(1, 2);
  EXPECT_TRUE(budget.fits(8));
  EXPECT_FALSE(budget.fits(8.01));
  // One odd case changes the correction by at most a factor of ten.
  budget.spent(1, 1e6);
  EXPECT_TRUE(budget.fits(1));
  EXPECT_FALSE(budget.fits(1.01));
}

TEST(MeasureBudget, EstimatesGrowWithTheWork) {
  const auto seconds = [](const std::string& line, double floor_s) {
    return estimated_seconds(parse_kernel_case(line).value(), floor_s, 30);
  };
  EXPECT_GT(seconds("copy bytes=1073741824", 447e-6), seconds("copy bytes=1048576", 0.4e-6));
  EXPECT_GT(seconds("gemm phase=F format=bf16 m=64 n=64 k=64 soak=5", 0), 5);
  // Floor 1112 us, twice that, two variants of 30 samples and 5 warm-ups: 0.156 s and a little.
  EXPECT_NEAR(seconds("gemm phase=F format=bf16 m=8192 n=8192 k=8192", 1112e-6), 0.156, 0.12);
  EXPECT_LT(seconds("launch", 0), 1);
  // A case that a device cannot run takes no time beyond the attempt.
  EXPECT_EQ(seconds("launch", -1), seconds("launch", 0));
}

TEST(MeasureBudget, WhatIsSoakedIsSampledInOneGo) {
  EXPECT_EQ(rounds_of(parse_kernel_case("gemm phase=F format=bf16 m=64 n=64 k=64 soak=5").value()), 1U);
  EXPECT_EQ(rounds_of(parse_kernel_case("copy bytes=64").value()), 5U);
}

// The file of records that outlives a killed program.

const std::string device = "NVIDIA H200";

KernelCase gemm() { return parse_kernel_case("gemm name=a/b phase=F format=fp8_block m=128 n=256 k=512").value(); }

std::string measured(const KernelCase& what, const std::string& cache) {
  return fmt::format(
      R"({{"kind":"measurement","device":"{}","case":"{}","cache":"{}","variant":"burst","time_us":{{"p50":1}}}})"
      "\n",
      device, to_line(what), cache);
}

std::string failed(const KernelCase& what) {
  return fmt::format(R"({{"kind":"failure","device":"{}","case":"{}","reason":"why"}})"
                     "\n",
                     device, to_line(what));
}

std::string read(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

TEST(Journal, IsOfOneRunAtATime) {
  const tests::TemporaryDirectory folder;
  const std::string path = (folder.path() / "records.jsonl").string();
  const auto first = Journal::open(path, device);
  ASSERT_TRUE(first);
  const auto second = Journal::open(path, device);
  ASSERT_FALSE(second);
  EXPECT_NE(second.error().message.find("another run measures into it"), std::string::npos);
}

TEST(MeasureJournal, ASecondRunContinuesAfterTheFirst) {
  const tests::TemporaryDirectory folder;
  const std::string path = folder.path() / "m.jsonl";
  const KernelCase failing = parse_kernel_case("copy bytes=64").value();
  {
    const auto journal = Journal::open(path, device);
    ASSERT_TRUE(journal) << to_string(journal.error());
    EXPECT_FALSE((*journal)->complete(gemm()));
    EXPECT_TRUE((*journal)->append(measured(gemm(), "hot")));
    EXPECT_FALSE((*journal)->complete(gemm()));  // the cold variant is missing
    EXPECT_TRUE((*journal)->append(measured(gemm(), "cold")));
    EXPECT_TRUE((*journal)->append(failed(failing)));
  }
  {
    const auto journal = Journal::open(path, device);
    ASSERT_TRUE(journal) << to_string(journal.error());
    EXPECT_EQ((*journal)->found(), 2u);
    EXPECT_TRUE((*journal)->complete(gemm()));
    EXPECT_TRUE((*journal)->failed(failing));
    EXPECT_FALSE((*journal)->complete(failing));
  }
  // The other device has no measurements yet.
  const auto other = Journal::open(path, "NVIDIA H100");
  ASSERT_TRUE(other) << to_string(other.error());
  EXPECT_EQ((*other)->found(), 0u);
  EXPECT_FALSE((*other)->complete(gemm()));
}

TEST(MeasureJournal, AnUnfinishedLastLineIsCutOff) {
  const tests::TemporaryDirectory folder;
  const std::string whole = measured(gemm(), "hot");
  const std::string torn = measured(gemm(), "cold").substr(0, 100);
  const auto path = folder.write("m.jsonl", whole + torn);
  const auto journal = Journal::open(path, device);
  ASSERT_TRUE(journal) << to_string(journal.error());
  EXPECT_EQ(read(path), whole);
  EXPECT_EQ((*journal)->found(), 1u);
  ASSERT_TRUE((*journal)->append("{\"next\":1}\n"));
  EXPECT_EQ(read(path), whole + "{\"next\":1}\n");
}

TEST(MeasureJournal, AKilledProgramLosesNothingThatWasWritten) {
  const tests::TemporaryDirectory folder;
  const std::string path = folder.path() / "m.jsonl";
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = tests::start_child([&] {
    const auto journal = Journal::open(path, device);
    const bool written = journal && (*journal)->append(measured(gemm(), "hot"));
    const char signal = written ? 'y' : 'n';
    static_cast<void>(!write(ready[1], &signal, 1));
    pause();
  });
  close(ready[1]);  // else the end of the child would not end the wait for it
  char signal = 0;
  ASSERT_EQ(::read(ready[0], &signal, 1), 1);
  EXPECT_EQ(signal, 'y');
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  close(ready[0]);
  const auto journal = Journal::open(path, device);
  ASSERT_TRUE(journal) << to_string(journal.error());
  EXPECT_TRUE((*journal)->has(subjects_of(gemm())[0]));
  EXPECT_FALSE((*journal)->has(subjects_of(gemm())[1]));
}

TEST(MeasureJournal, AFileThatCannotBeOpenedIsNamed) {
  const auto journal = Journal::open("/nowhere/m.jsonl", "x");
  ASSERT_FALSE(journal);
  EXPECT_EQ(journal.error().kind, model::ErrorKind::input);
  EXPECT_EQ(journal.error().file, "/nowhere/m.jsonl");
}

}  // namespace
}  // namespace plumbline::real
