// The overlapped pair of two chunks against DeepSeek's published profile. The profile h800 is calibrated on
// kernels of slots 0 and 1; slots 2 and 3, the phases as a whole and the chunk are held out.
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "sim/step_executor.h"
#include "sim/stragglers.h"
#include "tests/support/cost_models.h"
#include "tests/support/lanes.h"
#include "tests/support/published_chunk.h"
#include "tests/support/step_inputs.h"

namespace plumbline::tests {
namespace {

using Phases = std::array<std::map<std::string, double>, 4>;

// An interior pair as predicted, run on a rank with the rows that the profiled rank had.
class Pair {
 public:
  Pair(const std::string& profile, const PublishedChunk& published)
      : inputs_(step_inputs(deepseek_plan, profile)), program_(program_of(inputs_)), costs_(costs_of(inputs_)) {
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
  double compute_share() const { return lane_->compute_busy() / seconds(); }

  Phases phases() const {
    std::array<std::map<std::string, std::pair<double, double>>, 4> spans;
    for (std::size_t i = 0; i < slot_->segments.size(); ++i) {
      const model::Segment& segment = slot_->segments[i];
      const auto [entry, fresh] = spans.at(slot_of(segment))
                                      .try_emplace(model::span_name(segment.section, segment.phase), lane_->start(i),
                                                   lane_->end(i));
      if (!fresh) entry->second.second = std::max(entry->second.second, lane_->end(i));
    }
    Phases result;
    for (std::size_t slot = 0; slot < spans.size(); ++slot)
      for (const auto& [name, span] : spans[slot]) result[slot][name] = span.second - span.first;
    return result;
  }

  // Of the exchanges of a name, without the wait for the others.
  double transfer(const std::string& name) const {
    double sum = 0;
    for (std::size_t i = 0; i < slot_->segments.size(); ++i)
      if (model::span_name(slot_->segments[i].section, slot_->segments[i].phase) == name)
        sum += lane_->end(i) - lane_->transfer(i);
    return sum / 4;
  }

 private:
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

TEST(DualPipeChunk, Explore) {
  const PublishedChunk published;
  const Phases measured = published.phases();
  for (std::string profile : {"h800-datasheet", "h800-public", "h800"}) {
    const Pair pair(profile, published);
    const Phases predicted = pair.phases();
    std::printf("%s: %.2f ms rows, %.2f ms expected, measured %.2f; busy %.4f; measured %.4f raw %.4f bridged\n",
                profile.c_str(), pair.seconds() * 1e3, pair.seconds_with_expected_rows() * 1e3,
                published.seconds() * 1e3, pair.compute_share(), published.compute_busy(0) / published.seconds(),
                published.compute_busy(10e-6) / published.seconds());
    for (const auto& [name, x] : measured[3]) {
      std::printf("  %-12s", name.c_str());
      for (int slot = 0; slot < 4; ++slot)
        std::printf("  %6.3f/%6.3f %+5.1f%%", predicted[slot].at(name) * 1e3, measured[slot].at(name) * 1e3,
                    100 * (predicted[slot].at(name) / measured[slot].at(name) - 1));
      std::printf("  transfer %.3f\n", pair.transfer(name) * 1e3);
    }
  }
}

}  // namespace
}  // namespace plumbline::tests
