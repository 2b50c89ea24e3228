// The overlapped pair of two chunks against DeepSeek's published profile, beyond what the shipped case
// (calibrate/cases/h800-dualpipe-chunk.toml) asks of it. The profile h800 is calibrated on kernels of slots 0 and 1;
// slots 2 and 3 are held out.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "calibrate/chunk/chunk_comparison.h"
#include "calibrate/chunk/chunk_metric.h"
#include "tests/support/costs.h"
#include "tests/support/step_inputs.h"

namespace plumbline::tests {
namespace {

using calibrate::chunk_value;
using calibrate::Waits;

constexpr int held_out[] = {2, 3};

class DualPipeChunk : public testing::Test {
 protected:
  calibrate::ChunkComparison comparison(const std::string& profile_name, Waits waits) const {
    return calibrate::compare_chunk(chunk_, classes_, step_inputs(deepseek_plan, profile_name), waits).value();
  }

  // Seconds of measured kernels of a class in the held-out slots: F of layer s and B of layer 3 - s.
  std::vector<double> measured(const std::string& kind, const std::string& phase = "") const {
    std::vector<double> found;
    for (const calibrate::ChunkKernel& k : chunk_.kernels) {
      const int slot = k.phase == "F" ? k.layer : 3 - k.layer;
      if (k.class_name == kind && slot >= 2 && (phase.empty() || k.phase == phase)) found.push_back(k.duration);
    }
    return found;
  }

  static double mean(const std::vector<double>& values) {
    double sum = 0;
    for (const double value : values) sum += value;
    return sum / static_cast<double>(values.size());
  }

  // Predicted mean transfer of an exchange in the held-out slots.
  double transfer(model::Section section, model::Phase phase) const {
    const sim::Inputs inputs = step_inputs(deepseek_plan, "h800");
    const auto run = sim::run_chunk(inputs, calibrate::rank_of(chunk_, classes_, true)).value();
    std::vector<double> found;
    for (const sim::ChunkKernel& k : run.kernels)
      if (k.name == "transfer" && k.section == section && k.phase == phase && k.slot >= 2)
        found.push_back(k.end - k.start);
    return mean(found);
  }

  const calibrate::Chunk chunk_ = calibrate::read_chunk(shipped("calibrate/published/h800_dualpipe_chunk.csv")).value();
  const calibrate::KernelClasses classes_ = calibrate::load_kernel_classes(shipped("calibrate/kernels.toml")).value();
};

TEST_F(DualPipeChunk, EvidenceBringsItCloser) {
  double error = 1;
  for (const std::string& name : profile_names) {
    const calibrate::ChunkComparison c = comparison(name, Waits::measured);
    const double now = std::abs(c.predicted.seconds / c.measured.seconds - 1);
    EXPECT_LT(now, error) << name;
    error = now;
  }
}

// Transfers of single layers differ by 5 % around their mean in the profile; rates are from other slots.
TEST_F(DualPipeChunk, HeldOutTransfers) {
  using model::Phase;
  using model::Section;
  // combine(B) sends what dispatch(F) sends and uses its kernel; dispatch(B) uses combine(F)'s.
  EXPECT_NEAR(transfer(Section::dispatch, Phase::F) / mean(measured("dispatch_kernel", "F")), 1, 0.1);
  EXPECT_NEAR(transfer(Section::combine, Phase::I) / mean(measured("dispatch_kernel", "B")), 1, 0.1);
  EXPECT_NEAR(transfer(Section::dispatch, Phase::I) / mean(measured("combine_kernel", "B")), 1, 0.1);
  EXPECT_NEAR(transfer(Section::combine, Phase::F) / mean(measured("combine_kernel", "F")), 1, 0.1);
}

// Without the measured waits: an exchange is its transfer (10 %) and a meeting. How long one rank waits in one meeting
// is chance: predicted is the mean over ranks, and the profiled waits of the held-out slots spread by 1.4 ms about
// their middle.
TEST_F(DualPipeChunk, HeldOutExchangePhasesWithPredictedWaits) {
  const calibrate::ChunkComparison c = comparison("h800", Waits::predicted);
  const std::vector<double> waits = measured("notify");
  const auto [least, most] = std::ranges::minmax(waits);
  const double transfers = mean(measured("combine_kernel"));
  for (const int slot : held_out) {
    for (const char* name : {"combine(B)", "dispatch(F)", "dispatch(B)", "combine(F)"}) {
      const std::string metric = "chunk.span_s." + std::string(name) + "." + std::to_string(slot);
      EXPECT_NEAR(chunk_value(metric, c.predicted).value(), chunk_value(metric, c.measured).value(),
                  0.1 * transfers + (most - least) / 2)
          << metric;
    }
  }
}

// The chunk's length hardly depends on whose waits: those of this rank, or the mean of the group.
TEST_F(DualPipeChunk, PredictedWaitsGiveTheSameLength) {
  const calibrate::ChunkComparison c = comparison("h800", Waits::predicted);
  EXPECT_FALSE(c.waits_given);
  EXPECT_TRUE(c.rows_given);
  EXPECT_NEAR(c.predicted.seconds / c.measured.seconds, 1, 0.04);
}

}  // namespace
}  // namespace plumbline::tests
