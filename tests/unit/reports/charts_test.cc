#include "reports/charts/charts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>
#include <string>

#include "calibrate/measurement/measurement.h"
#include "model/schedule/evaluate.h"
#include "reports/text/inputs/measurements_text.h"
#include "tests/support/text_parts.h"

namespace plumbline::reports {
namespace {

using model::OpType;
using testing::HasSubstr;
using testing::Not;
using tests::has;

BarChart example_bars() {
  BarChart chart;
  chart.title = "A & B";
  chart.legend = {{2, "faster"}};
  chart.panels.push_back({"one",
                          "s",
                          {{"<row>", {{10, 12, 1, "more"}}, "+2 s"}, {"two", {{12, 11, 2, ""}}, "-1 s"}},
                          {{10, "from"}, {11, "to"}},
                          true});
  return chart;
}

TEST(BarChart, TextIsEscapedAndNothingIsAVariable) {
  const std::string svg = bar_chart_svg(example_bars());
  EXPECT_THAT(svg, HasSubstr("A &amp; B"));
  EXPECT_THAT(svg, HasSubstr("&lt;row&gt;"));
  EXPECT_THAT(svg, testing::Not(HasSubstr("var(")));
}

// The axis spans 10 to 12 with a margin of 3 % on both sides: bars of 2 and 1 are 560 * 2 / 2.12 and half of it wide.
TEST(BarChart, BarsAreAsWideAsTheirValues) {
  const std::string svg = bar_chart_svg(example_bars());
  EXPECT_THAT(svg, HasSubstr("width=\"528.3\""));
  EXPECT_THAT(svg, HasSubstr("width=\"264.2\""));
}

TEST(BarChart, MarksStandOnTheirOuterSides) {
  const std::string svg = bar_chart_svg(example_bars());
  EXPECT_THAT(svg, HasSubstr("text-anchor=\"end\">from<"));
  EXPECT_THAT(svg, HasSubstr("text-anchor=\"start\">to<"));
}

TEST(BarChart, WorksWithoutRows) {
  BarChart chart;
  EXPECT_THAT(bar_chart_svg(chart), HasSubstr("</svg>"));
  chart.panels.push_back({"empty", "s", {}, {{1, "as it is"}}, false});
  EXPECT_THAT(bar_chart_svg(chart), HasSubstr("text-anchor=\"middle\">as it is<"));
}

// One panel of 0 to 10 in both directions: x = 84 + 76 per unit, y = 66 + 220 - 22 per unit.
LineChart square() {
  LineChart chart;
  chart.title = "A <title>";
  chart.x_title = "SMs & more";
  chart.panels = {{"seconds", true, {{"first", {{0, 0}, {5, 10}, {10, 5}}}}}};
  return chart;
}

TEST(LineChart, PutsPointsAtTheirNumbers) {
  const std::string svg = line_chart_svg(square());
  tests::expect_parts(svg, {R"(<path class="line s0" d="M84.0 286.0L464.0 66.0L844.0 176.0"/>)",
                            "<title>first: 10.00 at 5</title>", ">0</text>"});
  EXPECT_FALSE(has(svg, ">-0</text>"));
}

TEST(LineChart, AMissingValueInterruptsTheLine) {
  LineChart chart = square();
  chart.panels[0].series[0].points = {{0, 0}, {2, 1}, {5, std::nullopt}, {8, 2}, {10, 10}};
  const std::string svg = line_chart_svg(chart);
  EXPECT_TRUE(has(svg, "M84.0 286.0L236.0 264.0M692.0 242.0L844.0 66.0")) << svg;
}

TEST(LineChart, ASeriesHasItsColourInEveryPanel) {
  LineChart chart = square();
  chart.panels[0].series.push_back({"second", {{0, 1}, {10, 1}}});
  chart.panels.push_back({"ratio", false, {{"second", {{0, 1}, {10, 2}}}}});
  const std::string svg = line_chart_svg(chart);
  // The second panel begins 220 + 26 lower: 312 to 532.
  EXPECT_TRUE(has(svg, R"(<path class="line s1" d="M84.0 532.0L844.0 312.0"/>)")) << svg;
}

TEST(LineChart, ALogarithmicAxisIsEvenInFactors) {
  LineChart chart = square();
  chart.logarithmic = true;
  chart.panels[0].series[0].points = {{1, 0}, {4, 5}, {16, 10}};
  EXPECT_TRUE(has(line_chart_svg(chart), "M84.0 286.0L464.0 176.0L844.0 66.0"));
}

TEST(LineChart, LabelsKeepOffTheLines) {
  LineChart chart;
  chart.panels = {{"y", true, {{"", {{0, 0}, {10, 10}}}}}};
  chart.marks = {{5, 5, "middle"}};
  // The line rises: above it only the left is free, where the text ends 11 pixels before the point.
  EXPECT_TRUE(has(line_chart_svg(chart), R"(x="453.0" y="167.0" text-anchor="end">middle</text>)"));
}

TEST(LineChart, LabelsGoFurtherAwayWhereLinesLeaveNoCornerFree) {
  LineChart chart;
  chart.panels = {{"y", true, {{"", {{0, 10}, {1, 0}, {10, 1}}}}}};
  chart.marks = {{1, 0, "a label of some length"}};
  // The point lies at 160, 286 on the lower edge, and the line right of it rises by 22 in 684 pixels. A row above the
  // nearest corner, the text ends 286 - 9 - 18 + 6 = 265 low, which the line reaches 653 pixels further right.
  EXPECT_TRUE(has(line_chart_svg(chart), R"(x="171.0" y="259.0" text-anchor="start")"));
}

TEST(LineChart, ScatteredPointsHaveNoLine) {
  LineChart chart = square();
  chart.panels[0].series[0].scattered = true;
  const std::string svg = line_chart_svg(chart);
  EXPECT_FALSE(has(svg, R"(class="line s0")"));
  EXPECT_TRUE(has(svg, R"(<circle class="s0 faint")"));
}

TEST(LineChart, MarksAndBandsAreAtTheirPlaces) {
  LineChart chart = square();
  chart.marks = {{5, 10, "best"}};
  chart.bands = {{2, 8, "first"}};
  const std::string svg = line_chart_svg(chart);
  EXPECT_TRUE(has(svg, R"(<circle class="ring outline" cx="464.0" cy="66.0" r="7"/>)")) << svg;
  EXPECT_TRUE(has(svg, R"(<rect class="band s0" x="236.0" y="66" width="456.0" height="220"/>)")) << svg;
}

TEST(LineChart, WorksWithoutPointsAndWithEqualOnes) {
  EXPECT_TRUE(has(line_chart_svg({}), "</svg>"));
  LineChart chart = square();
  chart.panels[0].from_zero = false;
  chart.panels[0].series[0].points = {{3, 7}};
  const std::string svg = line_chart_svg(chart);
  EXPECT_FALSE(has(svg, "nan"));
  EXPECT_FALSE(has(svg, "inf"));
}

// The charts of measurements: the time that kernels lose when SMs are reserved for a copy, and the roofline.

constexpr const char* header =
    "source,device,op,name,format,case,cache,variant,communication_ctas,target_sms,copy_to,time_us.p50\n";

LineChart chart_of(const std::string& lines) {
  return partition_chart(calibrate::parse_measurements(header + lines, "a.csv", {}).value());
}

TEST(PartitionChart, DividesByTheNearestTimeAloneOnAllSms) {
  const LineChart chart = chart_of(
      "s,H,gemm,q,bf16,a,hot,alone,0,0,,100\n"
      "s,H,gemm,q,bf16,b,hot,beside,8,0,device,110\n"
      "s,H,gemm,q,bf16,c,hot,alone,0,0,,200\n"  // clocks have fallen
      "s,H,gemm,q,bf16,c,hot,beside,20,0,device,300\n"
      "s,H,gemm,q,bf16,d,hot,alone,0,112,,250\n"  // by an algorithm for 112 SMs: no time alone on all of them
      "s,H,gemm,q,bf16,d,hot,beside,20,112,device,260\n"
      "s,H,rmsnorm,n,,e,hot,alone,0,0,,10\n"
      "s,H,rmsnorm,n,,e,hot,beside,20,0,device,12\n");
  ASSERT_EQ(chart.panels.size(), 3u);
  EXPECT_EQ(chart.panels[0].y_title, "GEMMs for all SMs");
  ASSERT_EQ(chart.panels[0].series.at(0).points.size(), 2u);
  EXPECT_EQ(chart.panels[0].series[0].name, "q bf16");
  EXPECT_EQ(chart.panels[0].series[0].points[0].x, 8);
  EXPECT_DOUBLE_EQ(*chart.panels[0].series[0].points[0].y, 1.1);
  EXPECT_DOUBLE_EQ(*chart.panels[0].series[0].points[1].y, 1.5);
  EXPECT_DOUBLE_EQ(*chart.panels[1].series.at(0).points.at(0).y, 1.3);
  EXPECT_EQ(chart.panels[2].y_title, "attention, memory-bound");
  EXPECT_DOUBLE_EQ(*chart.panels[2].series.at(0).points.at(0).y, 1.2);
}

TEST(PartitionChart, LeavesOutPacedCopiesAndKeepsGreenContextsApart) {
  const LineChart chart = chart_of(
      "s,H,gemm,q,bf16,a,hot,alone,0,0,,100\n"
      "s,H,gemm,q,bf16,b copy_gbps=50,hot,beside,20,0,device,110\n"
      "s,H,gemm,q,bf16,c,hot,beside,20,0,host,800\n"
      "s,H,gemm,q,bf16,d by=green,hot,alone,0,0,,130\n"
      "s,H,gemm,q,bf16,e by=green,hot,beside,16,116,device,140\n");
  ASSERT_EQ(chart.panels.size(), 1u);
  EXPECT_EQ(chart.panels[0].y_title, "green contexts");
  EXPECT_DOUBLE_EQ(*chart.panels[0].series.at(0).points.at(0).y, 1.4);
}

TEST(PartitionChart, WithoutMeasurementsIsEmpty) {
  EXPECT_TRUE(partition_chart({}).panels.empty());
  EXPECT_TRUE(chart_of("s,H,gemm,q,bf16,b,hot,beside,8,0,device,110\n").panels.empty());  // never measured alone
}

// A device of 1,000 TFLOP/s and 1 TB/s, and kernels of 1e15 FLOP.
constexpr const char* roofline_header = "source,device,op,name,format,case,cache,time_us.p50,flops,bytes\n";

LineChart roofline_of(const std::string& lines, const std::vector<topologies::KnownDevice>& devices = {}) {
  return roofline_chart(calibrate::parse_measurements(roofline_header + lines, "a.csv", {}).value(), devices);
}

// 1e15 FLOP over 1e12 B in 2 s are 500 TFLOP/s at 1,000 FLOP per byte; formats and caches have series of their own.
TEST(Roofline, PutsKernelsAtTheirNumbers) {
  const LineChart chart = roofline_of(
      "s,H,gemm,q,bf16,a,cold,2e6,1e15,1e12\n"
      "s,H,gemm,q,bf16,b,hot,1e6,1e15,1e12\n"
      "s,H,copy,c,,c,cold,1,,1e9\n");  // without FLOPs it has no place
  ASSERT_EQ(chart.panels.size(), 1u);
  ASSERT_EQ(chart.panels[0].series.size(), 2u);
  const LineChart::Series& cold = chart.panels[0].series[0];
  EXPECT_EQ(cold.name, "bf16");
  EXPECT_TRUE(cold.scattered);
  EXPECT_DOUBLE_EQ(cold.points.at(0).x, 1000);
  EXPECT_DOUBLE_EQ(*cold.points.at(0).y, 500);
  EXPECT_EQ(chart.panels[0].series[1].name, "bf16, operands in the cache");
  EXPECT_EQ(chart.subtitle, "median times; roofs: no datasheet known");
}

// Peak 1,000 TFLOP/s over 1 TB/s: the roofs meet at 1,000 FLOP per byte.
TEST(Roofline, RoofsMeetAtTheRidge) {
  topologies::KnownDevice known;
  known.device.name = "H";
  known.device.bf16_peak = model::FlopsPerSecond(1000e12);
  known.device.fp8_peak = model::FlopsPerSecond(0);
  known.device.memory_bandwidth = model::BytesPerSecond(1e12);
  const LineChart chart = roofline_of("s,H,gemm,q,bf16,a,cold,2e6,1e15,1e12\n", {known});
  ASSERT_EQ(chart.panels.at(0).series.size(), 3u);
  const LineChart::Series &peak = chart.panels[0].series[1], &memory = chart.panels[0].series[2];
  EXPECT_EQ(peak.name, "BF16 peak: 1,000 TFLOP/s");
  EXPECT_EQ(memory.name, "memory: 1,000 GB/s");
  EXPECT_DOUBLE_EQ(peak.points.front().x, 1000);
  EXPECT_DOUBLE_EQ(*peak.points.front().y, 1000);
  EXPECT_DOUBLE_EQ(memory.points.back().x, 1000);
  EXPECT_DOUBLE_EQ(*memory.points.back().y, 1000);
}

TEST(Roofline, DrawsWithoutMeasurements) { EXPECT_TRUE(roofline_chart({}, {}).panels.at(0).series.empty()); }

constexpr std::size_t margin = 8;  // two spaces, "rank", two spaces

ScheduleBlock forward(std::int32_t micro_batch, double start, double end) {
  ScheduleBlock block{OpType::F, micro_batch};
  block.forward_stage = 0;
  block.start = start;
  block.end = end;
  return block;
}

ScheduleBlock backward(OpType type, std::int32_t micro_batch, double start, double end) {
  ScheduleBlock block{type, -1, micro_batch};
  block.backward_stage = 0;
  block.start = start;
  block.end = end;
  return block;
}

// 1F1B of two ranks and two micro-batches with F = 1, B = 2: the second rank begins when the first forward has
// arrived; a backward waits for that of the next rank.
SchedulePicture two_ranks() {
  SchedulePicture picture;
  picture.title = "1f1b <2>";
  picture.ranks = {{forward(0, 0, 1), forward(1, 1, 2), backward(OpType::B, 0, 4, 6), backward(OpType::B, 1, 7, 9)},
                   {forward(0, 1, 2), backward(OpType::B, 0, 2, 4), forward(1, 4, 5), backward(OpType::B, 1, 5, 7)}};
  picture.makespan = 9;
  return picture;
}

std::string without_escapes(const std::string& text) {
  return std::regex_replace(text, std::regex("\x1b\\[[0-9;]*m"), "");
}

// At one cell a unit a forward has no space for its number, and a backward of two has.
TEST(SchedulePicture, NumbersStandWhereTheyFit) {
  EXPECT_THAT(picture_text(two_ranks(), margin + 9, false), HasSubstr("     0  FF..B0.B1\n     1  .FB0FB1..\n"));
}

// 17 cells for 9 units would give 1.9 cells a unit; a whole number of cells makes equal ops equal.
TEST(SchedulePicture, EqualOpsHaveEqualWidth) {
  EXPECT_EQ(picture_text(two_ranks(), margin + 17, false).substr(0, 24),
            picture_text(two_ranks(), margin + 9, false).substr(0, 24));
}

// Durations of 1 and 1.5 have no common unit: 20 cells for 2.5 give 8 and 12 cells.
TEST(SchedulePicture, UnequalOpsFillTheWidth) {
  SchedulePicture picture;
  picture.ranks = {{forward(0, 0, 1), backward(OpType::B, 0, 1, 2.5)}};
  picture.makespan = 2.5;
  EXPECT_THAT(picture_text(picture, margin + 20, false), HasSubstr("     0  F0------B0----------\n"));
}

// The same blocks with backgrounds: blue 117, green 114; numbers in the middle; lines have the same width.
TEST(SchedulePicture, ColoursTheSameBlocks) {
  const std::string text = picture_text(two_ranks(), margin + 18, true);
  EXPECT_THAT(text, HasSubstr("\x1b[38;5;16;48;5;117m0 \x1b[0m\x1b[38;5;16;48;5;117m1 \x1b[0m    "
                              "\x1b[38;5;16;48;5;114m 0  \x1b[0m"));
  EXPECT_THAT(without_escapes(text), HasSubstr("     0  0 1      0     1  \n     1    0  0  1  1  \n"));
  EXPECT_THAT(without_escapes(text), Not(HasSubstr("B0")));
}

// 4,000 ops on 20 cells: each cell shows one of them, no line is longer than the width.
TEST(SchedulePicture, ManyOpsStayInsideTheWidth) {
  SchedulePicture picture;
  auto& blocks = picture.ranks.emplace_back();
  for (std::int32_t i = 0; i < 2000; ++i) {
    blocks.push_back(forward(i, 3 * i, 3 * i + 1));
    blocks.push_back(backward(OpType::B, i, 3 * i + 1, 3 * i + 3));
  }
  picture.makespan = 6000;
  const std::string text = picture_text(picture, margin + 20, false);
  const std::string row = text.substr(text.find("     0  ") + margin, 20);
  EXPECT_EQ(row.find_first_not_of("FB"), std::string::npos) << text;
  EXPECT_EQ(text[text.find(row) + 20], '\n');
}

TEST(SchedulePicture, NothingToDrawIsEmpty) { EXPECT_EQ(picture_text(SchedulePicture{}, 80, false), ""); }

TEST(SchedulePicture, TakesTimesAndMarksFromTheSchedule) {
  model::Schedule schedule;
  schedule.kind = "made up";
  schedule.shape = {.ranks = 1, .micro_batches = 1, .virtual_stages = 2};
  schedule.stages = 2;
  schedule.ranks = {{{OpType::F, 0, 0, 0}, {OpType::F, 0, 1, 0}}};
  model::ScheduleEvaluation evaluation;
  evaluation.makespan = 5;
  evaluation.start = {{0, 2}};
  const SchedulePicture picture = schedule_picture(schedule, evaluation, {{2, 5}});
  EXPECT_EQ(picture.title, "made up, 1 ranks, 1 micro-batches");
  EXPECT_EQ(picture.mark, "odd chunks");
  ASSERT_EQ(picture.ranks.at(0).size(), 2U);
  EXPECT_FALSE(picture.ranks[0][0].marked);
  EXPECT_TRUE(picture.ranks[0][1].marked) << "stage 1 of 1 rank is its chunk 1";
  EXPECT_EQ(picture.ranks[0][1].start, 2);
  EXPECT_EQ(picture.ranks[0][1].end, 5);
}

// 1,000 pixels for 9 units with 3 % of margin on both sides: the last backward of rank 0 is 2 / 9.54 * 1000 wide.
TEST(ScheduleSvg, BlocksHavePlaceAndTitle) {
  const std::string svg = picture_svg(two_ranks());
  EXPECT_THAT(svg,
              HasSubstr("width=\"293.5\" height=\"15\"><title>B of micro-batch 1 on stage 0: 7 to 9</title></rect>"));
  EXPECT_THAT(svg, HasSubstr("time in the unit of the costs; makespan 9"));
  EXPECT_THAT(svg, HasSubstr(">rank 1<"));
  EXPECT_THAT(svg, HasSubstr("1f1b &lt;2&gt;")) << "text is escaped";
}

}  // namespace
}  // namespace plumbline::reports
