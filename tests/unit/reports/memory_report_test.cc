#include <gtest/gtest.h>

#include <cstdint>
#include <sstream>
#include <string>

#include "reports/text/step/summary.h"
#include "tests/support/text_parts.h"

namespace plumbline::reports {
namespace {

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
