#include "calibrate/reliability/reliability.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/support/inputs.h"
#include "tests/support/temporary_directory.h"

namespace plumbline::calibrate {
namespace {

std::string constant_entry(const std::string& key, const std::string& value, const std::string& unit) {
  return key + " = { value = " + value + ", unit = \"" + unit + "\", kind = \"assumed\", source = \"a test\" }\n";
}
const std::string observed_days = "name = \"small\"\n[observed]\n" + constant_entry("gpu_days", "1000", "1");
const std::string other_entries =
    "[default]\n" + constant_entry("detect", "5", "min") + constant_entry("repair", "1", "day") + "[restart]\n" +
    constant_entry("time", "2", "min") + constant_entry("swap", "30", "s") + "[storage]\n" +
    constant_entry("all", "1", "TB/s") + constant_entry("node", "2", "GB/s") + constant_entry("ssd", "16", "GB/s") +
    constant_entry("every", "10", "1") + "[checkpoint]\n" + constant_entry("stall", "400", "ms") +
    constant_entry("neighbor_stall", "20", "ms") + constant_entry("commit", "2", "s");

model::Result<Reliability> read_reliability(const std::string& text) {
  const tests::TemporaryDirectory folder;
  folder.write("small.toml", text);
  return load_reliability((folder.path() / "small.toml").string());
}

TEST(Reliability, ReadsRatesAndTimes) {
  const auto data = read_reliability(
      observed_days + "[failure.\"faulty GPU\"]\n" + constant_entry("count", "24", "1") + "[failure.software]\n" +
      constant_entry("count", "12", "1") + constant_entry("repair", "0", "s") + constant_entry("detect", "10", "min") +
      "[failure.slow]\n" + constant_entry("count", "3", "1") + constant_entry("slows", "1.2", "1") +
      constant_entry("lasts", "1", "h") + other_entries);
  ASSERT_TRUE(data) << to_string(data.error());
  ASSERT_EQ(data->failures.size(), 3u);
  const sim::FailureMode &gpu = data->failures[0], &slow = data->failures[1], &software = data->failures[2];
  EXPECT_EQ(gpu.name, "faulty GPU");
  EXPECT_DOUBLE_EQ(gpu.per_gpu_hour, 1e-3);
  EXPECT_EQ(gpu.detect_s, 300);
  EXPECT_EQ(gpu.repair_s, 86400);
  EXPECT_EQ(gpu.slows, 1);
  EXPECT_EQ(slow.slows, 1.2);
  EXPECT_EQ(slow.lasts_s, 3600);
  EXPECT_EQ(software.repair_s, 0);
  EXPECT_EQ(software.detect_s, 600);
  EXPECT_EQ(data->restart_s, 120);
  EXPECT_EQ(data->swap_s, 30);
  EXPECT_EQ(data->storage.node, 2e9);
  EXPECT_EQ(data->storage.every, 10);
  EXPECT_DOUBLE_EQ(data->storage.stall_s, 0.4);
  EXPECT_DOUBLE_EQ(data->storage.neighbor_stall_s, 0.02);
  EXPECT_EQ(data->storage.commit_s, 2);
}

TEST(Reliability, NamesTheEntryThatIsWrong) {
  EXPECT_EQ(read_reliability("[failure.GPU]\n" + constant_entry("count", "1", "1") + other_entries).error().key,
            "observed.gpu_days");
  EXPECT_EQ(read_reliability(observed_days + "[failure.GPU]\n" + constant_entry("detect", "1", "s") + other_entries)
                .error()
                .key,
            "failure.GPU.count");
  const auto unit =
      read_reliability(observed_days + "[failure.GPU]\n" + constant_entry("count", "1", "h") + other_entries).error();
  EXPECT_EQ(unit.key, "failure.GPU.count");
  EXPECT_EQ(unit.line, 5);
  const auto unknown = read_reliability(observed_days + "[failure.GPU]\n" + constant_entry("count", "1", "1") +
                                        constant_entry("detects", "1", "s") + other_entries);
  EXPECT_EQ(unknown.error().key, "failure.GPU.detects");
  EXPECT_NE(unknown.error().hint.find("failure.GPU.detect"), std::string::npos);
  EXPECT_EQ(read_reliability(observed_days + "[failure.GPU]\n" + constant_entry("count", "-1", "1") + other_entries)
                .error()
                .key,
            "failure.GPU.count");
  EXPECT_EQ(reliability_of_device(tests::shipped("calibrate/reliability"), "abacus").error().kind,
            model::ErrorKind::infeasible);
}

}  // namespace
}  // namespace plumbline::calibrate
