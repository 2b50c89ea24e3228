// Reads chunk measurements.
#include "calibrate/chunk/chunk.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/inputs.h"
#include "tests/support/kernel_classes.h"

namespace plumbline::calibrate {
namespace {

using tests::shipped_kernel_classes;

const std::string header = "index,stream,class,phase,layer,start_us,dur_us,grid_ctas,note\n";

model::Result<model::Timeline> parse_text(const std::string& text) {
  return parse_chunk(text, "c.csv", shipped_kernel_classes());
}

TEST(Chunk, ReadsThePublishedProfile) {
  const auto chunk =
      read_chunk(tests::shipped("calibrate/published/h800_dualpipe_chunk.csv"), shipped_kernel_classes());
  ASSERT_TRUE(chunk) << model::to_string(chunk.error());
  ASSERT_EQ(chunk->kernels.size(), 983U);  // lines of the file that are neither comment nor header
  // 1,27,notify,B,3,94,1008,20,
  const model::Kernel& notify = chunk->kernels[1];
  const model::Span& span = *kernel_spans(*chunk)[1];
  EXPECT_EQ(notify.queue, 27);
  EXPECT_EQ(notify.class_name, "notify");
  EXPECT_EQ(notify.phase, "B");
  EXPECT_EQ(span.layer, 3);
  EXPECT_EQ(span.start_ps, 94'000'000);
  EXPECT_EQ(span.duration_ps, 1'008'000'000);
  EXPECT_EQ(notify.grid, 20);
  EXPECT_EQ(notify.note, "");
  EXPECT_EQ(span.stream, model::Stream::communication);
  EXPECT_EQ(span.layer_pair, 0);
}

TEST(Chunk, WritesWhatItReads) {
  const std::string text =
      "# a comment\n" + header + "0,7,gemm_fp8,F,0,0,1.5,112,section=attn(F)\n" + "1,-1,other,,-1,1000000.125,0,0,\n";
  const auto chunk = parse_text(text);
  ASSERT_TRUE(chunk) << model::to_string(chunk.error());
  EXPECT_EQ(to_csv(*chunk, {"a comment"}), text);
}

TEST(Chunk, ColumnsInAnyOrderAndForeignLineEnds) {
  const auto chunk =
      parse_text("note,grid_ctas,dur_us,start_us,layer,phase,class,stream,index\r\nhere,2,3,4,5,W,other,6,7\r\n");
  ASSERT_TRUE(chunk) << model::to_string(chunk.error());
  EXPECT_EQ(chunk->kernels[0].note, "here");
  EXPECT_EQ(chunk->kernels[0].queue, 6);
  EXPECT_EQ(kernel_spans(*chunk)[0]->duration_ps, 3'000'000);
}

TEST(Chunk, CommasInANoteBecomeBlanks) {
  const TracedKernel traced{.kernel = {.class_name = "other", .note = "a,b\nc", .queue = 7}};
  EXPECT_EQ(to_csv(kernel_timeline({traced}, shipped_kernel_classes()), {}), header + "0,7,other,,-1,0,0,0,a b c\n");
}

TEST(Chunk, RefusesWithLineAndColumn) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "c.csv: no header"},
      {header, "c.csv: no kernel in it"},
      {"index,stream,class,phase,layer,strt_us,dur_us,grid_ctas,note\n",
       "c.csv:1: strt_us: unknown column (did you mean"},
      {"index,stream,class,phase,layer,dur_us,grid_ctas,note\n", "c.csv:1: start_us: the column is missing"},
      {"index,index,class,phase,layer,start_us,dur_us,grid_ctas,note\n", "c.csv:1: index: two columns have this name"},
      {header + "0,7,other,F,0,0,1,1\n", "c.csv:2: 8 cells under 9 columns"},
      {"#\n" + header + "0,7,other,F,0,0,1,1,a,b\n", "c.csv:3: 10 cells under 9 columns"},
      {header + "0,x,other,F,0,0,1,1,\n", "c.csv:2: stream: 'x' is no whole number"},
      {header + "0,7,,F,0,0,1,1,\n", "c.csv:2: class: is empty"},
      {header + "0,7,other,Q,0,0,1,1,\n", "c.csv:2: phase: 'Q' is no phase"},
      {header + "0,7,other,F,-2,0,1,1,\n", "c.csv:2: layer: -2 is below -1"},
      {header + "0,7,other,F,0,0,-1,1,\n", "c.csv:2: dur_us: -1 is negative"},
      {header + "0,7,other,F,0,nan,1,1,\n", "c.csv:2: start_us: 'nan' is no number"},
      {header + "0,7,other,F,0,1e300,1,1,\n", "c.csv:2: start_us: 1e300 microseconds are more than 46 days"},
      {header + "0,7,other,F,0,,1,1,\n", "c.csv:2: start_us: '' is no number"},
      {header + "0,7,other,F,0,0,1,99999999999,\n", "c.csv:2: grid_ctas: '99999999999' is no whole number"},
      {header + "1,7,other,F,0,0,1,1,\n1,7,other,F,0,0,1,1,\n", "c.csv:3: index: does not rise"},
  };
  for (const auto& [text, expected] : cases) {
    const auto chunk = parse_text(text);
    ASSERT_FALSE(chunk) << text;
    EXPECT_THAT(model::to_string(chunk.error()), testing::HasSubstr(expected));
  }
  EXPECT_EQ(read_chunk("nowhere.csv", shipped_kernel_classes()).error().message, "no such file");
}

}  // namespace
}  // namespace plumbline::calibrate
