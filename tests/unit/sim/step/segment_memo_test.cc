// What is computed once for segments that are alike.
#include "sim/step/segment_memo.h"

#include <gtest/gtest.h>

namespace plumbline::sim {
namespace {

model::Segment of_block(std::int32_t block, model::Stream stream = model::Stream::compute) {
  model::Segment segment;
  segment.block = static_cast<decltype(segment.block)>(block);
  segment.stream = stream;
  segment.operators = {1, 2};
  return segment;
}

TEST(SegmentMemo, ComputesOnceForSegmentsThatAreAlike) {
  SegmentMemo<int> memo;
  int made = 0;
  const auto find = [&](const model::Segment& segment) { return memo.find(segment, [&] { return ++made; }); };
  EXPECT_EQ(find(of_block(0)), 1);
  EXPECT_EQ(find(of_block(0)), 1);
  EXPECT_EQ(find(of_block(0, model::Stream::weight_gradient)), 2);
  EXPECT_EQ(find(of_block(1)), 3);
  model::Segment other = of_block(0);
  other.operators = {1, 3};
  EXPECT_EQ(find(other), 4);
  other = of_block(0);
  other.share = 0.5;
  EXPECT_EQ(find(other), 5);
  EXPECT_EQ(find(of_block(0)), 1);
}

// Slots keep references to the values of their segments while further blocks come.
TEST(SegmentMemo, ValuesStayWhereTheyAre) {
  SegmentMemo<int> memo;
  const int& first = memo.find(of_block(0), [] { return 7; });
  for (int block = 1; block < 100; ++block) memo.find(of_block(block), [&] { return block; });
  EXPECT_EQ(&memo.find(of_block(0), [] { return 8; }), &first);
  EXPECT_EQ(first, 7);
}

}  // namespace
}  // namespace plumbline::sim
