// Fits records of single kernels: those of `plumbline measure` without a plan, nccl-tests, and pauses of a trace.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "calibrate/fit/profile_fit.h"
#include "model/base/units.h"
#include "model/cost/collective_cost.h"
#include "tests/support/costs.h"

namespace plumbline::calibrate {
namespace {

constexpr double us = 1e-6;

Measurement record(const std::string& op, const std::string& case_line, double seconds) {
  Measurement m;
  m.source = "a test";
  m.device = "NVIDIA H100 80GB HBM3";
  m.date = "2026-11-23T04:00:00Z";
  m.op = op;
  m.case_line = case_line;
  m.variant = "burst";
  m.cache = "cold";
  m.sms = 132;
  m.time.p50 = seconds;
  return m;
}

// ramp + waves * (overhead + k * k_time) + written bytes / bandwidth, of tiles of 128 x 128 with 2 bytes a number, at
// 3 us, 0.5 us and 5.5 ns.
double gemm_seconds(double m, double n, double k, double bandwidth) {
  const double tiles = std::ceil(m / 128) * std::ceil(n / 128);
  return 3 * us + std::ceil(tiles / 132) * (0.5 * us + k * 5.5e-9) + tiles * 128 * 128 * 2 / bandwidth;
}

Measurement gemm(std::int64_t m, std::int64_t n, std::int64_t k, double seconds, const std::string& more = "") {
  Measurement made = record("gemm", "gemm phase=F format=bf16" + more, seconds);
  made.phase = "F";
  made.format = "bf16";
  made.shape = {{"m", m}, {"n", n}, {"k", k}, {"groups", 1}};
  made.flops = 2.0 * static_cast<double>(m * n * k);
  return made;
}

std::optional<double> value_of(const ProfileFit& fit, const std::string& name) {
  for (const model::Parameter& parameter : fit.parameters)
    if (parameter.name == name) return parameter.value * model::si_unit(parameter.unit)->factor;
  return std::nullopt;
}

bool has_note(const auto& noted, const std::string& text) {
  return std::ranges::any_of(noted.notes,
                             [&](const std::string& note) { return note.find(text) != std::string::npos; });
}

class SweepFits : public testing::Test {
 protected:
  void add(const Measurement& m) { files_[0].values.push_back(m); }
  FitRecords records() const { return fit_records(files_).value(); }

  const model::Profile base_ = tests::profile("generic-datasheet");
  std::vector<Measurements> files_ = std::vector<Measurements>(1);
};

TEST_F(SweepFits, ConstantsOfGemmsComeBack) {
  const model::Parameter& output = base_.parameters()[base_.find("memory.default.bandwidth").value()];
  const double bandwidth = output.value * model::si_unit(output.unit)->factor;
  for (const std::int64_t rows : {768, 1024, 4096, 8192})
    for (const std::int64_t columns : {1024, 4096, 7168})
      for (const std::int64_t k : {1024, 2048, 7168})
        add(gemm(rows, columns, k, gemm_seconds(double(rows), double(columns), double(k), bandwidth)));
  const FitRecords found = records();
  EXPECT_EQ(found.machine, MachineKind::gpu);
  EXPECT_EQ(found.gemms.size(), 36u);
  const ProfileFit fit = fit_profile(found, base_, "a test");
  EXPECT_NEAR(value_of(fit, "gemm.bf16.k_time").value(), 5.5e-9, 0.01e-9);
  EXPECT_NEAR(value_of(fit, "gemm.ramp").value(), 3 * us, 0.1 * us);
}

TEST_F(SweepFits, OperandsInMemoryCountWhereBothWereMeasured) {
  Measurement hot = gemm(4096, 4096, 4096, 150 * us), only_hot = gemm(4096, 4096, 1024, 50 * us, " name=b");
  hot.cache = only_hot.cache = "hot";
  add(hot);
  add(gemm(4096, 4096, 4096, 160 * us));
  add(only_hot);
  files_[0].environments.push_back({"a test", hot.device, hot.date, 132, R"({"event_pair_us":1.7})"});
  const FitRecords found = records();
  ASSERT_EQ(found.gemms.size(), 2u);
  EXPECT_NEAR(found.gemms[0].seconds, 158.3 * us, 1e-9);  // 160 us hold a pair of events of 1.7 us
  EXPECT_NEAR(found.gemms[1].seconds, 50 * us, 1e-9);     // hot records are timed without events
  EXPECT_TRUE(has_note(found, "1 record of gemm: operands in the cache"));
}

TEST_F(SweepFits, RowsThatNoFormDescribesAreLeftOutByName) {
  add(gemm(4096, 4096, 4096, 160 * us));
  add(gemm(8192, 4096, 7168, 900 * us, " groups=4 rows_by=zipf"));
  add(gemm(8192, 4096, 7168, 2000 * us, " groups=4 way=grouped"));
  Measurement held = gemm(4096, 4096, 4096, 170 * us, " soak=2");
  held.variant = "sustained";
  add(held);
  Measurement wrong = gemm(4096, 4096, 512, 30 * us, " name=wrong");
  wrong.check = Check{0.5, 0.01, false, ""};
  add(wrong);
  add(record("host_to_device", "host_to_device bytes=1", 1 * us));
  const FitRecords found = records();
  EXPECT_EQ(found.gemms.size(), 1u);
  for (const char* left : {"gemm: uneven rows", "gemm: all groups in one call", "gemm: held for seconds",
                           "gemm: wrong results", "host_to_device"})
    EXPECT_TRUE(has_note(found, std::string("1 record of ") + left)) << left;
}

TEST_F(SweepFits, GroupsThatRunOneBehindTheOtherAreThatManyLaunches) {
  Measurement grouped = gemm(8192, 4096, 7168, 2600 * us, " groups=4");
  grouped.shape.back().second = 4;
  add(grouped);
  EXPECT_EQ(records().gemms.at(0).launches, 4);
}

TEST_F(SweepFits, TheSlowdownIsThatAgainstTheSameKernelInTurns) {
  // 20 of 132 SMs are held: 132/112 as long is no slowdown, 1.25 times that is one of 1.25.
  for (const auto& [variant, ctas, seconds] :
       {std::tuple{"alone", 0, 100 * us}, {"beside", 20, 100 * us * 1.25 * 132 / 112}}) {
    Measurement m = gemm(4096, 4096, 4096, seconds, " kernel=gemm ctas=20");
    m.cache = "hot";
    m.variant = variant;
    m.communication_sms = ctas;
    if (ctas > 0) m.copy_to = "device";
    add(m);
  }
  const ProfileFit fit = fit_profile(records(), base_, "a test");
  EXPECT_NEAR(value_of(fit, "gemm.slowdown_beside_transfer").value(), 1.25, 1e-4);
}

TEST_F(SweepFits, LaunchesCostTheStreamAndTheHost) {
  const auto add_time = [&](const std::string& op, const std::string& variant, double seconds) {
    Measurement m = record(op, op, seconds);
    m.variant = variant;
    m.cache = "";
    add(m);
  };
  add_time("launch", "host_call", 4 * us);
  add_time("launch", "stream_gap", 1.8 * us);
  add_time("launch", "graph_node", 0.8 * us);
  add_time("launch", "round_trip", 13 * us);
  add_time("graph", "host_call", 1.5 * us);
  add_time("graph", "replay", 90 * us);
  const ProfileFit fit = fit_profile(records(), base_, "a test");
  EXPECT_NEAR(value_of(fit, "kernel.launch_gap").value(), 1.8 * us, 1e-9);
  EXPECT_NEAR(value_of(fit, "host.launch").value(), 4 * us, 1e-9);
  EXPECT_NEAR(value_of(fit, "host.synchronization").value(), 13 * us, 1e-9);
  EXPECT_NEAR(value_of(fit, "host.graph_launch").value(), 1.5 * us, 1e-9);
}

TEST_F(SweepFits, TimesOfAStepHoldTheirGapsAndOthersGetThem) {
  Measurement gap = record("launch", "launch", 2 * us);
  gap.variant = "stream_gap";
  add(gap);
  add(gemm(4096, 4096, 4096, 160 * us));
  Measurement of_step = gemm(4096, 4096, 2048, 90 * us);
  of_step.op = "matmul";
  of_step.variant = "in_step";
  add(of_step);
  const FitRecords found = records();
  EXPECT_TRUE(found.holds_gaps);
  ASSERT_EQ(found.gemms.size(), 2u);
  EXPECT_NEAR(found.gemms[0].seconds, 162 * us, 1e-9);
  EXPECT_NEAR(found.gemms[1].seconds, 90 * us, 1e-9);
  EXPECT_EQ(value_of(fit_profile(found, base_, "a test"), "kernel.launch_gap"), 0);
}

// The cost function of a profile with other links makes the times; the fit returns its constants.
TEST_F(SweepFits, ConstantsOfCollectivesComeBack) {
  std::vector<model::Parameter> parameters = base_.parameters();
  for (const auto& [name, value] : {std::pair{"network.nvlink_rate", 300.0}, {"collective.nvlink_latency_scale", 1.7}})
    parameters[base_.find(name).value()].value = value;
  const model::Profile truth("truth", "", parameters);
  model::ClusterShape cluster;
  cluster.gpus_per_node = cluster.nics_per_node = 1;
  const auto line = [&](const char* name) {
    const model::Parameter& p = base_.parameters()[base_.find(name).value()];
    return model::BytesPerSecond(p.value * model::si_unit(p.unit)->factor);
  };
  cluster.intra_node_bandwidth = line("network.nvlink_line_rate");
  cluster.nic_bandwidth = line("network.nic_line_rate");
  const auto cost = model::CollectiveCost::make(truth, cluster).value();
  for (const char* op : {"all_reduce", "all_gather"})
    for (double bytes = 65536; bytes < 1e9; bytes *= 4) {
      const double seconds = cost.time(model::parse_collective(op).value(), {8, 8}, model::Bytes(bytes));
      Measurement m = record(op, "", seconds);
      m.variant = "out_of_place";
      m.cache = "";
      m.shape = {{"bytes", static_cast<std::int64_t>(bytes)}, {"ranks", 8}, {"nodes", 1}};
      add(m);
    }
  const ProfileFit fit = fit_profile(records(), base_, "a test");
  EXPECT_NEAR(value_of(fit, "network.nvlink_rate").value(), 300e9, 1e9);
  EXPECT_NEAR(value_of(fit, "collective.nvlink_latency_scale").value(), 1.7, 0.2);
  EXPECT_FALSE(value_of(fit, "network.nic_rate"));
}

TEST_F(SweepFits, AGpuIsComparedFamilyByFamily) {
  for (const std::int64_t k : {1024, 2048, 4096, 8192}) add(gemm(4096, 4096, k, 1 * us));
  Measurement norm = record("rmsnorm", "rmsnorm", 1 * us);
  norm.bytes = 4e8;
  add(norm);
  const model::Device device = tests::h800_device();
  const GpuComparison first = compare_gpu(records(), base_, device).value();
  ASSERT_EQ(first.families.size(), 2u);
  EXPECT_EQ(first.families[0].name, "GEMMs bf16");
  EXPECT_EQ(first.families[0].records, 4u);
  EXPECT_FALSE(first.families[0].normal());
  // Times as predicted: that of each record is its time over its ratio.
  EXPECT_EQ(first.families[1].name, "memory-bound: norm");
  files_[0].values.back().time.p50 = 1 * us / first.families[1].median;
  const GpuComparison second = compare_gpu(records(), base_, device).value();
  EXPECT_NEAR(second.families[1].median, 1, 1e-9);
  EXPECT_TRUE(second.families[1].normal());
}

// Decoding has kernels of its own: no constant of training rests on them, but a GPU is compared with them.
TEST_F(SweepFits, GemmsOfFewRowsAreComparedOnly) {
  add(gemm(4096, 4096, 4096, 160 * us));
  add(gemm(64, 7168, 16384, 60 * us));
  Measurement cached = record("cached_attention", "cached_attention format=bf16", 200 * us);
  cached.flops = cached.bytes = 1e9;
  add(cached);
  const FitRecords found = records();
  EXPECT_EQ(found.gemms.size(), 1u);
  EXPECT_EQ(found.small_gemms.size(), 1u);
  EXPECT_TRUE(found.memory.empty());
  EXPECT_FALSE(has_note(found, "few rows"));  // a refinement uses them
  EXPECT_TRUE(has_note(fit_profile(found, base_, "a test"), "1 record of gemm: few rows"));
  EXPECT_TRUE(has_note(found, "1 record of cached_attention: plumbline's own kernel"));
  const GpuComparison gpu = compare_gpu(found, base_, tests::h800_device()).value();
  ASSERT_EQ(gpu.families.size(), 2u);
  EXPECT_EQ(gpu.families[1].name, "GEMMs bf16, few rows");
}

// No constant is that of another format, whatever the rows.
TEST_F(SweepFits, GemmsOfAFormatWithoutAFormAreLeftOutByName) {
  for (const char* format : {"mxfp8", "BF16"})
    for (const std::int64_t m : {64, 4096}) {
      add(gemm(m, 7168, 16384, 300 * us, std::string(" as=") + format));
      files_[0].values.back().format = format;
    }
  add(gemm(8192, 4096, 4096, 160 * us));
  files_[0].values.back().format = "";
  // One of a plan that ran has its own time.
  Measurement step = gemm(4096, 7168, 16384, 300 * us);
  step.op = "matmul";
  step.case_line = "matmul-F-mxfp8-4096x16384-7168x16384-to-4096x7168-tb";
  step.variant = "in_step";
  step.format = "mxfp8";
  add(step);
  const FitRecords found = records();
  EXPECT_EQ(found.gemms.size(), 1u);
  EXPECT_EQ(found.divided.size(), 1u);
  EXPECT_TRUE(found.small_gemms.empty());
  EXPECT_TRUE(has_note(found, "2 records of gemm: format 'mxfp8' is not bf16"));
  EXPECT_TRUE(has_note(found, "2 records of gemm: format 'BF16' is not bf16"));
}

// A table of one's own may have no column for the phase.
TEST_F(SweepFits, GemmsWithoutAPhaseAreForward) {
  add(gemm(64, 7168, 16384, 60 * us));
  files_[0].values.back().phase = "";
  EXPECT_EQ(records().small_gemms.size(), 1u);
}

}  // namespace
}  // namespace plumbline::calibrate
