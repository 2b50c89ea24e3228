// The overlapped pair of two chunks against DeepSeek's published profile. The profile h800 is calibrated on
// kernels of slots 0 and 1; slots 2 and 3, the phases as a whole and the chunk are held out.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sim/step_executor.h"
#include "sim/stragglers.h"
#include "tests/support/cost_models.h"
#include "tests/support/costs.h"
#include "tests/support/lanes.h"
#include "tests/support/published_chunk.h"
#include "tests/support/step_inputs.h"

namespace plumbline::tests {
namespace {

// An interior pair as predicted, run on a rank with the rows that the profiled rank had.
class Pair {
 public:
  Pair(const model::Profile& profile, const PublishedChunk& published)
      : inputs_(with_profile(profile)), program_(program_of(inputs_)), costs_(costs_of(inputs_)) {
    slot_ = &interior();
    times_ = sim::segment_times(program_, *slot_, costs_);
    const sim::GroupRun group =
        sim::run_group(*slot_, times_, inputs_.plan.parallelism.expert, inputs_.plan.routing.imbalance, 61);
    std::vector<Part> parts;
    std::vector<double> rows;
    for (std::size_t i = 0; i < times_.size(); ++i) {
      times_[i].wait = group.waits[i];
      const model::Segment& segment = slot_->segments[i];
      parts.push_back({segment, times_[i]});
      rows.push_back(published.rows(slot_of(segment), segment.forward_side) / expected_rows());
    }
    lane_ = std::make_unique<LaneRun>(parts);
    lane_->run(rows);
  }

  double seconds() const { return lane_->slot_end(); }
  double seconds_with_expected_rows() const { return sim::template_seconds(*slot_, times_); }
  double compute_busy() const { return lane_->compute_busy(); }
  double end_of(const std::string& name, int slot) const { return spans()[slot].at(name).second; }

  using Spans = std::array<std::map<std::string, std::pair<double, double>>, 4>;
  Spans spans() const {
    Spans spans;
    for (std::size_t i = 0; i < slot_->segments.size(); ++i) {
      const model::Segment& segment = slot_->segments[i];
      const auto [entry, fresh] =
          spans.at(slot_of(segment))
              .try_emplace(model::span_name(segment.section, segment.phase), lane_->start(i), lane_->end(i));
      if (!fresh) entry->second.second = std::max(entry->second.second, lane_->end(i));
    }
    return spans;
  }

  double phase(const std::string& name, int slot) const {
    const auto [start, end] = spans()[slot].at(name);
    return end - start;
  }

  // Kernels of the compute streams when each has the GPU to itself.
  double compute_alone() const {
    double sum = 0;
    for (std::size_t i = 0; i < times_.size(); ++i)
      if (slot_->segments[i].stream != model::Stream::communication) sum += times_[i].alone;
    return sum;
  }

  // Mean transfer of an exchange, without the wait for the others.
  double transfer(const std::string& name) const {
    double sum = 0;
    for (std::size_t i = 0; i < slot_->segments.size(); ++i)
      if (model::span_name(slot_->segments[i].section, slot_->segments[i].phase) == name)
        sum += lane_->end(i) - lane_->transfer(i);
    return sum / 4;
  }

 private:
  static sim::Inputs with_profile(const model::Profile& profile) {
    sim::Inputs inputs = step_inputs(deepseek_plan, "h800");
    inputs.profile = profile;
    return inputs;
  }
  static int slot_of(const model::Segment& segment) {
    return segment.forward_side ? segment.block_of_stage : 3 - segment.block_of_stage;
  }
  // 4096 tokens to 8 of 256 experts, 4 of them here, on 64 ranks.
  static double expected_rows() { return 4096.0 * 8; }

  const model::SlotTemplate& interior() const {
    const std::int32_t kind = program_.stages[8].kind;
    return *std::ranges::find_if(program_.templates, [&](const model::SlotTemplate& t) {
      return t.type == model::OpType::FB && t.f_stage_kind == kind && t.b_stage_kind == kind;
    });
  }

  sim::Inputs inputs_;
  model::StepProgram program_;
  sim::CostModels costs_;
  const model::SlotTemplate* slot_ = nullptr;
  std::vector<sim::SegmentTime> times_;
  std::unique_ptr<LaneRun> lane_;
};

class DualPipeChunk : public testing::Test {
 protected:
  // Kernels of one kind on the communication stream in the held-out slots: F of layer s and B of layer 3 - s.
  std::vector<double> held_out_durations(const std::string& kind, const std::string& phase = "") const {
    std::vector<double> found;
    for (const PublishedKernel& k : published_.kernels) {
      const int slot = k.phase == "F" ? k.layer : 3 - k.layer;
      if (k.stream == PublishedChunk::communication && k.kind == kind && slot >= 2 &&
          (phase.empty() || k.phase == phase))
        found.push_back(k.end - k.start);
    }
    return found;
  }

  const PublishedChunk published_;
  const Pair pair_{profile("h800"), published_};
};

constexpr int held_out[] = {2, 3};

TEST_F(DualPipeChunk, TheDataAreThoseOfThePublishedProfile) {
  EXPECT_EQ(published_.kernels.size(), 983u);
  EXPECT_NEAR(published_.seconds(), 129.01e-3, 0.01e-3);
  EXPECT_NEAR(published_.compute_busy() / published_.seconds(), 0.963, 0.0005);
  EXPECT_EQ(published_.rows(2, true), 36864);
  EXPECT_EQ(published_.rows(2, false), 32896);
}

// Predicted 126.8 ms with the rank's rows and 127.4 with the expected ones: -1.7 and -1.3 %.
TEST_F(DualPipeChunk, TheChunkTakesAsLongAsPublished) {
  constexpr double tolerance = 0.08;
  EXPECT_NEAR(pair_.seconds() / published_.seconds(), 1, tolerance);
  EXPECT_NEAR(pair_.seconds_with_expected_rows() / published_.seconds(), 1, tolerance);
}

// Without anything of this profile: -23.6 % from datasheets alone, -13.3 % with public micro-benchmarks.
TEST_F(DualPipeChunk, EvidenceBringsItCloser) {
  double error = 1;
  for (const std::string& name : profile_names) {
    const double now = std::abs(Pair(profile(name), published_).seconds() / published_.seconds() - 1);
    EXPECT_LT(now, error) << name;
    error = now;
  }
}

// Identical kernels of the profile differ by 3 %, and the fit of GEMM times by 3.9 % (rms); a phase averages some,
// so 5 % for each. The largest of the twelve errors is mlp(B) of slot 2, -4.5 %.
TEST_F(DualPipeChunk, HeldOutComputePhases) {
  for (const int slot : held_out) {
    for (const char* name : {"attn(F)", "mlp(B)", "mlp(W)", "mlp(F)", "attn(B)", "attn(W)"}) {
      const double error = pair_.phase(name, slot) / published_.phases()[slot].at(name) - 1;
      RecordProperty(std::string(name) + " of slot " + std::to_string(slot), std::to_string(error));
      EXPECT_NEAR(error, 0, 0.05) << name << " of slot " << slot;
    }
  }
}

// Transfers of single layers differ by 5 % around their mean in the profile; rates are from other slots.
TEST_F(DualPipeChunk, HeldOutTransfers) {
  const auto mean = [](const std::vector<double>& values) {
    double sum = 0;
    for (double value : values) sum += value;
    return sum / static_cast<double>(values.size());
  };
  // combine(B) sends what dispatch(F) sends and uses its kernel; dispatch(B) uses combine(F)'s.
  EXPECT_NEAR(pair_.transfer("dispatch(F)") / mean(held_out_durations("dispatch_kernel", "F")), 1, 0.1);
  EXPECT_NEAR(pair_.transfer("combine(B)") / mean(held_out_durations("dispatch_kernel", "B")), 1, 0.1);
  EXPECT_NEAR(pair_.transfer("dispatch(B)") / mean(held_out_durations("combine_kernel", "B")), 1, 0.1);
  EXPECT_NEAR(pair_.transfer("combine(F)") / mean(held_out_durations("combine_kernel", "F")), 1, 0.1);
}

// An exchange is its transfer (10 %) and a meeting. How long one rank waits in one meeting is chance: predicted
// is the mean over ranks, and the profiled waits of the held-out slots spread by 1.4 ms about their middle.
TEST_F(DualPipeChunk, HeldOutExchangePhases) {
  const std::vector<double> waits = held_out_durations("notify");
  const auto [least, most] = std::ranges::minmax(waits);
  for (const int slot : held_out) {
    for (const char* name : {"combine(B)", "dispatch(F)", "dispatch(B)", "combine(F)"}) {
      const double measured = published_.phases()[slot].at(name);
      RecordProperty(std::string(name) + " of slot " + std::to_string(slot),
                     std::to_string(pair_.phase(name, slot) / measured - 1));
      EXPECT_NEAR(pair_.phase(name, slot), measured, 0.1 * pair_.transfer(name) + (most - least) / 2)
          << name << " of slot " << slot;
    }
  }
}

// From one attn(B)'s end to the next: 32.56 and 32.84 ms in the profile. Slot 3 comes out 7 % short: the profiled
// rank has few rows there and waits 2.0 ms for the others, while the predicted waits are the mean over ranks.
TEST_F(DualPipeChunk, HeldOutSlotPeriods) {
  std::array<double, 4> measured_end{};
  for (const PublishedKernel& k : published_.kernels)
    if (k.stream == PublishedChunk::compute && k.phase == "B")
      measured_end.at(3 - k.layer) = std::max(measured_end.at(3 - k.layer), k.end);
  for (const int slot : held_out) {
    const double predicted = pair_.end_of("attn(B)", slot) - pair_.end_of("attn(B)", slot - 1);
    EXPECT_NEAR(predicted / (measured_end.at(slot) - measured_end.at(slot - 1)), 1, 0.08) << slot;
  }
}

// 96.3 % in the profile, launch gaps not counted. Predicted kernels include theirs; the router's 37 and 26 small
// kernels per layer are one measured time each, gaps included.
TEST_F(DualPipeChunk, ComputeIsAsBusyAsPublished) {
  constexpr double gap = 2e-6;
  constexpr int all_gaps = 909, router_gaps = 4 * (37 + 26);
  const model::Profile without_gaps = profile_with({{"kernel.launch_gap", 0}});
  const double gaps = pair_.compute_alone() - Pair(without_gaps, published_).compute_alone();
  EXPECT_NEAR(gaps, (all_gaps - router_gaps) * gap, 0.15e-3);
  const double predicted = (pair_.compute_busy() - gaps - router_gaps * gap) / pair_.seconds();
  RecordProperty("compute-busy share", std::to_string(predicted));
  EXPECT_NEAR(predicted, published_.compute_busy() / published_.seconds(), 0.015);
}

}  // namespace
}  // namespace plumbline::tests
