// Observations of a running GPU: clocks read concurrently with the steps, and its kernels as a trace.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "real/cuda/device/watch/clock_sampler.h"
#include "real/cuda/device/watch/kernel_trace.h"

namespace plumbline::real::cuda {
namespace {

using nlohmann::json;

ClockReading reading(int sm_mhz, double power_w, const std::string& throttle) {
  ClockReading result;
  result.sm_mhz = sm_mhz;
  result.power_w = power_w;
  result.throttle = throttle;
  return result;
}

TEST(ClockReading, IsTheMeanOfWhatWasRead) {
  ClockReading silent;
  const ClockReading mean = mean_of({reading(1980, 300, "none"), reading(1395, 700, "power_cap|sync_boost"), silent,
                                     reading(1401, 650, "power_cap")});
  EXPECT_EQ(mean.sm_mhz, 1592);  // 4776 / 3
  EXPECT_DOUBLE_EQ(mean.power_w.value(), 550);
  EXPECT_EQ(mean.throttle, "power_cap|sync_boost");
  EXPECT_FALSE(mean.memory_mhz);
  EXPECT_FALSE(mean.busy);
  EXPECT_EQ(mean_of({reading(1, 1, "none")}).throttle, "none");
  EXPECT_FALSE(mean_of({}).power_w);
}

TEST(ClockSampler, ReadsConcurrentlyAndDropsWhatWasTaken) {
  std::atomic<int> reads{0};
  std::atomic<int> power{100};
  ClockSampler sampler(
      [&] {
        ++reads;
        return reading(1000, power, "none");
      },
      std::chrono::milliseconds(1));
  const auto wait_for_reads = [&](int more) {
    const int before = reads;
    while (reads < before + more) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  wait_for_reads(5);
  EXPECT_DOUBLE_EQ(sampler.take().power_w.value(), 100);
  power = 700;
  wait_for_reads(3);  // the first of them may have begun before the change, and the last has not yet ended
  sampler.take();
  wait_for_reads(5);
  EXPECT_DOUBLE_EQ(sampler.take().power_w.value(), 700);
}

TEST(KernelTrace, HasATrackForEachStream) {
  const KernelActivity gemm{.name = "_ZN9plumbline4real4cuda5emptyEv",
                            .stream = 13,
                            .start_ns = 1'000'002'500,
                            .end_ns = 1'000'004'001,
                            .blocks = 132,
                            .threads = 384,
                            .registers = 168,
                            .shared_bytes = 1024};
  const KernelActivity copy{
      .name = "copy", .stream = 14, .start_ns = 1'000'000'000, .end_ns = 1'000'001'000, .bytes = 4096};
  const json trace = json::parse(kernel_trace({gemm, copy}));
  std::vector<json> slices;
  std::map<int, std::string> tracks;
  for (const json& event : trace["traceEvents"]) {
    if (event["ph"] == "X") slices.push_back(event);
    if (event["name"] == "thread_name") tracks[event["tid"]] = event["args"]["name"];
  }
  ASSERT_EQ(slices.size(), 2U);
  EXPECT_EQ(slices[0]["name"], "copy");
  EXPECT_EQ(slices[0]["ts"], 0);
  EXPECT_EQ(slices[0]["args"]["bytes"], 4096);
  EXPECT_EQ(slices[1]["name"], "plumbline::real::cuda::empty()");
  EXPECT_DOUBLE_EQ(slices[1]["ts"], 2.5);
  EXPECT_DOUBLE_EQ(slices[1]["dur"], 1.501);
  EXPECT_EQ(slices[1]["args"]["blocks"], 132);
  EXPECT_THAT(tracks, testing::ElementsAre(testing::Pair(13, "stream 13"), testing::Pair(14, "stream 14")));
  EXPECT_EQ(json::parse(kernel_trace({}))["traceEvents"].size(), 1U);
}

}  // namespace
}  // namespace plumbline::real::cuda
