// One prediction in the making: durations of every slot template, the run on the virtual clock (or the
// closed form), and what the result says about rank 0.
#pragma once

#include <cstdint>
#include <vector>

#include "model/program.h"
#include "model/result.h"
#include "model/timeline.h"
#include "sim/attribution.h"
#include "sim/segment_time.h"
#include "sim/simulate.h"
#include "sim/step_executor.h"

namespace plumbline::sim {

class Prediction {
 public:
  // All three must outlive the prediction.
  Prediction(const Inputs& inputs, const model::StepProgram& program, const CostModels& costs);

  // On `loop`, or on one where nothing is shared.
  model::Result<void> run_step(bool record_timeline, Loop* loop = nullptr);
  model::Result<void> run_closed_form();

  model::StepTimes step_times() const;
  // FLOPs of the busiest rank over the device's peak: no schedule, overlap or kernel can beat it.
  double lower_bound() const;
  std::vector<model::ProvenanceEntry> provenance() const;
  model::Timeline take_timeline() { return std::move(execution_.timeline); }
  std::uint64_t events() const { return execution_.events; }

 private:
  void time_templates();
  void wait_for_stragglers(std::size_t index);
  std::vector<OptimizerTiming> optimizer_timings() const;
  // The template of one op kind with interior stages only; nullptr when the schedule has no such op.
  std::optional<double> interior_chunk(model::OpType type) const;
  std::int32_t interior_stage_kind() const;
  double mean_over_ranks(std::array<double, 5> RankTimes::*times, std::size_t type) const;
  Attribution rank_zero_attribution() const;
  double compute_seconds() const;  // rank 0: in slots, while a compute kernel runs
  double bubble() const;

  const Inputs& inputs_;
  const model::StepProgram& program_;
  const CostModels& costs_;
  std::vector<std::vector<SegmentTime>> template_times_;
  std::vector<Attribution> attributions_;
  Execution execution_;
};

}  // namespace plumbline::sim
