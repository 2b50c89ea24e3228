#include "sim/whatif/sweep.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "sim/interval/interval.h"
#include "sim/whatif/range.h"
#include "tests/support/step_inputs.h"

namespace plumbline::sim {
namespace {

using SweptValues = std::vector<std::optional<double>>;
using model::to_string;

// The shipped llama plan over micro-batch sizes, of which the fourth does not fit in memory. In place of the third
// stands a tensor degree that divides nothing.
model::Result<Inputs> llama_point(std::size_t point) {
  const std::string key = point == 2 ? "parallelism.tensor" : "batch.micro_batch_size";
  return tests::step_inputs(tests::llama_plan, "h800", {key + "=" + std::to_string(point + 1)});
}

std::vector<model::Result<SweepPoint>> sweep_with(unsigned threads) {
  return sweep(4, llama_point, {.fidelity = Fidelity::step, .threads = threads}).value();
}

TEST(Sweep, IsTheSameForAnyNumberOfThreads) {
  const auto one = sweep_with(1), four = sweep_with(4);
  ASSERT_EQ(one.size(), 4u);
  for (std::size_t i = 0; i < one.size(); ++i) {
    ASSERT_EQ(one[i].has_value(), four[i].has_value());
    if (!one[i]) continue;
    EXPECT_EQ(one[i]->result.step.time_s, four[i]->result.step.time_s);
    EXPECT_EQ(one[i]->result.step.bubble_s, four[i]->result.step.bubble_s);
    EXPECT_EQ(one[i]->result.memory.peak_bytes, four[i]->result.memory.peak_bytes);
  }
}

TEST(Sweep, EqualsTheSingleSimulationBitForBit) {
  constexpr std::size_t repetitions = 2;  // the second uses the cached routing of the first
  const auto inputs = [](std::size_t) {
    return model::Result<Inputs>(tests::step_inputs(tests::deepseek_plan, "h800"));
  };
  const auto points = sweep(repetitions, inputs, {.fidelity = Fidelity::closed_form, .threads = 1}).value();
  const auto alone = simulate(*inputs(0), Fidelity::closed_form, false).value();
  for (const auto& point : points) EXPECT_EQ(point->result.step.time_s, alone.result.step.time_s);
}

TEST(Sweep, WithIntervalsStatesTheStepAndTheVerdictOfSimulate) {
  const auto inputs = [](std::size_t) { return model::Result<Inputs>(tests::wired_inputs(tests::llama_plan, "h800")); };
  const auto points = sweep(1, inputs, {.fidelity = Fidelity::step, .intervals = true, .threads = 1}).value();
  const Inputs alone = *inputs(0);
  model::StepResult result = simulate_on_network(alone, false).value().result;
  EXPECT_EQ(points[0]->result.step.time_s, result.step.time_s);
  const model::PredictionInterval interval = interval_of(alone, result, {.threads = 1, .parts = false}).value();
  EXPECT_EQ(points[0]->result.interval->time_s.p50, interval.time_s.p50);
  EXPECT_EQ(points[0]->result.interval->peak_bytes.p50, interval.peak_bytes.p50);
  EXPECT_EQ(points[0]->result.memory.fits_probability, interval.fits_probability);
}

TEST(Sweep, InfeasiblePointsStayRows) {
  const auto points = sweep_with(2);
  EXPECT_TRUE(points[0]->infeasible_reason.empty());
  ASSERT_FALSE(points[2]);
  EXPECT_EQ(points[2].error().kind, model::ErrorKind::infeasible);
  ASSERT_TRUE(points[3]);  // simulated although it does not fit
  EXPECT_NE(points[3]->infeasible_reason.find("does not fit"), std::string::npos);
  EXPECT_GT(points[3]->result.memory.peak_bytes, points[3]->result.memory.capacity_bytes);
}

TEST(Sweep, WrongInputEndsItWithTheFirstWrongPoint) {
  const auto inputs = [](std::size_t point) -> model::Result<Inputs> {
    if (point >= 3) return tl::unexpected(model::Error{model::ErrorKind::input, "wrong " + std::to_string(point)});
    return tl::unexpected(model::Error{model::ErrorKind::infeasible, "impossible"});
  };
  for (const unsigned threads : {1U, 4U}) {
    const auto points = sweep(50, inputs, {.threads = threads});
    ASSERT_FALSE(points);
    EXPECT_EQ(points.error().message, "wrong 3");
  }
}

// Work that is kept in files is handed out before the inputs of all points are read.
TEST(Sweep, BeginsBeforeAllInputsAreRead) {
  std::size_t read = 0, done = 0, read_before_first = 0;
  const auto inputs = [&](std::size_t) -> model::Result<Inputs> {
    ++read;
    return model::infeasible("", "impossible");
  };
  const auto on_progress = [&](std::size_t now, std::size_t) {
    if (now == 1) read_before_first = read;
    done = now;
  };
  constexpr std::size_t all = 5000;
  const auto points = sweep(all, inputs, {.threads = 1, .watch = {[&] { return done >= 300; }, on_progress}}).value();
  EXPECT_LT(read_before_first, 300u);
  ASSERT_EQ(points.size(), all);
  EXPECT_EQ(points[299].error().message, "impossible");
  EXPECT_EQ(points[300].error().message, "not simulated: the sweep was stopped");
  EXPECT_EQ(points.back().error().message, "not simulated: the sweep was stopped");
}

TEST(Sweep, CountsEveryPoint) {
  std::vector<std::size_t> counts;
  const auto inputs = [](std::size_t) -> model::Result<Inputs> {
    return tl::unexpected(model::Error{model::ErrorKind::infeasible, "impossible"});
  };
  ASSERT_TRUE(sweep(3, inputs, {.threads = 2, .watch = {.on_progress = [&](std::size_t done, std::size_t) {
                                                counts.push_back(done);
                                              }}}));
  EXPECT_EQ(counts, (std::vector<std::size_t>{1, 2, 3}));
  EXPECT_TRUE(sweep(0, inputs, {})->empty());
}

TEST(SweepFindings, ThePlateauIsContiguousAroundTheBest) {
  // 1 % of 100 is 1: 101 belongs to the plateau, 101.5 does not, and 100.5 beyond it is not reached.
  const SweptValues costs = {100.5, 101.5, 101, 100, 100.9, std::nullopt, 100.1};
  ASSERT_EQ(cheapest(costs), 3u);
  EXPECT_EQ(plateau(costs, 3, 0.01), (Stretch{2, 4}));
  EXPECT_EQ(plateau(costs, 3, 0.02), (Stretch{0, 4}));
  EXPECT_EQ(plateau(costs, 3, 0), (Stretch{3, 3}));
}

TEST(SweepFindings, OfSeveralBestTheFirstAndWithoutAnyNone) {
  EXPECT_EQ(cheapest({std::nullopt, 2, 1, 1}), 2u);
  EXPECT_FALSE(cheapest({std::nullopt}));
  EXPECT_FALSE(cheapest({}));
}

TEST(SweepFindings, StretchesEndWhereTheLimitIsExceededOrNothingIsKnown) {
  const SweptValues shares = {0.05, 0.02, 0.01, 0.03, std::nullopt, 0.0, std::nullopt, 0.0};
  EXPECT_EQ(stretches_within(shares, 0.02), (std::vector<Stretch>{{1, 2}, {5, 5}, {7, 7}}));
  EXPECT_TRUE(stretches_within(shares, -1).empty());
  EXPECT_EQ(stretches_within({0.0, 0.0}, 0.02), (std::vector<Stretch>{{0, 1}}));
}

SweepPoint point_with(double gemm, double flops, const std::string& device) {
  SweepPoint point;
  point.result.step.breakdown = {{"attention", 1}, {"GEMM", gemm}};
  point.result.flops_at_peak_s = flops;
  point.result.device = device;
  return point;
}

TEST(SweepFindings, GemmsAreComparedAmongPointsOfTheSameWorkAndDevice) {
  SweepPoint closed_form = point_with(1, 5, "a");
  closed_form.result.step.breakdown.clear();
  const auto slowdowns = gemm_slowdowns({point_with(3, 5, "a"), point_with(2, 5, "a"), point_with(1, 6, "a"),
                                         point_with(1, 5, "b"), closed_form, tl::unexpected(model::Error{})});
  EXPECT_EQ(slowdowns, (SweptValues{1.5, 1, 1, 1, std::nullopt, std::nullopt}));
}

TEST(SweepFindings, ExposedCommunicationIsJudgedInThePairsWhereThereAreAny) {
  model::StepTimes step;
  EXPECT_FALSE(exposed_seconds(step));  // slots were not recorded
  EXPECT_FALSE(exposed_share(step));
  step.slots_mean_s = {10, 20, 0, 0, 50};
  step.exposed_mean_s = {4, 5, 0, 0, 1};
  EXPECT_EQ(exposed_seconds(step), 10);
  EXPECT_EQ(exposed_share(step), 0.02);  // 1 of 50
  step.slots_mean_s = {10, 20, 0, 0, 0};
  step.exposed_mean_s = {4, 5, 0, 0, 0};
  EXPECT_EQ(exposed_share(step), 0.3);  // 9 of 30
}

std::vector<std::string> texts(const std::string& range) {
  const auto axis = parse_axis("a.key=" + range);
  EXPECT_TRUE(axis) << to_string(axis.error());
  std::vector<std::string> found;
  if (axis) {
    EXPECT_EQ(axis->key, "a.key");
    for (const SweepValue& value : axis->values) found.push_back(value.text);
  }
  return found;
}

using Texts = std::vector<std::string>;

TEST(SweepRange, IntegersIncludeBothEnds) {
  EXPECT_EQ(texts("0..3"), (Texts{"0", "1", "2", "3"}));
  EXPECT_EQ(texts("0..8:4"), (Texts{"0", "4", "8"}));
  EXPECT_EQ(texts("0..9:4"), (Texts{"0", "4", "8"}));  // 12 is beyond the end
  EXPECT_EQ(texts("5..5"), (Texts{"5"}));
  EXPECT_EQ(texts("-2..0"), (Texts{"-2", "-1", "0"}));
  EXPECT_EQ(texts("8..0:-4"), (Texts{"8", "4", "0"}));
}

TEST(SweepRange, FactorsMultiply) {
  EXPECT_EQ(texts("1..64:*2"), (Texts{"1", "2", "4", "8", "16", "32", "64"}));
  EXPECT_EQ(texts("3..20:*3"), (Texts{"3", "9"}));
  EXPECT_EQ(texts("1..2.25:*1.5"), (Texts{"1", "1.5", "2.25"}));
}

TEST(SweepRange, FractionsAreTheDecimalsThatOneWouldWriteDown) {
  // Added up as doubles, 0.1 + 0.1 + 0.1 is 0.30000000000000004 and the end of the second range would be missed.
  EXPECT_EQ(texts("0..0.3:0.1"), (Texts{"0", "0.1", "0.2", "0.3"}));
  EXPECT_EQ(texts("0..0.2:0.05"), (Texts{"0", "0.05", "0.1", "0.15", "0.2"}));
  EXPECT_EQ(texts("1e6..3e6:1e6"), (Texts{"1000000", "2000000", "3000000"}));
  EXPECT_EQ(texts("0.5..1.5:0.5"), (Texts{"0.5", "1", "1.5"}));
  EXPECT_DOUBLE_EQ(*parse_axis("k=0..0.3:0.1")->values[3].number, 0.3);
}

TEST(SweepRange, ListsHoldValuesWordsAndRanges) {
  EXPECT_EQ(texts("1,2,4"), (Texts{"1", "2", "4"}));
  EXPECT_EQ(texts("static, none ,dynamic"), (Texts{"static", "none", "dynamic"}));
  EXPECT_EQ(texts("h800-rail-fat-tree,h100-dgx"), (Texts{"h800-rail-fat-tree", "h100-dgx"}));
  EXPECT_EQ(texts("true,false"), (Texts{"true", "false"}));
  EXPECT_EQ(texts("0,8..16:4,32"), (Texts{"0", "8", "12", "16", "32"}));
  EXPECT_EQ(texts("../a.toml"), (Texts{"../a.toml"}));  // dots without numbers are a word
  EXPECT_EQ(texts("'a, b','c'"), (Texts{"'a, b'", "'c'"}));
}

TEST(SweepRange, TomlListsHoldListsForKeysThatTakeOne) {
  EXPECT_EQ(texts("[1, 2.5]"), (Texts{"1", "2.5"}));
  EXPECT_EQ(texts("[[3, 5], [4, 4]]"), (Texts{"[ 3, 5 ]", "[ 4, 4 ]"}));
  EXPECT_EQ(texts("[[\"mlp\"], []]"), (Texts{"[ \"mlp\" ]", "[]"}));
  EXPECT_FALSE(parse_axis("k=[[3, 5], [4, 4]]")->numeric());
  EXPECT_TRUE(parse_axis("k=[1, 2]")->numeric());
  EXPECT_FALSE(parse_axis("k=1,two")->numeric());
}

struct WrongRange {
  std::string text, says;
};

class WrongSweepRange : public testing::TestWithParam<WrongRange> {};

TEST_P(WrongSweepRange, IsAnInputErrorWithAReason) {
  const auto axis = parse_axis(GetParam().text);
  ASSERT_FALSE(axis);
  EXPECT_EQ(axis.error().kind, model::ErrorKind::input);
  EXPECT_EQ(axis.error().file, "--over");
  EXPECT_NE(to_string(axis.error()).find(GetParam().says), std::string::npos) << to_string(axis.error());
}

INSTANTIATE_TEST_SUITE_P(
    Texts, WrongSweepRange,
    testing::Values(WrongRange{"", "expected KEY=RANGE"}, WrongRange{"key", "expected KEY=RANGE"},
                    WrongRange{"=1", "expected KEY=RANGE"}, WrongRange{"k=", "a value is missing"},
                    WrongRange{"k=1,,2", "a value is missing"}, WrongRange{"k=1,2,", "a value is missing"},
                    WrongRange{"k=5..1", "leads away from the end"}, WrongRange{"k=1..5:-1", "leads away"},
                    WrongRange{"k=1..5:0", "a step of 0"}, WrongRange{"k=1..5:*1", "a factor above 1"},
                    WrongRange{"k=0..5:*2", "a start above 0"}, WrongRange{"k=0..0.2", "needs a step"},
                    WrongRange{"k=1..", "both ends must be numbers"}, WrongRange{"k=1..x", "both ends"},
                    WrongRange{"k=1..5:two", "'two' is not a number"}, WrongRange{"k=0..100000", "more than 100000"},
                    WrongRange{"k=0..9e300:1", "more than 100000"}, WrongRange{"k=4,5,4", "'4' is given twice"},
                    WrongRange{"k=[1, 2", "is not a TOML list"}, WrongRange{"k=[]", "the list is empty"},
                    WrongRange{"k=a,{b}", "neither a word nor a number"}));

SweepGrid grid_of(const std::vector<std::string>& over) {
  std::vector<SweepAxis> axes;
  for (const std::string& text : over) axes.push_back(parse_axis(text).value());
  return SweepGrid::make(std::move(axes)).value();
}

TEST(SweepRange, EndsAreTheTwoValuesOfARangeWithoutAStep) {
  const SweepAxis ends = parse_ends("a.x=0.5..1e3").value();
  ASSERT_EQ(ends.values.size(), 2u);
  EXPECT_EQ(ends.values[0].text, "0.5");
  EXPECT_DOUBLE_EQ(ends.values[1].number.value(), 1000);
  EXPECT_EQ(parse_ends("a.x=1..3:1").value().values.size(), 3u);
  EXPECT_EQ(parse_ends("a.x=1..3,7").value().values.size(), 4u);
  EXPECT_EQ(parse_ends("a.x=u,v,w").value().values.size(), 3u);
  EXPECT_FALSE(parse_ends("a.x=3..1"));
  EXPECT_FALSE(parse_ends("a.x=1..b"));
  EXPECT_TRUE(is_span("a.x=1..3"));
  EXPECT_FALSE(is_span("a.x=1..3:1"));
  EXPECT_FALSE(is_span("a.x=1"));
}

TEST(SweepGrid, TheLastKeyIsTheFastest) {
  const SweepGrid grid = grid_of({"a.x=1,2", "b.y=u,v,w"});
  ASSERT_EQ(grid.size(), 6u);
  EXPECT_EQ(grid.changes(0), (Texts{"a.x=1", "b.y=u"}));
  EXPECT_EQ(grid.changes(1), (Texts{"a.x=1", "b.y=v"}));
  EXPECT_EQ(grid.changes(5), (Texts{"a.x=2", "b.y=w"}));
}

TEST(SweepGrid, LinesFollowTheLastNumericKeyByRisingValue) {
  const SweepGrid grid = grid_of({"a.x=2,1", "b.y=u,v"});
  EXPECT_EQ(grid.numeric_axis(), 0u);
  // Points: 0 (2, u), 1 (2, v), 2 (1, u), 3 (1, v).
  EXPECT_EQ(grid.lines(), (std::vector<std::vector<std::size_t>>{{2, 0}, {3, 1}}));
  EXPECT_EQ(grid.line_name(2), "y u");
  const SweepGrid words = grid_of({"b.y=u,v", "a.x=7"});  // a single number gives no line
  EXPECT_FALSE(words.numeric_axis());
  EXPECT_EQ(words.lines(), (std::vector<std::vector<std::size_t>>{{0, 1}}));
}

TEST(SweepGrid, NamesAreShortWhereTheyAreUnique) {
  const SweepGrid grid = grid_of({"a.x=1,2", "b.x=1,2", "b.y=1,2"});
  EXPECT_EQ(grid.short_name(0), "a.x");
  EXPECT_EQ(grid.short_name(1), "b.x");
  EXPECT_EQ(grid.short_name(2), "y");
}

TEST(SweepGrid, RefusesAKeyTwiceAndTooManyPoints) {
  const auto axis = [](const std::string& text) { return parse_axis(text).value(); };
  const auto twice = SweepGrid::make({axis("a.x=1"), axis("a.x=2")});
  ASSERT_FALSE(twice);
  EXPECT_NE(twice.error().message.find("swept twice"), std::string::npos);
  const auto many = SweepGrid::make({axis("a.x=1..1000"), axis("a.y=1..1000")});
  ASSERT_FALSE(many);
  EXPECT_NE(many.error().message.find("more than 100000 points"), std::string::npos);
}

}  // namespace
}  // namespace plumbline::sim
