// Every shipped profile has all constants that the cost functions need, on the shipped topologies that name it and
// their devices; no topology defaults to datasheet rates where there are measured ones. Profiles that no topology names
// are tested on the H800 cluster.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "model/cost/communication_cost.h"
#include "model/cost/kernel_cost.h"
#include "model/profile/profile.h"
#include "tests/support/inputs.h"
#include "topologies/topology.h"

namespace plumbline::tests {
namespace {

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& file : std::filesystem::directory_iterator(shipped(folder)))
    if (file.path().extension() == ".toml") names.push_back(file.path().stem().string());
  std::ranges::sort(names);
  return names;
}

class Profiles : public testing::TestWithParam<std::string> {
 protected:
  const model::Profile profile_ = model::load_profile(shipped("calibrate/profiles/" + GetParam() + ".toml")).value();
  const std::vector<model::ClusterShape> clusters_ = clusters();

  // Returns the shapes of clusters of GPUs that the profile names, of 64 GPUs or of the largest number that is wired.
  std::vector<model::ClusterShape> clusters() const {
    const auto load = [](const std::string& name) {
      auto topology =
          topologies::load_topology(shipped("topologies/" + name + ".toml"), shipped("topologies/devices"), {}).value();
      topology.cluster.gpus = std::min<std::int64_t>(64, topologies::capacity(topology.fabric).gpus);
      return topology.cluster;
    };
    std::vector<model::ClusterShape> found;
    for (const std::string& name : names_in("topologies")) {
      model::ClusterShape cluster = load(name);
      if (std::ranges::count(profile_.devices(), cluster.device.name) > 0) found.push_back(std::move(cluster));
    }
    if (found.empty()) found.push_back(load("h800-rail-fat-tree"));
    return found;
  }

  double value(const std::string& name) const { return profile_.parameters().at(profile_.find(name).value()).value; }
  std::optional<double> found(const std::string& name) const {
    return profile_.find(name) ? std::optional(value(name)) : std::nullopt;
  }
  // Returns the families of communication kernels: the default of a plan, and those with tables of their own.
  std::set<std::string> families() const {
    const std::string first = "exchange.", last = ".dispatch.rank_rate";
    std::set<std::string> found = {"deepep-v1"};
    for (const model::Parameter& parameter : profile_.parameters()) {
      const std::string& name = parameter.name;
      if (name.starts_with(first) && name.ends_with(last) && name.size() > first.size() + last.size())
        found.insert(name.substr(first.size(), name.size() - first.size() - last.size()));
    }
    return found;
  }
};

TEST_P(Profiles, HaveEveryConstantOfTheKernels) {
  for (const model::ClusterShape& cluster : clusters_) {
    const auto cost = model::KernelCost::make(profile_, cluster.device);
    EXPECT_TRUE(cost) << cluster.device.name << ": " << to_string(cost.error());
  }
}

TEST_P(Profiles, HaveEveryConstantOfTheAllToAlls) {
  for (const model::ClusterShape& cluster : clusters_) {
    for (const std::string& family : families()) {
      const auto cost = model::CommunicationCost::make(profile_, cluster, {{7.5, 4}, 64}, {family, 0});
      ASSERT_TRUE(cost) << to_string(cost.error());
      EXPECT_LT(cost->communication_sms(), cluster.device.sms);  // some SMs are left for compute
      const bool needs_sms = value("communication.needs_sms") > 0;
      EXPECT_EQ(cost->communication_sms() > 0, needs_sms);
      EXPECT_EQ(cost->collective_sms() > 0, needs_sms);
    }
  }
}

TEST_P(Profiles, BlocksLeaveBetweenNothingAndAllOfAnSm) {
  for (const model::ClusterShape& cluster : clusters_) {
    for (const std::string block : {"notify", "transfer", "gemm", "streaming"}) {
      const auto of = [&](const char* what) { return value("block." + block + "." + what); };
      const model::Block resident{of("threads"), of("registers"), of("shared_memory")};
      // The constants are checked as they stand, without limits: a block that does not fit an SM has wrong constants.
      EXPECT_GT(resident.threads, 0) << block;
      EXPECT_LE(resident.threads, cluster.device.sm.threads) << block;
      EXPECT_LE(resident.threads * resident.registers, cluster.device.sm.registers) << block;
      EXPECT_LE(resident.shared_memory, cluster.device.sm.shared_memory) << block;
      EXPECT_GE(free_share(cluster.device.sm, resident), 0) << block;
      EXPECT_LE(free_share(cluster.device.sm, resident), 1) << block;
      EXPECT_GE(blocks_per_sm(cluster.device.sm, resident), 1) << block;
    }
  }
}

TEST_P(Profiles, SharesAndFactorsAreInTheirRanges) {
  EXPECT_GE(value("kernel.latency_share"), 0);
  EXPECT_LE(value("kernel.latency_share"), 1);
  EXPECT_GT(value("kernel.sustained_clock"), 0);
  EXPECT_LE(value("kernel.sustained_clock"), 1);
  EXPECT_GE(value("gemm.slowdown_beside_transfer"), 1);
  EXPECT_GE(value("attention.slowdown_beside_transfer"), 1);
  for (const model::Parameter& parameter : profile_.parameters()) {
    const bool saturation = parameter.name.ends_with(".saturation_sms");
    if (!saturation && !parameter.name.ends_with(".blocks_per_sm")) continue;
    EXPECT_GE(parameter.value, saturation ? 1 : 0) << parameter.name;
    const auto sms = static_cast<double>(clusters_.front().device.sms);
    EXPECT_LE(parameter.value, saturation ? sms : 32) << parameter.name;  // no SM holds more than 32 blocks
  }
}

TEST_P(Profiles, ExpertsOfOtherScalesAreSlowedDownWhereThoseInFp8Are) {
  for (const std::string format : {"mxfp8", "nvfp4"}) {
    const bool has = found("gemm." + format + ".k_time") && found("gemm.fp8.grouped_slowdown");
    EXPECT_EQ(has, found("gemm." + format + ".grouped_slowdown").has_value()) << format;
  }
}

// An operation on fewer bits switches fewer gates. A GEMM with a cast inside, read as one that the power limit slows,
// is what breaks this order. FP8 per tensor and per block are the same operation.
TEST_P(Profiles, EnergyOfAFlopFallsWithTheBits) {
  const auto energy = [&](const std::string& format) { return found("power.gemm." + format + ".energy_per_flop"); };
  for (const auto& [fewer, more] : {std::pair("nvfp4", "fp8"), std::pair("fp8", "bf16"),
                                    std::pair("fp8_tensor", "bf16"), std::pair("nvfp4", "bf16")}) {
    const auto low = energy(fewer), high = energy(more);
    if (low && high) {
      EXPECT_LT(*low, *high * 0.9) << fewer << " and " << more;
    }
  }
}

// What a power limit takes is in the clock, and a burst of milliseconds does not lower it to two thirds: a droop of
// more is a kernel of a library that is slow in long GEMMs.
TEST_P(Profiles, DroopIsNotCountedBesidePower) {
  if (!found("power.idle")) return;
  for (const std::string kind : {"bf16", "fp8", "fp8_tensor", "nvfp4"})
    EXPECT_LT(found("gemm." + kind + ".droop").value_or(0), 0.5) << kind;
}

INSTANTIATE_TEST_SUITE_P(Shipped, Profiles, testing::ValuesIn(names_in("calibrate/profiles")), [](const auto& test) {
  std::string name = test.param;
  std::ranges::replace(name, '-', '_');
  return name;
});

// A GPU of which kernels were measured is not predicted by what its datasheet promises.
TEST(DefaultProfiles, AreMeasuredWhereTheDeviceHasAMeasuredProfile) {
  std::set<std::string> measured;  // devices
  for (const std::string& name : names_in("calibrate/profiles")) {
    if (name.ends_with("-datasheet")) continue;
    const model::Profile profile = model::load_profile(shipped("calibrate/profiles/" + name + ".toml")).value();
    measured.insert(profile.devices().begin(), profile.devices().end());
  }
  EXPECT_GT(measured.size(), 10);
  for (const std::string& name : names_in("topologies")) {
    const auto topology =
        topologies::load_topology(shipped("topologies/" + name + ".toml"), shipped("topologies/devices"), {}).value();
    if (measured.contains(topology.cluster.device.name)) {
      EXPECT_FALSE(topology.cluster.default_profile.ends_with("-datasheet")) << name;
    }
  }
}

}  // namespace
}  // namespace plumbline::tests
