// The overlapped pair of two chunks compared with DeepSeek's published profile, in addition to the shipped case
// (calibrate/cases/h800-dualpipe-chunk.toml). The profile h800 is calibrated on kernels of slots 0 and 1; slots 2 and 3
// are held out.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "calibrate/chunk/chunk.h"
#include "calibrate/validate/case_evaluation.h"
#include "tests/support/costs.h"
#include "tests/support/step_inputs.h"

namespace plumbline::tests {
namespace {

using calibrate::metric_value;

constexpr int held_out[] = {2, 3};

class DualPipeChunk : public testing::Test {
 protected:
  calibrate::ChunkComparison comparison(const std::string& profile_name, calibrate::Waits waits) const {
    return calibrate::compare_chunk(chunk_, step_inputs(deepseek_plan, shipped_profile(profile_name)), waits).value();
  }

  // Returns the seconds of measured kernels of a class in the held-out slots: F of layer s and B of layer 3 - s.
  std::vector<double> measured(const std::string& kind, const std::string& phase = "") const {
    std::vector<double> found;
    for (const model::Span* span : calibrate::kernel_spans(chunk_)) {
      const model::Kernel& k = chunk_.kernels[static_cast<std::size_t>(span->kernel)];
      if (k.class_name == kind && span->layer_pair >= 2 && (phase.empty() || k.phase == phase))
        found.push_back(seconds(*span));
    }
    return found;
  }

  static double seconds(const model::Span& span) { return static_cast<double>(span.duration_ps) * 1e-12; }

  static double mean(const std::vector<double>& values) {
    double sum = 0;
    for (const double value : values) sum += value;
    return sum / static_cast<double>(values.size());
  }

  // Returns the predicted mean transfer of an all-to-all in the held-out slots.
  double transfer(const std::string& phase) const {
    const sim::Inputs inputs = step_inputs(deepseek_plan, shipped_profile("h800"));
    const model::Timeline run = sim::run_chunk(inputs, calibrate::rank_of(chunk_, true)).value().timeline;
    std::vector<double> found;
    for (const model::Span* span : calibrate::kernel_spans(run))
      if (run.names[span->name] == "transfer" && span->layer_pair >= 2 &&
          run.kernels[static_cast<std::size_t>(span->kernel)].section == phase)
        found.push_back(seconds(*span));
    return mean(found);
  }

  const calibrate::KernelClasses classes_ = calibrate::load_kernel_classes(shipped("calibrate/kernels.toml")).value();
  const model::Timeline chunk_ =
      calibrate::read_chunk(shipped("calibrate/published/h800_dualpipe_chunk.csv"), classes_).value();
};

TEST_F(DualPipeChunk, EvidenceBringsItCloser) {
  double error = 1;
  for (const std::string& name : profile_names) {
    const calibrate::ChunkComparison c = comparison(name, calibrate::Waits::measured);
    const double now = std::abs(c.times.predicted.seconds / c.times.measured.seconds - 1);
    EXPECT_LT(now, error) << name;
    error = now;
  }
}

// Transfers of single layers differ by 5 % around their mean in the profile; the rates are fitted to other slots.
TEST_F(DualPipeChunk, HeldOutTransfers) {
  // combine(B) sends the same rows as dispatch(F) with its kernel; dispatch(B) uses combine(F)'s.
  EXPECT_NEAR(transfer("dispatch(F)") / mean(measured("dispatch_kernel", "F")), 1, 0.1);
  EXPECT_NEAR(transfer("combine(B)") / mean(measured("dispatch_kernel", "B")), 1, 0.1);
  EXPECT_NEAR(transfer("dispatch(B)") / mean(measured("combine_kernel", "B")), 1, 0.1);
  EXPECT_NEAR(transfer("combine(F)") / mean(measured("combine_kernel", "F")), 1, 0.1);
}

// Without the measured waits an all-to-all is its transfer (10 %) and a barrier. One rank's wait at one barrier is
// random: the prediction is the mean over ranks, and the profiled waits of the held-out slots spread by 1.4 ms around
// their middle.
TEST_F(DualPipeChunk, HeldOutAllToAllPhasesWithPredictedWaits) {
  const calibrate::ChunkComparison c = comparison("h800", calibrate::Waits::predicted);
  const std::vector<double> waits = measured("notify");
  const auto [least, most] = std::ranges::minmax(waits);
  const double transfers = mean(measured("combine_kernel"));
  for (const int slot : held_out) {
    for (const char* name : {"combine(B)", "dispatch(F)", "dispatch(B)", "combine(F)"}) {
      const std::string metric = "chunk.span_s." + std::string(name) + "." + std::to_string(slot);
      EXPECT_NEAR(metric_value(metric, c.times.predicted).value(), metric_value(metric, c.times.measured).value(),
                  0.1 * transfers + (most - least) / 2)
          << metric;
    }
  }
}

// The chunk's length hardly depends on the choice of waits: those of this rank, or the mean of the group.
TEST_F(DualPipeChunk, PredictedWaitsGiveTheSameLength) {
  const calibrate::ChunkComparison c = comparison("h800", calibrate::Waits::predicted);
  EXPECT_FALSE(c.waits_given);
  EXPECT_TRUE(c.rows_given);
  EXPECT_NEAR(c.times.predicted.seconds / c.times.measured.seconds, 1, 0.04);
}

}  // namespace
}  // namespace plumbline::tests
