#include "model/result/middle.h"

namespace plumbline::model {

StepTimes middle_step(const StepTimes& step, const std::optional<PredictionInterval>& interval) {
  StepTimes middle = step;
  if (!interval || step.time_s <= 0) return middle;
  const double faster = step.time_s / interval->time_s.p50;
  middle.time_s = interval->time_s.p50;
  for (double* const rate : {&middle.tokens_per_s, &middle.tokens_per_s_per_gpu, &middle.model_tflops_per_gpu,
                             &middle.model_tflops_per_gpu_causal, &middle.mfu, &middle.mfu_causal})
    *rate *= faster;
  return middle;
}

std::optional<RunCost> middle_run(const StepResult& result) {
  if (!result.run || !result.interval || !result.interval->gpu_hours) return result.run;
  RunCost run = *result.run;
  const PredictionInterval& interval = *result.interval;
  const double added_hours = interval.gpu_hours->p50 - run.gpu_hours;
  run.days = interval.days->p50;
  run.gpu_hours = interval.gpu_hours->p50;
  run.total_gpu_hours += added_hours;
  for (RunPhaseCost& phase : run.phases)
    if (phase.kind == "predicted") phase.gpu_hours += added_hours;
  if (run.cost_usd && interval.cost_usd) {
    const double added_usd = interval.cost_usd->p50 - *run.cost_usd;
    run.cost_usd = interval.cost_usd->p50;
    if (run.total_cost_usd) *run.total_cost_usd += added_usd;
  }
  return run;
}

}  // namespace plumbline::model
