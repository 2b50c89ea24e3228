// What is measured is what calibration reads: every case of the probe's built-in sweep, every variant of it, and the
// records that the repository keeps.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "calibrate/measurement/measurement.h"
#include "real/cuda/probe/record.h"
#include "real/cuda/probe/sweep.h"
#include "tests/support/inputs.h"

namespace plumbline::tests {
namespace {

namespace probe = real::cuda;

const probe::RecordContext context = {"NVIDIA H200", 132, "2026-11-21T10:00:00Z"};

// Twice the floor time, so that no rate is above the datasheet.
std::vector<double> believable_samples(const probe::Case& what) {
  const double floor = std::max(1.0, probe::floor_us(what, *probe::find_peak("h200")));
  return {2 * floor, 2.1 * floor, 2.2 * floor};
}

probe::Measurement measured(const probe::Case& what, const probe::VariantKey& variant) {
  probe::Measurement m;
  m.what = what;
  m.variant = variant;
  m.samples_us = believable_samples(what);
  m.work = probe::work_of(what);
  m.running_ctas = variant.variant == "beside" ? what.ctas : 0;
  m.copy_gbps = m.running_ctas > 0 ? 250.5 : 0;
  m.check = probe::CheckOutcome{1e-3, 1e-2, true, "a note"};
  m.clock = {1755, 3201, 612.5, 54.0, 0.97, "none"};
  m.algorithm.integer("tile", 21).text("library", "cuBLASLt");
  m.note = "commas, \"quotes\" and a\nline break";
  return m;
}

TEST(ProbeRecords, AreReadByCalibration) {
  std::string text =
      probe::environment_line(probe::JsonLine().text("driver", "580.95").integer("l2_bytes", 50), context);
  text += '\n';
  std::size_t written = 0;
  const std::vector<probe::Case> sweep = probe::built_in_sweep();
  for (const probe::Case& what : sweep) {
    for (const probe::VariantKey& variant : probe::variants_of(what)) {
      text += probe::measurement_line(measured(what, variant), context) + '\n';
      ++written;
    }
    text += probe::failure_line(what, "a reason", context) + '\n';
  }
  const auto devices = topologies::load_devices(shipped("topologies/devices")).value();
  const auto read = calibrate::parse_measurements(text, "probe.jsonl", devices);
  ASSERT_TRUE(read) << to_string(read.error());
  EXPECT_GT(written, sweep.size());
  EXPECT_EQ(read->values.size(), written);
  EXPECT_EQ(read->failures.size(), sweep.size());
  EXPECT_EQ(read->environments.size(), 1u);
  EXPECT_TRUE(read->notes.empty());
}

TEST(ProbeRecords, KeepTheirValues) {
  const probe::Case what = probe::parse_case("gemm name=a phase=W format=bf16 m=256 n=512 k=1024 groups=2").value;
  const auto read = calibrate::parse_measurements(
      probe::measurement_line(measured(what, {"cold", "burst"}), context) + "\n", "probe.jsonl", {});
  ASSERT_TRUE(read) << to_string(read.error());
  const calibrate::Measurement& m = read->values.at(0);
  EXPECT_EQ(m.shape, (calibrate::Shape{{"m", 256}, {"n", 512}, {"k", 1024}, {"groups", 2}}));
  EXPECT_EQ(m.flops, 2.0 * 256 * 512 * 1024 * 2);
  EXPECT_EQ(m.case_line, probe::to_line(what));
  EXPECT_EQ(m.note, "commas, \"quotes\" and a\nline break");
  EXPECT_EQ(m.algorithm, R"({"tile":21,"library":"cuBLASLt"})");
  // The median of 2, 2.1 and 2.2 floor times.
  EXPECT_DOUBLE_EQ(m.time.p50 * 1e6, believable_samples(what)[1]);
}

TEST(KeptRecords, AreReadAndNameClockAndEnvironment) {
  const auto devices = topologies::load_devices(shipped("topologies/devices")).value();
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(shipped("calibrate/measured"))) {
    if (entry.path().extension() == ".json") continue;  // a step, no records
    const auto read = calibrate::load_measurements(entry.path().string(), devices);
    ASSERT_TRUE(read) << to_string(read.error());
    EXPECT_FALSE(read->values.empty()) << entry.path();
    EXPECT_FALSE(read->environments.empty()) << entry.path();
    for (const calibrate::Measurement& m : read->values) EXPECT_FALSE(m.variant.empty()) << entry.path() << m.op;
    ++files;
  }
  EXPECT_GT(files, 0U);
}

}  // namespace
}  // namespace plumbline::tests
