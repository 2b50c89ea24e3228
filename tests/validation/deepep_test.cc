// Dispatch and combine alone, as published by DeepEP and arXiv 2505.09343. The shipped case tests the plan's own
// profile, whose NIC rates are those of an older version. This test uses the profile made from the version of the rows.
#include <gtest/gtest.h>

#include <string>

#include "calibrate/validate/case_evaluation.h"
#include "calibrate/validate/validation_case.h"
#include "tests/support/inputs.h"
#include "tests/support/step_inputs.h"

namespace plumbline::tests {
namespace {

calibrate::ValidationCase shipped_case() {
  const auto find = [](const std::string&, const std::string& name) {
    return model::Result<std::string>(shipped("calibrate/published/" + name + ".csv"));
  };
  return calibrate::load_case(shipped("calibrate/cases/h800-deepep.toml"), {find, shipped("calibrate/kernels.toml")})
      .value();
}

class PublicAllToAlls : public testing::Test {
 protected:
  double rate(const calibrate::Figure& figure) const {
    return calibrate::predicted(figure, {.all_to_alls = &all_to_alls_}).value();
  }

  const calibrate::ValidationCase case_ = shipped_case();

 private:
  const sim::Inputs inputs_ = step_inputs(deepseek_plan, shipped_profile("h800-public"));
  const calibrate::SingleAllToAlls all_to_alls_ =
      calibrate::SingleAllToAlls::make(inputs_.profile, inputs_.cluster).value();
};

TEST_F(PublicAllToAlls, AreWithinTheSameTolerances) {
  for (const calibrate::Figure& figure : case_.figures)
    EXPECT_EQ(figure.within(rate(figure)), true)
        << figure.group << ": " << figure.name << ": " << rate(figure) << ", printed " << figure.value;
}

// The rows to which its constants are fitted: the NVLink rate to dispatch on 8 ranks, the NIC rates to 64 ranks of the
// README. 153 GB/s times 7/8 is 133.9 and written as 134. The kernels run on the fewest SMs that cost at most 1 %.
TEST_F(PublicAllToAlls, GiveBackWhatTheyAreFittedOn) {
  int fitted = 0;
  for (const calibrate::Figure& figure : case_.figures) {
    const bool nvlink = figure.group == "over NVLink" && figure.metric == "dispatch_rate";
    const bool nic = figure.group == "over NICs, README" && figure.all_to_all->ranks == 64;
    if (!nvlink && !nic) continue;
    EXPECT_NEAR(rate(figure) / figure.value, 0.995, 0.0051) << figure.group << ": " << figure.name;
    ++fitted;
  }
  EXPECT_EQ(fitted, 3);
}

// On 16 ranks half of the tokens' nodes are the sender's own, but 7/8 of the rows that arrive on a node go on over
// NVLink. That leg is the longer one, so the NIC's own rate is not reached.
TEST_F(PublicAllToAlls, OfTwoNodesDoNotFillTheNics) {
  int asked = 0;
  for (const calibrate::Figure& figure : case_.figures) {
    if (figure.all_to_all->ranks != 16) continue;
    EXPECT_LT(rate(figure), 0.6 * 43.8e9 * figure.scale) << figure.name;
    ++asked;
  }
  EXPECT_EQ(asked, 4);
}

}  // namespace
}  // namespace plumbline::tests
