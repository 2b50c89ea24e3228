#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

#include "model/base/units.h"
#include "reports/text/inputs/inputs_text.h"
#include "tests/support/costs.h"
#include "tests/support/load_cluster.h"

namespace plumbline::reports {
namespace {

using model::Collective;

model::ClusterShape h100(std::int64_t gpus) {
  return tests::load_cluster(tests::shipped("topologies/h100-dgx.toml"), tests::shipped("topologies/devices"),
                             {.gpus = gpus})
      .value();
}

// Returns the words of each row, without comments.
std::vector<std::vector<std::string>> rows_of(const std::string& text) {
  std::vector<std::vector<std::string>> rows;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with('#')) continue;
    std::istringstream words(line);
    std::vector<std::string>& row = rows.emplace_back();
    for (std::string word; words >> word;) row.push_back(word);
  }
  return rows;
}

std::string text_of(Collective collective, std::int64_t least, std::int64_t most, std::int64_t gpus = 8) {
  return collectives_text(h100(gpus), tests::profile("generic-datasheet"), {collective, least, most}).value();
}

TEST(CollectivesText, ColumnsOfNcclTests) {
  const auto rows = rows_of(text_of(Collective::all_reduce, 8, std::int64_t{8} << 30));
  ASSERT_EQ(rows.size(), 31u);  // 2^3 to 2^33 bytes
  for (const auto& row : rows) ASSERT_EQ(row.size(), 9u);
  EXPECT_EQ(rows[0][0], "8");
  EXPECT_EQ(rows[0][1], "2");
  EXPECT_EQ((std::vector<std::string>{rows[0].begin() + 2, rows[0].begin() + 5}),
            (std::vector<std::string>{"float", "sum", "-1"}));
  EXPECT_EQ(rows[0][8], "N/A");
  // 8 GiB over sums in the switch: 25 us + 2^33 B / (0.708 * 80 % of 450 GB/s) = 33,726.9 us; bus bandwidth: 7/4 of
  // the 254.69 GB/s.
  EXPECT_EQ(rows[30][5], "33727");
  EXPECT_EQ(rows[30][6], "254.69");
  EXPECT_EQ(rows[30][7], "445.71");
}

TEST(CollectivesText, CountPerRankInMultiplesOf16Bytes) {
  // 1,000 bytes are 250 floats, 31 per rank, of which 28 are whole 16 bytes; eight of those are 896 bytes.
  const auto rows = rows_of(text_of(Collective::all_gather, 1000, 1000));
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0][0], "896");
  EXPECT_EQ(rows[0][1], "28");
  EXPECT_EQ(rows[0][3], "none");
  EXPECT_EQ(rows_of(text_of(Collective::broadcast, 1000, 1000))[0][4], "0");
}

TEST(CollectivesText, Sizes) {
  EXPECT_EQ(model::parse_binary_size("8", "--min").value(), 8);
  EXPECT_EQ(model::parse_binary_size("4K", "--min").value(), 4096);
  EXPECT_EQ(model::parse_binary_size("1M", "--min").value(), 1 << 20);
  EXPECT_EQ(model::parse_binary_size("8G", "--min").value(), std::int64_t{8} << 30);
  for (const char* wrong : {"", "0", "-8", "1.5", "8T", "8GB", "K", "9999999999999999999", "2000000G"})
    EXPECT_FALSE(model::parse_binary_size(wrong, "--min")) << wrong;
}

}  // namespace
}  // namespace plumbline::reports
