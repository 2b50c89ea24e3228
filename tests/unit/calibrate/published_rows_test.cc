// Tables of published GEMMs and all-to-alls, and the cost question of an all-to-all's row.
#include <gtest/gtest.h>

#include <string>

#include "calibrate/validate/case_evaluation.h"
#include "calibrate/validate/detail/case_rows.h"
#include "tests/support/inputs.h"
#include "tests/support/step_inputs.h"
#include "tests/support/temporary_directory.h"

namespace plumbline::calibrate {
namespace {

// Rows that a table refuses, with the line, the column and the reason.
class PublishedRows : public testing::Test {
 protected:
  const tests::TemporaryDirectory folder_;
  std::string path_ = (folder_.path() / "rows.csv").string();

  void write(const std::string& header, const std::string& line) const {
    folder_.write("rows.csv", "# a comment\n" + header + "\n" + line + "\n");
  }
};

TEST_F(PublishedRows, OfGemms) {
  const auto expect = [&](const std::string& line, const char* column, const char* message) {
    write("id,kernel,dtype,groups,m,n,k,time_us,source", line);
    const auto read = read_published_gemms(path_);
    ASSERT_FALSE(read.has_value()) << line;
    tests::expect_error(read.error(), model::ErrorKind::input, path_, 3, column, message);
  };
  write("id,kernel,dtype,groups,m,n,k,time_us,source", "a,b,bf16 in,1,64,32,16,2.5,c");
  const auto read = read_published_gemms(path_);
  ASSERT_TRUE(read.has_value()) << to_string(read.error());
  EXPECT_EQ(read->at(0).gemm.type, model::Precision::bf16);
  EXPECT_EQ(read->at(0).gemm.n, 32);
  EXPECT_DOUBLE_EQ(read->at(0).seconds, 2.5e-6);
  expect("a,b,bf16,1,64.5,32,16,2.5,c", "m", "'64.5' is no whole number");
  expect("a,b,bf16,1,64,2e9,16,2.5,c", "n", "up to a billion");
  expect("a,b,bf16,1,64,32,0,2.5,c", "k", "'0' is no number above 0");
  expect("a,b,bf16,1,64,32,16,x,c", "time_us", "'x' is no number above 0");
  expect("a,b,int9,1,64,32,16,2.5,c", "dtype", "begins with no known number format");
  expect("a,b,bf16,1,64,32,16,2.5", "", "8 cells under 9 columns");
}

TEST_F(PublishedRows, OfAllToAlls) {
  const std::string header =
      "id,kernel_mode,ep,tokens_per_rank,hidden,topk,groups,dispatch_dtype,dispatch_gbps,combine_gbps,link,"
      "physical_ib_dispatch_gbps,physical_ib_combine_gbps,source";
  const auto expect = [&](const std::string& line, const char* column, const char* message) {
    write(header, line);
    const auto read = read_published_all_to_alls(path_);
    ASSERT_FALSE(read.has_value()) << line;
    tests::expect_error(read.error(), model::ErrorKind::input, path_, 3, column, message);
  };
  write(header, "a,low-latency,,,,,,,,,,,,b");
  EXPECT_EQ(read_published_all_to_alls(path_).value().size(), 0u);
  write(header, "a,normal,8,4096,7168,8,4,fp8,153,158,NVLink,,,b");
  EXPECT_DOUBLE_EQ(read_published_all_to_alls(path_).value().at(0).dispatch_rate, 153e9);
  expect("a,normal,,4096,7168,8,4,fp8,153,158,NVLink,,,b", "ep", "'' is no number above 0");
  expect("a,normal,48,4096,7168,8,4,fp8,153,158,RDMA,1,1,b", "ep", "256 experts do not divide over '48' ranks");
  expect("a,normal,1,4096,7168,8,4,fp8,153,158,NVLink,,,b", "ep", "one rank has nothing to send");
  expect("a,normal,8,4096,7168,8,4,fp7,153,158,NVLink,,,b", "dispatch_dtype", "fp7");
  expect("a,normal,8,4096,7168,8,4,fp8,153,158,PCIe,,,b", "link", "neither NVLink nor RDMA");
  expect("a,normal,16,4096,7168,8,4,fp8,43,43,RDMA,,21.5,b", "physical_ib_dispatch_gbps", "no number above 0");
}

// On one node 7/8 of what a GPU receives comes from others, at the profile's 134 GB/s, whatever is sent. The SMs, which
// are not what limits it there, add less than a hundredth.
TEST(SingleAllToAll, AsksTheCostFunction) {
  const auto inputs = tests::step_inputs(tests::deepseek_plan, "h800-public");
  const auto all_to_alls = SingleAllToAlls::make(inputs.profile, inputs.cluster).value();
  AllToAllQuestion question{.link = AllToAllQuestion::Link::nvlink,
                            .ranks = 8,
                            .tokens = 4096,
                            .hidden = 7168,
                            .experts_per_token = 8,
                            .nodes_per_token = 4};
  EXPECT_NEAR(all_to_alls.rate(question), 134e9 * 8 / 7, 1.5e9);
  question.direction = AllToAllQuestion::Direction::combine;
  EXPECT_NEAR(all_to_alls.rate(question), 134e9 * 8 / 7, 1.5e9);
  question.link = AllToAllQuestion::Link::nic;
  EXPECT_EQ(all_to_alls.rate(question), 0);  // nothing leaves the node
  // On 8 nodes, of which a token reaches four, the NIC is the longer leg. It is not when a token reaches two.
  question.ranks = 64;
  EXPECT_NEAR(all_to_alls.rate(question), 43.8e9, 0.4e9);
  question.nodes_per_token = 1;
  EXPECT_LT(all_to_alls.rate(question), 43e9);
  question.experts_per_token = 256;  // more than a node has: all 32 of it
  EXPECT_GT(all_to_alls.rate(question), 0);
  const Figure asked{.metric = "combine_rate", .unit = "GB/s", .scale = 1e-9, .all_to_all = question};
  EXPECT_DOUBLE_EQ(predicted(asked, {.all_to_alls = &all_to_alls}).value(), all_to_alls.rate(question) / 1e9);
  EXPECT_EQ(predicted(asked, {}), std::nullopt);
  EXPECT_EQ(baseline(asked, {}), std::nullopt);  // a constant share of the peak predicts no all-to-all
  const model::Profile empty("empty", "", {});
  const auto none = SingleAllToAlls::make(empty, inputs.cluster);
  ASSERT_FALSE(none.has_value());
  EXPECT_NE(none.error().message.find("lacks the constant"), std::string::npos) << to_string(none.error());
}

}  // namespace
}  // namespace plumbline::calibrate
