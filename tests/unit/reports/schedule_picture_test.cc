#include "reports/charts/schedule_picture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>
#include <string>

#include "model/schedule/evaluate.h"

namespace plumbline::reports {
namespace {

using model::OpType;
using testing::HasSubstr;
using testing::Not;

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
