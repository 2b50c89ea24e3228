// Every shipped file of reliability can be read, states what it is and where each entry comes from; every device with
// NICs has one.
#include "calibrate/reliability/reliability.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "model/base/text_file.h"
#include "tests/support/inputs.h"

namespace plumbline::tests {
namespace {

TEST(ReliabilityFiles, SayWhatTheyAreAndWhereTheyComeFrom) {
  const std::string folder = shipped("calibrate/reliability");
  for (const std::string& name : model::names_in_folder(folder, ".toml")) {
    const auto data = calibrate::load_reliability(folder + "/" + name + ".toml");
    ASSERT_TRUE(data) << to_string(data.error());
    EXPECT_EQ(data->name, name);
    EXPECT_FALSE(data->description.empty());
    EXPECT_TRUE(std::ranges::any_of(data->failures, [](const auto& mode) { return mode.slows == 1; })) << name;
    for (const sim::FailureMode& mode : data->failures) EXPECT_GT(mode.per_gpu_hour, 0) << mode.name;
    for (const model::Parameter& constant : data->parameters) EXPECT_GT(constant.source.size(), 10u) << constant.name;
  }
}

TEST(ReliabilityFiles, CoverEveryDeviceOfAFabric) {
  for (const std::string& device : model::names_in_folder(shipped("topologies/devices"), ".toml"))
    EXPECT_EQ(calibrate::reliability_of_device(shipped("calibrate/reliability"), device).has_value(),
              device != "host-core")
        << device;
}

// arXiv 2407.21783 Table 5: the causes add up to the 419 unexpected interruptions of 54 days on 16,384 GPUs.
TEST(ReliabilityFiles, CausesOfLlama3AddUp) {
  const auto data = calibrate::load_reliability(shipped("calibrate/reliability/h100-llama3.toml")).value();
  double count = 0;
  for (const sim::FailureMode& mode : data.failures)
    if (mode.slows == 1) count += mode.per_gpu_hour * 16384 * 54 * 24;
  EXPECT_NEAR(count, 419, 1e-9);
}

}  // namespace
}  // namespace plumbline::tests
