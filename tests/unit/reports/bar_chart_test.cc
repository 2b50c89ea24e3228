#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reports/charts/charts.h"

namespace plumbline::reports {
namespace {

using testing::HasSubstr;

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

}  // namespace
}  // namespace plumbline::reports
