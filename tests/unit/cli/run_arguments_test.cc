// Checks which options of `plumbline run` may be combined.
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "cli/detail/run.h"

namespace plumbline::cli {
namespace {

std::string refused(const std::function<void(RunArguments&)>& change, const std::string& backend = "cuda") {
  RunArguments arguments;
  arguments.backend = backend;
  change(arguments);
  const auto valid = check_run_arguments(arguments);
  return valid ? "" : valid.error().key;
}

TEST(RunArguments, AreFineAsTheyAre) {
  const auto nothing = [](RunArguments&) {};
  EXPECT_EQ(refused(nothing), "");
  EXPECT_EQ(refused(nothing, "host"), "");
  EXPECT_EQ(refused(nothing, "tpu"), "--backend");
}

TEST(RunArguments, OfTheHostAreNotOfAGpu) {
  const std::pair<std::string, std::function<void(RunArguments&)>> options[] = {
      {"--clock", [](RunArguments& a) { a.clock = "cpu"; }},
      {"--cores", [](RunArguments& a) { a.cores = 2; }},
      {"--communication-cores", [](RunArguments& a) { a.communication_cores = 2; }},
      {"--accumulation", [](RunArguments& a) { a.accumulation = "fp16"; }}};
  for (const auto& [name, set] : options) {
    EXPECT_EQ(refused(set, "cuda"), name);
    EXPECT_EQ(refused(set, "host"), "") << name;
  }
}

TEST(RunArguments, OfAGpuAreNotOfTheHost) {
  const std::pair<std::string, std::function<void(RunArguments&)>> options[] = {
      {"--device", [](RunArguments& a) { a.device = 1; }},
      {"--sm-target", [](RunArguments& a) { a.target_sms = 112; }},
      {"--emulate", [](RunArguments& a) { a.emulated = 3; }},
      {"--lib-dir", [](RunArguments& a) { a.library_folders = {"/opt/nvidia"}; }},
      {"--kernels", [](RunArguments& a) { a.kernels = "kernels.json"; }}};
  for (const auto& [name, set] : options) {
    EXPECT_EQ(refused(set, "host"), name);
    EXPECT_EQ(refused(set, "cuda"), "") << name;
  }
}

TEST(RunArguments, OfAnEmulatedRankSaveAndBalanceNothing) {
  const auto saving = [](RunArguments& a) { a.emulated = 0, a.options.checkpoint = "saved"; };
  EXPECT_EQ(refused(saving), "--checkpoint");
  const auto balancing = [](RunArguments& a) { a.emulated = 0, a.options.balance_speed = 0.001; };
  EXPECT_EQ(refused(balancing), "--balance");
}

TEST(RunArguments, AreInRange) {
  EXPECT_EQ(refused([](RunArguments& a) { a.emulated = -1; }), "--emulate");
  EXPECT_EQ(refused([](RunArguments& a) { a.device = -1; }), "--device");
  EXPECT_EQ(refused([](RunArguments& a) { a.target_sms = 0; }), "--sm-target");
  EXPECT_EQ(refused([](RunArguments& a) { a.options.steps = 0; }), "--steps");
  EXPECT_EQ(refused([](RunArguments& a) { a.options.resume = true; }), "--resume");
}

}  // namespace
}  // namespace plumbline::cli
