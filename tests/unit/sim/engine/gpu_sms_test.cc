// The SMs of one GPU: persistent kernels keep theirs to the end, and communication kernels wait for free SMs. All times
// in seconds; the durations make every expected time a whole number of picoseconds.
#include <gtest/gtest.h>

#include "sim/engine/gpu_model.h"
#include "tests/support/gpus.h"

namespace plumbline::sim {
namespace {

using model::Stream;
using tests::compute_time;
using tests::gemm_time;
using tests::GpuRun;
using tests::segment;
using tests::transfer_time;

// A communication kernel needs 20 of 132 SMs.
constexpr std::int64_t device_sms = 132;
constexpr std::int64_t held = 20;
constexpr bool kernel_by_kernel = true;

TEST(GpuSms, ATransferWaitsUntilAWideKernelEnds) {
  GpuRun gpu({{segment(Stream::compute), gemm_time(2, 132)},
              {segment(Stream::compute), gemm_time(3, 112)},
              {segment(Stream::communication), transfer_time(1, 1, {.prepare = 0.5}, held)}},
             device_sms, kernel_by_kernel);
  gpu.run();
  // It is prepared at 0.5 and acquires its SMs when the first kernel ends at 2, before the second begins.
  EXPECT_DOUBLE_EQ(gpu.prepared(2), 0.5);
  EXPECT_DOUBLE_EQ(gpu.arrival(2), 2);
  EXPECT_DOUBLE_EQ(gpu.end(2), 3);
  EXPECT_DOUBLE_EQ(gpu.end(1), 5);
}

TEST(GpuSms, ANarrowKernelLeavesFreeSms) {
  GpuRun gpu({{segment(Stream::compute), gemm_time(2, 112)},
              {segment(Stream::communication), transfer_time(1, 1, {.prepare = 0.5}, held)}},
             device_sms, kernel_by_kernel);
  gpu.run();
  EXPECT_DOUBLE_EQ(gpu.arrival(1), 0.5);
}

TEST(GpuSms, ATransferOfNoSmsDoesNotWait) {
  GpuRun gpu({{segment(Stream::compute), gemm_time(2, 132)}, {segment(Stream::communication), transfer_time(1, 1)}},
             device_sms, kernel_by_kernel);
  gpu.run();
  EXPECT_DOUBLE_EQ(gpu.end(1), 1);
}

// The time of a transfer that was measured in a step includes its wait for SMs.
TEST(GpuSms, AMeasuredTransferDoesNotWaitAgain) {
  SegmentTime measured = transfer_time(1, 3, {}, held);
  measured.wait_measured = true;
  GpuRun gpu({{segment(Stream::compute), gemm_time(4, 132)}, {segment(Stream::communication), measured}}, device_sms,
             kernel_by_kernel);
  gpu.run();
  EXPECT_DOUBLE_EQ(gpu.arrival(1), 0);
  EXPECT_DOUBLE_EQ(gpu.end(1), 3);
}

TEST(GpuSms, BetweenBarrierAndTransferAKernelMayAcquireTheSms) {
  // The kernel of the barrier ends before that of the transfer begins. A GEMM that began in between, on as many SMs as
  // with a waiting kernel, keeps them to its end.
  SegmentTime wide = gemm_time(4, 132);
  GpuRun gpu({{segment(Stream::compute), compute_time(1)},
              {segment(Stream::compute), wide},
              {segment(Stream::communication), transfer_time(1, 1, {.notify = 2}, held)}},
             device_sms, kernel_by_kernel);
  gpu.run();
  // The barrier takes 0..2, the GEMM 1..5; the transfer starts at 5.
  EXPECT_DOUBLE_EQ(gpu.arrival(2), 0);
  EXPECT_DOUBLE_EQ(gpu.transfer(2), 5);
  EXPECT_DOUBLE_EQ(gpu.end(2), 6);
  // A GEMM launched on the SMs that the barrier leaves takes none of the barrier's.
  wide.width = {132, 112, 112};
  GpuRun dynamic({{segment(Stream::compute), compute_time(1)},
                  {segment(Stream::compute), wide},
                  {segment(Stream::communication), transfer_time(1, 1, {.notify = 2}, held)}},
                 device_sms, kernel_by_kernel);
  dynamic.run();
  EXPECT_DOUBLE_EQ(dynamic.transfer(2), 2);
}

TEST(GpuSms, InASegmentOfManyKernelsTheWaitIsTheMean) {
  GpuRun gpu({{segment(Stream::compute), gemm_time(5, 132, 0.25)},
              {segment(Stream::communication), transfer_time(1, 1, {.prepare = 0.5, .notify = 1}, held)}},
             device_sms);
  gpu.run();
  // 0.25 s before the barrier and again before the transfer.
  EXPECT_DOUBLE_EQ(gpu.arrival(1), 0.75);
  EXPECT_DOUBLE_EQ(gpu.transfer(1), 2);
  EXPECT_DOUBLE_EQ(gpu.end(1), 3);
}

TEST(GpuSms, OfTwoSegmentsTheFirstKernelToEndGivesItsSms) {
  GpuRun gpu({{segment(Stream::compute), gemm_time(5, 112, 0.75)},
              {segment(Stream::weight_gradient), gemm_time(5, 112, 0.25)},
              {segment(Stream::communication), transfer_time(1, 1, {}, held)}},
             device_sms);
  gpu.run();
  // Ends come at rates of 1 / 0.75 and 1 / 0.25: the first after 3 / 16.
  EXPECT_DOUBLE_EQ(gpu.arrival(2), 0.1875);
}

TEST(GpuSms, OfTwoKernelsTheFirstHasTheSms) {
  GpuRun gpu({{segment(Stream::compute), compute_time(1)},
              {segment(Stream::compute), gemm_time(2, 132)},
              {segment(Stream::weight_gradient), gemm_time(3, 132)}},
             device_sms, kernel_by_kernel);
  gpu.run();
  // In 0..1 the GEMM shares the memory with an element-wise kernel: both have half speed until the latter ends at 2,
  // with a third of the GEMM done. The GEMM goes on to 4; the other, which finds no SM, stops until then.
  EXPECT_DOUBLE_EQ(gpu.end(0), 2);
  EXPECT_DOUBLE_EQ(gpu.end(2), 4);
  EXPECT_DOUBLE_EQ(gpu.start(1), 2);
  EXPECT_DOUBLE_EQ(gpu.end(1), 6);
  EXPECT_DOUBLE_EQ(gpu.compute_busy(), 6);
}

TEST(GpuSms, TheSecondKernelTakesWhatIsLeft) {
  GpuRun gpu({{segment(Stream::compute), gemm_time(2, 88)}, {segment(Stream::weight_gradient), gemm_time(3, 88)}},
             device_sms, kernel_by_kernel);
  gpu.run();
  // 44 of the second's 88 SMs are left: half speed, a third done at 2. Then it is alone: 2 of 3 s.
  EXPECT_DOUBLE_EQ(gpu.end(0), 2);
  EXPECT_DOUBLE_EQ(gpu.end(1), 4);
}

TEST(GpuSms, NarrowKernelsRunSideBySide) {
  for (const bool mode : {kernel_by_kernel, !kernel_by_kernel}) {
    GpuRun gpu({{segment(Stream::compute), gemm_time(2, 64)}, {segment(Stream::weight_gradient), gemm_time(3, 64)}},
               device_sms, mode);
    gpu.run();
    EXPECT_DOUBLE_EQ(gpu.end(0), 2);
    EXPECT_DOUBLE_EQ(gpu.end(1), 3);
  }
}

TEST(GpuSms, SegmentsOfManyKernelsShareTheSmsEvenly) {
  GpuRun gpu({{segment(Stream::compute), gemm_time(2, 132)}, {segment(Stream::weight_gradient), gemm_time(3, 132)}},
             device_sms);
  gpu.run();
  // Both have half speed until the first ends at 4; the second has 1 of 3 left.
  EXPECT_DOUBLE_EQ(gpu.end(0), 4);
  EXPECT_DOUBLE_EQ(gpu.end(1), 5);
}

TEST(GpuSms, ATransferNarrowsWhatGemmsShare) {
  SegmentTime narrow = gemm_time(2, 56);
  GpuRun gpu({{segment(Stream::compute), gemm_time(2, 56)},
              {segment(Stream::weight_gradient), gemm_time(2, 84)},
              {segment(Stream::communication), transfer_time(10, 10, {}, held)}},
             device_sms);
  gpu.run();
  // Together they need 56 + 84 = 140 of 112 SMs: both are 1.25 times as slow.
  EXPECT_DOUBLE_EQ(gpu.transfer(2), 0);
  EXPECT_DOUBLE_EQ(gpu.end(0), 2.5);
  EXPECT_DOUBLE_EQ(gpu.end(1), 2.5);
}

}  // namespace
}  // namespace plumbline::sim
