// The charts of measurements: the time that kernels lose when SMs are reserved for a copy, and the roofline.
#include <gtest/gtest.h>

#include <string>

#include "calibrate/measurement/measurement.h"
#include "reports/text/inputs/measurements_text.h"

namespace plumbline::reports {
namespace {

constexpr const char* header =
    "source,device,op,name,format,case,cache,variant,communication_ctas,target_sms,copy_to,time_us.p50\n";

LineChart chart_of(const std::string& lines) {
  return partition_chart(calibrate::parse_measurements(header + lines, "a.csv", {}).value());
}

TEST(PartitionChart, DividesByTheNearestTimeAloneOnAllSms) {
  const LineChart chart = chart_of(
      "s,H,gemm,q,bf16,a,hot,alone,0,0,,100\n"
      "s,H,gemm,q,bf16,b,hot,beside,8,0,device,110\n"
      "s,H,gemm,q,bf16,c,hot,alone,0,0,,200\n"  // clocks have fallen
      "s,H,gemm,q,bf16,c,hot,beside,20,0,device,300\n"
      "s,H,gemm,q,bf16,d,hot,alone,0,112,,250\n"  // by an algorithm for 112 SMs: no time alone on all of them
      "s,H,gemm,q,bf16,d,hot,beside,20,112,device,260\n"
      "s,H,rmsnorm,n,,e,hot,alone,0,0,,10\n"
      "s,H,rmsnorm,n,,e,hot,beside,20,0,device,12\n");
  ASSERT_EQ(chart.panels.size(), 3u);
  EXPECT_EQ(chart.panels[0].y_title, "GEMMs for all SMs");
  ASSERT_EQ(chart.panels[0].series.at(0).points.size(), 2u);
  EXPECT_EQ(chart.panels[0].series[0].name, "q bf16");
  EXPECT_EQ(chart.panels[0].series[0].points[0].x, 8);
  EXPECT_DOUBLE_EQ(*chart.panels[0].series[0].points[0].y, 1.1);
  EXPECT_DOUBLE_EQ(*chart.panels[0].series[0].points[1].y, 1.5);
  EXPECT_DOUBLE_EQ(*chart.panels[1].series.at(0).points.at(0).y, 1.3);
  EXPECT_EQ(chart.panels[2].y_title, "attention, memory-bound");
  EXPECT_DOUBLE_EQ(*chart.panels[2].series.at(0).points.at(0).y, 1.2);
}

TEST(PartitionChart, LeavesOutPacedCopiesAndKeepsGreenContextsApart) {
  const LineChart chart = chart_of(
      "s,H,gemm,q,bf16,a,hot,alone,0,0,,100\n"
      "s,H,gemm,q,bf16,b copy_gbps=50,hot,beside,20,0,device,110\n"
      "s,H,gemm,q,bf16,c,hot,beside,20,0,host,800\n"
      "s,H,gemm,q,bf16,d by=green,hot,alone,0,0,,130\n"
      "s,H,gemm,q,bf16,e by=green,hot,beside,16,116,device,140\n");
  ASSERT_EQ(chart.panels.size(), 1u);
  EXPECT_EQ(chart.panels[0].y_title, "green contexts");
  EXPECT_DOUBLE_EQ(*chart.panels[0].series.at(0).points.at(0).y, 1.4);
}

TEST(PartitionChart, WithoutMeasurementsIsEmpty) {
  EXPECT_TRUE(partition_chart({}).panels.empty());
  EXPECT_TRUE(chart_of("s,H,gemm,q,bf16,b,hot,beside,8,0,device,110\n").panels.empty());  // never measured alone
}

// A device of 1,000 TFLOP/s and 1 TB/s, and kernels of 1e15 FLOP.
constexpr const char* roofline_header = "source,device,op,name,format,case,cache,time_us.p50,flops,bytes\n";

LineChart roofline_of(const std::string& lines, const std::vector<topologies::KnownDevice>& devices = {}) {
  return roofline_chart(calibrate::parse_measurements(roofline_header + lines, "a.csv", {}).value(), devices);
}

// 1e15 FLOP over 1e12 B in 2 s are 500 TFLOP/s at 1,000 FLOP per byte; formats and caches have series of their own.
TEST(Roofline, PutsKernelsAtTheirNumbers) {
  const LineChart chart = roofline_of(
      "s,H,gemm,q,bf16,a,cold,2e6,1e15,1e12\n"
      "s,H,gemm,q,bf16,b,hot,1e6,1e15,1e12\n"
      "s,H,copy,c,,c,cold,1,,1e9\n");  // without FLOPs it has no place
  ASSERT_EQ(chart.panels.size(), 1u);
  ASSERT_EQ(chart.panels[0].series.size(), 2u);
  const LineChart::Series& cold = chart.panels[0].series[0];
  EXPECT_EQ(cold.name, "bf16");
  EXPECT_TRUE(cold.scattered);
  EXPECT_DOUBLE_EQ(cold.points.at(0).x, 1000);
  EXPECT_DOUBLE_EQ(*cold.points.at(0).y, 500);
  EXPECT_EQ(chart.panels[0].series[1].name, "bf16, operands in the cache");
  EXPECT_EQ(chart.subtitle, "median times; roofs: no datasheet known");
}

// Peak 1,000 TFLOP/s over 1 TB/s: the roofs meet at 1,000 FLOP per byte.
TEST(Roofline, RoofsMeetAtTheRidge) {
  topologies::KnownDevice known;
  known.device.name = "H";
  known.device.bf16_peak = model::FlopsPerSecond(1000e12);
  known.device.fp8_peak = model::FlopsPerSecond(0);
  known.device.memory_bandwidth = model::BytesPerSecond(1e12);
  const LineChart chart = roofline_of("s,H,gemm,q,bf16,a,cold,2e6,1e15,1e12\n", {known});
  ASSERT_EQ(chart.panels.at(0).series.size(), 3u);
  const LineChart::Series &peak = chart.panels[0].series[1], &memory = chart.panels[0].series[2];
  EXPECT_EQ(peak.name, "BF16 peak: 1,000 TFLOP/s");
  EXPECT_EQ(memory.name, "memory: 1,000 GB/s");
  EXPECT_DOUBLE_EQ(peak.points.front().x, 1000);
  EXPECT_DOUBLE_EQ(*peak.points.front().y, 1000);
  EXPECT_DOUBLE_EQ(memory.points.back().x, 1000);
  EXPECT_DOUBLE_EQ(*memory.points.back().y, 1000);
}

TEST(Roofline, DrawsWithoutMeasurements) { EXPECT_TRUE(roofline_chart({}, {}).panels.at(0).series.empty()); }

}  // namespace
}  // namespace plumbline::reports
