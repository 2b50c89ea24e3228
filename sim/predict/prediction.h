// One prediction in the making: durations of every slot template, the run on the virtual clock (or the
// closed form), and what the result says about rank 0.
#pragma once

#include <cstdint>
#include <vector>

#include "model/program/program.h"
#include "model/result/result.h"
#include "model/result/timeline.h"
#include "model/schedule/evaluate.h"
#include "sim/analysis/bound.h"
#include "sim/analysis/idle_time.h"
#include "sim/analysis/lost_time.h"
#include "sim/predict/attribution.h"
#include "sim/predict/closed_form.h"
#include "sim/predict/simulate.h"
#include "sim/step/segment_time.h"
#include "sim/step/step_executor.h"

namespace plumbline::sim {

class Prediction {
 public:
  // All three must outlive the prediction.
  Prediction(const Inputs& inputs, const model::StepProgram& program, const CostModels& costs);

  // On `loop`, or on one where nothing is shared.
  model::Result<void> run_step(bool record_timeline, Loop* loop = nullptr);
  model::Result<void> run_closed_form();

  model::StepTimes step_times() const;
  // The bound, what binds it, and what the step loses against it.
  void fill_bound(model::StepResult& result) const;
  std::vector<model::ProvenanceEntry> provenance() const;
  model::Timeline take_timeline() { return std::move(execution_.timeline); }
  std::uint64_t events() const { return execution_.events; }

 private:
  void time_templates();
  void wait_for_stragglers(std::size_t index);
  ExecutionInput execution_input(bool synchronise) const;
  TemplateCosts chunk_costs() const;
  // Waits for parameters that a chunk of an interior rank has on average, by op type.
  std::array<double, 5> mean_waits() const;
  Execution closed_form(const TemplateCosts& costs, const model::ScheduleEvaluation& run, bool synchronise) const;
  // Mean of a step that reduces gradients and of those before it that do not.
  Execution mean_of(Execution reducing, const Execution& local) const;
  double exposed_input() const;    // s that a step waits for its tokens
  double exposed_average() const;  // s that it waits for the copy of the parameters to the host
  // The template of one op kind with interior stages only; nullptr when the schedule has no such op.
  std::optional<double> interior_chunk(model::OpType type) const;
  std::int32_t interior_stage_kind() const;
  double mean_over_ranks(std::array<double, 5> RankTimes::*times, std::size_t type) const;
  Attribution rank_zero_attribution() const;
  double compute_seconds() const;  // rank 0: in slots, while a compute kernel runs
  double bubble() const;
  struct SlotAccount {  // of a template on a free lane, s
    Exposure exposed{};
    double busy = 0, undisturbed = 0;
  };
  void fill_slots(std::size_t rank, StepAccount& account) const;
  StepAccount account_of(const StepBound& bound, const Load& load) const;
  double flops_at_peak() const;
  double hop() const;                        // of a message between two ranks, s
  std::vector<double> slot_seconds() const;  // [template] as they ran, mean
  IdleTime idle_time(std::size_t rank, double idle) const;

  const Inputs& inputs_;
  const model::StepProgram& program_;
  const CostModels& costs_;
  std::vector<std::vector<SegmentTime>> template_times_;
  std::vector<TemplateRun> template_runs_;  // on a free lane
  std::vector<Attribution> attributions_;
  std::vector<OptimizerTiming> timings_;  // [stage]
  Execution execution_;
};

}  // namespace plumbline::sim
