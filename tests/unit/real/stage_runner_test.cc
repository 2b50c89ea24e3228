// Times a stage on a made-up machine, and separates kernels that run alone from overlapped ones.
#include "real/measure/stage_runner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "tests/support/real/imaginary_device.h"
#include "tests/support/tiny_programs.h"

namespace plumbline::real {
namespace {

using model::OperatorKind;
using model::Stream;

TEST(CoveredShare, IsTheTimeThatRecordsTakeOfAnInterval) {
  const std::vector<KernelRecord> records = {{0, Stream::communication, 1, 2}, {1, Stream::communication, 3, 5}};
  EXPECT_DOUBLE_EQ(covered_share(0, 10, records), 0.3);
  EXPECT_DOUBLE_EQ(covered_share(1.5, 3.5, records), 0.5);
  EXPECT_DOUBLE_EQ(covered_share(3, 5, records), 1);
  EXPECT_DOUBLE_EQ(covered_share(5, 6, records), 0);
  EXPECT_DOUBLE_EQ(covered_share(4, 4, records), 0);
  EXPECT_DOUBLE_EQ(covered_share(0, 1, {}), 0);
}

// Operators take 100 us, 120 with an all-to-all, and end 2 us before the next one starts; all-to-alls take 400 us, 500
// with operators.
class StageTimes : public testing::Test {
 protected:
  StageTimes() {
    for (const Workload& workload : plan_workloads(tests::tiny_program(), "tiny", {1}))
      if (const auto* sequence = std::get_if<Sequence>(&workload)) sequences_.push_back(*sequence);
  }

  // Seconds of operators and of all-to-alls, alone and overlapped.
  struct Times {
    std::vector<double> alone, overlapped, all_to_all_alone, all_to_all_overlapped;
  };
  Times times(const Sequence& sequence, std::size_t rounds) {
    tests::ImaginaryDevice device({.kernel_s = 100e-6,
                                   .kernel_overlapped_s = 120e-6,
                                   .gap_s = 2e-6,
                                   .all_to_all_s = 400e-6,
                                   .all_to_all_overlapped_s = 500e-6});
    tests::ImaginaryPeers peers(device, 2);
    RunnableWorkload workload = stage_workload(sequence, device, peers, {132, 20, 0.1});
    Times times;
    for (std::size_t round = 0; round < rounds; ++round) {
      const auto samples = workload.runner->round(round);
      EXPECT_TRUE(samples);
      if (round == 0) continue;  // this round measures how long a pass takes
      for (const Sample& sample : *samples) {
        const Subject& subject = workload.subjects.at(sample.subject);
        const bool all_to_all = tests::is_all_to_all(subject.op);
        EXPECT_EQ(subject.cores, 132);
        EXPECT_EQ(subject.communication_sms, all_to_all || subject.overlapped ? 20 : 0);
        (all_to_all           ? subject.overlapped ? times.all_to_all_overlapped : times.all_to_all_alone
         : subject.overlapped ? times.overlapped
                              : times.alone)
            .push_back(sample.seconds);
      }
    }
    return times;
  }

  std::vector<Sequence> sequences_;
};

TEST_F(StageTimes, HoldTheGapsBeforeThemAndTheirCoRunners) {
  const Times found = times(sequences_.back(), 3);
  ASSERT_FALSE(found.alone.empty());
  for (const double seconds : found.alone) EXPECT_NEAR(seconds, 102e-6, 1e-9);
  ASSERT_FALSE(found.all_to_all_alone.empty());
  for (const double seconds : found.all_to_all_alone) EXPECT_NEAR(seconds, 400e-6, 1e-9);
  ASSERT_FALSE(found.overlapped.empty());
  for (const double seconds : found.overlapped) EXPECT_NEAR(seconds, 122e-6, 1e-9);
  ASSERT_FALSE(found.all_to_all_overlapped.empty());
  for (const double seconds : found.all_to_all_overlapped) EXPECT_NEAR(seconds, 500e-6, 1e-9);
}

TEST_F(StageTimes, EveryOperatorAndEveryAllToAllHasBoth) {
  tests::ImaginaryDevice device({});
  tests::ImaginaryPeers peers(device, 2);
  for (const Sequence& sequence : sequences_) {
    std::multiset<std::string> computed, communicated;
    for (const Sequence::Step& step : sequence.steps) {
      const OperatorKind kind = sequence.op(step).kind;
      if (tests::is_all_to_all(std::string(to_string(kind)))) communicated.emplace(to_string(kind));
      if (!has_stand_in(kind)) computed.emplace(to_string(kind));
    }
    const RunnableWorkload workload = stage_workload(sequence, device, peers, {132, 20, 0});
    EXPECT_EQ(workload.subjects.size(), 2 * (computed.size() + communicated.size()));
    EXPECT_FALSE(communicated.empty());
    for (const bool overlapped : {false, true}) {
      std::multiset<std::string> found;
      for (const Subject& subject : workload.subjects)
        if (subject.overlapped == overlapped) found.insert(subject.op);
      std::multiset<std::string> all = computed;
      all.insert(communicated.begin(), communicated.end());
      EXPECT_EQ(found, all);
    }
  }
}

// All-to-alls that determine the number of tokens run once, where the step has them; then operators run without them.
TEST_F(StageTimes, AllToAllsComeBeforeWhatNeedsTheirTokens) {
  tests::ImaginaryDevice device({});
  tests::ImaginaryPeers peers(device, 2);
  const Sequence& sequence = sequences_.back();
  RunnableWorkload workload = stage_workload(sequence, device, peers, {132, 20, 0});
  ASSERT_TRUE(workload.runner->round(0));
  const auto position = [&](OperatorKind kind) {
    return std::ranges::find(device.launched(), kind) - device.launched().begin();
  };
  EXPECT_LT(position(OperatorKind::router), position(OperatorKind::dispatch));
  EXPECT_LT(position(OperatorKind::dispatch), position(OperatorKind::permute));
  EXPECT_LT(position(OperatorKind::permute), position(OperatorKind::combine));
}

TEST_F(StageTimes, AFailureOfTheDeviceEndsTheRound) {
  tests::ImaginaryDevice device({.fails = true});
  tests::ImaginaryPeers peers(device, 2);
  const auto samples = stage_workload(sequences_.back(), device, peers, {132, 20, 0}).runner->round(0);
  ASSERT_FALSE(samples);
  EXPECT_EQ(samples.error().message, "it broke");
}

}  // namespace
}  // namespace plumbline::real
