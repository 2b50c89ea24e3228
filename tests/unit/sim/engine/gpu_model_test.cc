#include "sim/engine/gpu_model.h"

#include <gtest/gtest.h>

#include "tests/support/gpus.h"

namespace plumbline::sim {
namespace {

using model::Stream;
using tests::compute_time;
using tests::gemm_time;
using tests::GpuRun;
using tests::segment;
using tests::transfer_time;

// One GPU: in-order streams, waits between them, and rates that depend on the kernels that run at the same time. All
// times in seconds; the durations make every expected time a whole number of picoseconds.

TEST(GpuModel, AnEmptySlotEndsAtOnce) {
  GpuRun gpu({});
  gpu.run();
  EXPECT_EQ(gpu.slots_ended(), 1);
  EXPECT_DOUBLE_EQ(gpu.slot_end(), 0);
}

TEST(GpuModel, WaitsHoldAcrossStreams) {
  GpuRun gpu({{segment(Stream::compute), compute_time(1)},
              {segment(Stream::communication, {0}), transfer_time(2, 2)},
              {segment(Stream::compute), compute_time(1)},
              {segment(Stream::compute, {1}), compute_time(1)}});
  gpu.run();
  // The transfer waits for segment 0 and takes 1..3; segment 2 is overlapped with it; segment 3 waits for it.
  EXPECT_DOUBLE_EQ(gpu.start(1), 1);
  EXPECT_DOUBLE_EQ(gpu.end(1), 3);
  EXPECT_DOUBLE_EQ(gpu.start(2), 1);
  EXPECT_DOUBLE_EQ(gpu.end(2), 2);
  EXPECT_DOUBLE_EQ(gpu.start(3), 3);
  EXPECT_DOUBLE_EQ(gpu.end(3), 4);
  EXPECT_DOUBLE_EQ(gpu.compute_busy(), 3);  // 0..2 and 3..4
}

TEST(GpuModel, WhatWaitsHoldsUpItsStream) {
  GpuRun gpu({{segment(Stream::communication), transfer_time(3, 3)},
              {segment(Stream::compute, {0}), compute_time(1)},
              {segment(Stream::compute), compute_time(1)}});
  gpu.run();
  // Segment 2 is ready from the start but queued after segment 1, which waits until 3.
  EXPECT_DOUBLE_EQ(gpu.start(1), 3);
  EXPECT_DOUBLE_EQ(gpu.start(2), 4);
}

TEST(GpuModel, BothSlowEachOther) {
  GpuRun gpu({{segment(Stream::compute), compute_time(2, 4)}, {segment(Stream::communication), transfer_time(1, 3)}});
  gpu.run();
  // Both are slow until the transfer ends at 3: compute is 3/4 done, the last quarter takes 0.25 * 2.
  EXPECT_DOUBLE_EQ(gpu.end(1), 3);
  EXPECT_DOUBLE_EQ(gpu.end(0), 3.5);
}

TEST(GpuModel, TheRateChangesInTheMiddle) {
  GpuRun gpu({{segment(Stream::compute), compute_time(4, 8)},
              {segment(Stream::communication), transfer_time(2, 2, {.prepare = 1, .notify = 1})}});
  gpu.run();
  // Preparation and barrier slow no kernel: at 2 half is done. With the transfer 2..4 another 2/8. The last quarter
  // alone takes 0.25 * 4 = 1.
  EXPECT_DOUBLE_EQ(gpu.start(1), 0);
  EXPECT_DOUBLE_EQ(gpu.arrival(1), 1);
  EXPECT_DOUBLE_EQ(gpu.transfer(1), 2);
  EXPECT_DOUBLE_EQ(gpu.end(1), 4);
  EXPECT_DOUBLE_EQ(gpu.end(0), 5);
}

TEST(GpuModel, TwoComputeStreamsShareEvenly) {
  GpuRun gpu({{segment(Stream::compute), compute_time(1)}, {segment(Stream::weight_gradient), compute_time(3)}});
  gpu.run();
  // Each has half speed until the short one ends at 2; the long one has 2 of 3 left and is alone: 2 + 2.
  EXPECT_DOUBLE_EQ(gpu.end(0), 2);
  EXPECT_DOUBLE_EQ(gpu.end(1), 4);
  EXPECT_DOUBLE_EQ(gpu.compute_busy(), 4);  // the union of both
}

TEST(GpuModel, CopiesToAndFromTheHostRunConcurrently) {
  GpuRun gpu({{segment(Stream::compute), compute_time(2, 9)},
              {segment(Stream::to_host), transfer_time(3, 9)},
              {segment(Stream::from_host), transfer_time(4, 9)},
              {segment(Stream::to_host, {0}), transfer_time(1.5, 9)},
              {segment(Stream::compute, {2}), compute_time(1)}});
  gpu.run();
  // Copies slow no kernel: compute ends at 2 as if alone. Out: 0..3 and 3..4.5; in, at the same time: 0..4. The last
  // kernels wait for it, and the slot for all.
  EXPECT_DOUBLE_EQ(gpu.end(0), 2);
  EXPECT_DOUBLE_EQ(gpu.end(1), 3);
  EXPECT_DOUBLE_EQ(gpu.end(2), 4);
  EXPECT_DOUBLE_EQ(gpu.end(3), 4.5);
  EXPECT_DOUBLE_EQ(gpu.start(4), 4);
  EXPECT_DOUBLE_EQ(gpu.slot_end(), 5);
  EXPECT_DOUBLE_EQ(gpu.compute_busy(), 3);
}

TEST(GpuModel, SharingAndInterferenceMultiply) {
  GpuRun gpu({{segment(Stream::compute), compute_time(1, 2)},
              {segment(Stream::weight_gradient), compute_time(1, 2)},
              {segment(Stream::communication), transfer_time(4, 4)}});
  gpu.run();
  // Each takes 1 alone, 2 with the transfer, 4 where they share the GPU as well.
  EXPECT_DOUBLE_EQ(gpu.end(0), 4);
  EXPECT_DOUBLE_EQ(gpu.end(1), 4);
}

TEST(GpuModel, RowsStretchCompute) {
  SegmentTime time = compute_time(2, 3);
  time.compute_per_row = {1, 1.5, 2};
  GpuRun gpu({{segment(Stream::compute), time}, {segment(Stream::compute), time}});
  gpu.run({1.5, 0.5});
  EXPECT_DOUBLE_EQ(gpu.end(0), 2.5);        // 2 + 0.5 * 1
  EXPECT_DOUBLE_EQ(gpu.end(1), 2.5 + 1.5);  // 2 - 0.5 * 1
}

TEST(GpuModel, FewRowsNeverTakeNegativeTime) {
  SegmentTime time = compute_time(1);
  time.compute_per_row[0] = 3;  // wave steps can make the slope steeper than the time itself
  GpuRun gpu({{segment(Stream::compute), time}});
  gpu.run({0.0});
  EXPECT_DOUBLE_EQ(gpu.end(0), 0);  // 1 - 3 would be in the past
}

TEST(GpuModel, RunsOneSlotAfterAnother) {
  GpuRun gpu({{segment(Stream::compute), compute_time(2, 4)}, {segment(Stream::communication), transfer_time(1, 1)}});
  gpu.run({}, 2);
  // With the transfer until 1 a quarter is done, then 0.75 * 2 alone: 2.5, twice.
  EXPECT_EQ(gpu.slots_ended(), 2);
  EXPECT_DOUBLE_EQ(gpu.start(0), 2.5);
  EXPECT_DOUBLE_EQ(gpu.slot_end(), 5);
  EXPECT_DOUBLE_EQ(gpu.compute_busy(), 5);
}

TEST(GpuModel, WaitingAndTransferringSlowComputeDifferently) {
  GpuRun gpu({{segment(Stream::compute), compute_time(2, 4, 8)},
              {segment(Stream::communication), transfer_time(4, 4, {.prepare = 0.5, .wait = 1, .notify = 1})}});
  gpu.run();
  // 0..0.5 alone: a quarter. 0.5..2.5 with ranks that wait at the barrier: two quarters. Then with the transfer: the
  // last quarter takes 8 / 4.
  EXPECT_DOUBLE_EQ(gpu.transfer(1), 2.5);
  EXPECT_DOUBLE_EQ(gpu.end(0), 4.5);
  EXPECT_DOUBLE_EQ(gpu.end(1), 6.5);
}

TEST(GpuModel, RowsCountByTheCoRunner) {
  SegmentTime time = compute_time(2, 4, 8);
  time.compute_per_row = {1, 2, 4};
  GpuRun gpu({{segment(Stream::compute), time}, {segment(Stream::communication), transfer_time(6, 6)}});
  gpu.run({1.5, 1});
  // With the transfer 8 + 0.5 * 4 = 10: 0.6 done at 6; alone 2 + 0.5 * 1 = 2.5, of which 0.4 are left.
  EXPECT_DOUBLE_EQ(gpu.end(0), 7);
}

TEST(GpuModel, PreparationIsSlowerWithCompute) {
  SegmentTime all_to_all = transfer_time(1, 1, {.prepare = 1});
  all_to_all.prepare_overlapped = 4;
  GpuRun gpu({{segment(Stream::communication), all_to_all}, {segment(Stream::compute), compute_time(2)}});
  gpu.run();
  // Half is prepared when compute ends at 2; the other half takes 0.5 * 1.
  EXPECT_DOUBLE_EQ(gpu.prepared(0), 2.5);
  EXPECT_DOUBLE_EQ(gpu.arrival(0), 2.5);
  EXPECT_DOUBLE_EQ(gpu.end(0), 3.5);
}

// The SMs of one GPU: persistent kernels keep theirs to the end, and communication kernels wait for free SMs. All times
// in seconds; the durations make every expected time a whole number of picoseconds.

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
