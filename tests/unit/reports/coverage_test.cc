// What a prediction rests on, by origin of its constants.
#include <gtest/gtest.h>

#include "reports/text/step/summary.h"
#include "tests/support/example_result.h"
#include "tests/support/text_parts.h"

namespace plumbline::reports {
namespace {

model::StepResult with_constants() {
  using enum model::Evidence;
  model::StepResult result = support::example_result();
  const auto constant = [](const char* name, model::Evidence kind, const char* source, double share,
                           const char* stack = "") {
    return model::ProvenanceEntry{{.name = name, .kind = kind, .source = source, .stack = stack}, share};
  };
  result.provenance = {constant("gemm.bf16.k_time", fitted, "two thirds of 400 GEMMs", 0.5),
                       constant("memory.norm.bandwidth", assumed, "as h100 (2.9 TB/s, measured); the same memory", 0.2),
                       constant("network.nic_rate", assumed, "as exchange.dispatch.nic_rate (47.8 GB/s, fitted)", 0.1),
                       constant("exchange.notify", assumed, "as h100 (3.7 us, assumed), by device.sms 148/132", 0.06),
                       constant("collective.ring.ll.network_hop", published, "NCCL src/graph/tuning.cc", 0.05),
                       constant("kernel.rmsnorm.passes", fitted, "three steps", 0.04, "mine")};
  return result;
}

TEST(Coverage, DividesAStepByWhereItsConstantsComeFrom) {
  const model::StepResult result = with_constants();
  const model::Plan plan = support::example_plan();
  const std::string own = "h800-sxm", other = "h20-sxm";
  const std::vector<std::string> devices = {own};
  const std::string csv = coverage_csv({result, plan, own, devices});
  tests::expect_parts(
      csv, {"GEMMs,gemm.bf16.k_time,this GPU,fitted,0.5", "memory-bound kernels,memory.norm.bandwidth,another GPU",
            "collectives,network.nic_rate,assumed", "dispatch and combine,exchange.notify,assumed",
            "collectives,collective.ring.ll.network_hop,stated", "software,kernel.rmsnorm.passes,this GPU"});
  const std::string text = coverage_text({result, plan, own, devices});
  tests::expect_parts(
      text, {"nccl-tests", "Not measured on this GPU (4 of 4):", "as h100 (2.9 TB/s, measured); the same memory"});
  // What holds for one GPU was not measured on another.
  EXPECT_NE(coverage_csv({result, plan, other, devices}).find("gemm.bf16.k_time,another GPU"), std::string::npos);
  EXPECT_NE(coverage_csv({result, plan, other, {}}).find("gemm.bf16.k_time,this GPU"), std::string::npos);
}

// The bubble and the optimizer rest on all constants. Of what is left below a thousandth there is no row.
TEST(Coverage, AddsUpToTheStep) {
  model::StepResult result = with_constants();
  const std::string device = "h800-sxm";
  const auto row = [&](const std::string& name) {
    const std::string text = coverage_text({result, support::example_plan(), device, {}});
    const std::size_t begin = text.find("\n  " + name + "  ");
    return begin == std::string::npos ? "" : text.substr(begin, text.find('\n', begin + 1) - begin);
  };
  EXPECT_NE(row("not divided").find(" 5.0 %"), std::string::npos) << row("not divided");
  EXPECT_NE(row("step").find("100.0 %"), std::string::npos) << row("step");
  result.provenance.front().share_of_step += 0.0499;
  EXPECT_EQ(row("not divided"), "");
}

}  // namespace
}  // namespace plumbline::reports
