// Derives the curves of bandwidth over SMs in the shipped profiles again from the published tables.
#include "model/cost/detail/sm_curve.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/costs.h"
#include "tests/support/published.h"

namespace plumbline::tests {
namespace {

std::vector<Row> rows_of(const std::string& library, const std::string& hardware, int ranks,
                         const std::string& measure) {
  std::vector<Row> found;
  for (const Row& row : published("sm_vs_bandwidth"))
    if (row.at("library") == library && row.at("hardware") == hardware && row.at("measure") == measure &&
        number(row, "ranks") == ranks)
      found.push_back(row);
  return found;
}

TEST(SmCurves, HybridEpIsThePublishedTableOf64RanksOverInfiniBand) {
  const model::Profile shipped_profile = profile("h800");
  const std::vector<Row> rows = rows_of("HybridEP", "H100, IB inter-node", 64, "kernel only");
  ASSERT_EQ(rows.size(), 3u);  // 4, 8 and 16 SMs
  for (const auto& [kernel, column] :
       {std::pair("dispatch", "dispatch_fp8_gbps"), std::pair("combine", "combine_gbps")})
    for (const Row& row : rows) {
      const std::string name = "exchange.sm_curve.hybrid-ep." + std::string(kernel) + "." + row.at("sms");
      EXPECT_DOUBLE_EQ(shipped_profile.parameters()[shipped_profile.find(name).value()].value, number(row, column))
          << name;
    }
}

TEST(SmCurves, HybridEpSaturatesAtEightSms) {
  const model::Profile shipped_profile = profile("h800");
  for (const char* kernel : {"dispatch", "combine"}) {
    const model::SmCurve curve = model::SmCurve::read(shipped_profile, "hybrid-ep", kernel).value();
    EXPECT_EQ(curve.saturation(), 8) << kernel;
    EXPECT_LT(curve.share(4), 0.95) << kernel;
  }
}

// The profile assumes for deepep-v1 that bandwidth is proportional to the SMs. Its kernels on eight B200, where no
// network limits them, are within 13 % of proportional from 16 to 36 SMs: 246 and 482 GB/s of FP8 dispatch.
TEST(SmCurves, DeepEpScalesNearlyInProportion) {
  const std::vector<Row> rows = rows_of("DeepEP", "B200 x8 (NVLink)", 8, "TorchAPI");
  ASSERT_GE(rows.size(), 5u);
  const double per_sm = number(rows[0], "dispatch_fp8_gbps") / number(rows[0], "sms");
  for (const Row& row : rows) {
    if (number(row, "sms") > 36) continue;
    const double share = number(row, "dispatch_fp8_gbps") / (per_sm * number(row, "sms"));
    EXPECT_LE(share, 1) << row.at("sms");
    EXPECT_GE(share, 0.87) << row.at("sms");
  }
}

}  // namespace
}  // namespace plumbline::tests
