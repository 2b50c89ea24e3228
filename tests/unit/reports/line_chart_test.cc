#include <gtest/gtest.h>

#include <string>

#include "reports/charts/charts.h"
#include "tests/support/text_parts.h"

namespace plumbline::reports {
namespace {

using tests::has;

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

}  // namespace
}  // namespace plumbline::reports
