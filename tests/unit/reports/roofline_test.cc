#include "reports/charts/detail/roofline.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/support/text_parts.h"

namespace plumbline::reports {
namespace {

using tests::count;
using tests::has;

// Peak 1000 TFLOP/s over 1 TB/s: the roof bends at 1000 FLOP/B, so that both axes end on round ticks: 200 to 5000
// FLOP/B (1000 / 4 and 1000 * 4), 200 to 2000 TFLOP/s (1000 / 4 and 1000 * 1.3).
Roofline round_roofline() {
  Roofline roofline;
  roofline.title = "GPU <1>";
  roofline.subtitle = "one product";
  roofline.peaks = {{"BF16", 1000e12}};
  roofline.bytes_per_s = 1e12;
  return roofline;
}

TEST(Roofline, PutsAPointAtItsNumbers) {
  Roofline roofline = round_roofline();
  // 1000 FLOP/B at 500 TFLOP/s: 1000e12 FLOP and 1e12 B in 2 s.
  roofline.points = {{"bf16", "a & b", 1000e12, 1e12, 2}};
  const std::string svg = roofline_svg(roofline);
  // x = 76 + 760 ln(1000/200)/ln(5000/200) = 76 + 760/2 = 456; y = 64 + 420 (1 - ln(500/200)/ln(2000/200))
  // = 64 + 420 (1 - 0.39794) = 316.9.
  EXPECT_TRUE(has(svg, R"(<circle class="s0" cx="456.0" cy="316.9" r="4">)")) << svg;
  EXPECT_TRUE(has(svg, "<title>a &amp; b: 500.0 TFLOP/s at 1,000 FLOP/B</title>")) << svg;
  // The flat roof starts at the bend, at 1000 TFLOP/s: y = 64 + 420 (1 - ln 5/ln 10) = 190.4.
  EXPECT_TRUE(has(svg, R"(<path class="roof outline" d="M456.0 190.4H836.0"/>)")) << svg;
  EXPECT_TRUE(has(svg, "BF16: 1,000 TFLOP/s"));
  EXPECT_TRUE(has(svg, "memory: 1,000 GB/s"));
}

TEST(Roofline, EachSeriesHasItsColourAndALegend) {
  Roofline roofline = round_roofline();
  roofline.hollow_meaning = "in the cache";
  roofline.points = {{"fp8", "x", 1e15, 1e12, 2, true}, {"bf16", "y", 1e15, 1e12, 3}};
  const std::string svg = roofline_svg(roofline);
  EXPECT_TRUE(has(svg, R"(class="s1 hollow")"));
  EXPECT_TRUE(has(svg, ">bf16</text>"));
  EXPECT_TRUE(has(svg, ">fp8</text>"));
  EXPECT_TRUE(has(svg, ">in the cache</text>"));
  EXPECT_EQ(count(svg, "<circle"), 5u);  // two points, two formats and the hollow mark in the legend
}

TEST(Roofline, LeavesOutWhatHasNoPlace) {
  Roofline roofline = round_roofline();
  roofline.points = {{"", "copy", 0, 1e9, 1e-3}, {"", "launch", 0, 0, 1e-6}};
  EXPECT_EQ(count(roofline_svg(roofline), "<circle"), 0u);
}

TEST(Roofline, DrawsWithoutADatasheetAndWithoutPoints) {
  Roofline roofline;
  EXPECT_EQ(count(roofline_svg(roofline), "class=\"roof\""), 0u);
  roofline.points = {{"bf16", "x", 1e12, 1e10, 0.1}};  // 100 FLOP/B at 10 TFLOP/s
  const std::string svg = roofline_svg(roofline);
  EXPECT_EQ(count(svg, "<circle"), 2u);
  EXPECT_FALSE(has(svg, "nan"));
  EXPECT_FALSE(has(svg, "inf"));
}

}  // namespace
}  // namespace plumbline::reports
