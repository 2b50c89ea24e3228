#include "model/result/result.h"

#include <cmath>
#include <numbers>

#include "model/base/statistics.h"

namespace plumbline::model {

double Quantiles::share_below(double value) const {
  const double end = value < p50 ? p10 : p90;
  const double distance = value > 0 && p50 > 0 ? std::log(value / p50) : value - p50;
  const double width = end > 0 && p50 > 0 ? std::abs(std::log(end / p50)) : 0;
  if (width <= 0) return value < p50 ? 0 : value > p50 ? 1 : 0.5;
  return std::erfc(-normal_p90 * distance / width / std::numbers::sqrt2) / 2;
}

namespace {

double quantile_of_sorted(const std::vector<double>& values, double probability) {
  const auto last = static_cast<double>(values.size() - 1);
  const double place = std::clamp(probability * (last + 2) - 1, 0.0, last);
  return value_at(values, place);
}

}  // namespace

double quantile_of(std::vector<double> values, double probability) {
  std::ranges::sort(values);
  return quantile_of_sorted(values, probability);
}

Quantiles quantiles_of(std::vector<double> values) {
  std::ranges::sort(values);
  return {quantile_of_sorted(values, 0.1), quantile_of_sorted(values, 0.5), quantile_of_sorted(values, 0.9)};
}

std::string_view to_string(ServingBound bound) {
  constexpr std::array<std::string_view, 6> names = {"weights", "kv", "compute", "links", "latency", "host"};
  return names[static_cast<std::size_t>(bound)];
}

Memory memory_of(const ServingResult& result) {
  Memory memory;
  for (const ServingPool& pool : result.pools) {
    const double bytes = pool.weights_bytes + pool.activations_bytes + pool.reserve_bytes + pool.kv_bytes;
    if (bytes <= memory.peak_bytes) continue;
    memory.peak_bytes = bytes;
    memory.capacity_bytes = pool.capacity_bytes;
  }
  memory.fits = memory.peak_bytes <= memory.capacity_bytes;
  memory.fits_probability = result.fits_probability;
  return memory;
}

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

RolloutResult middle_rollout(RolloutResult rollout) {
  if (!rollout.interval_s || rollout.step_s <= 0) return rollout;
  const double longer = rollout.interval_s->p50 / rollout.step_s;
  rollout.step_s = rollout.interval_s->p50;
  rollout.tokens_per_s /= longer;
  rollout.tokens_per_s_per_gpu /= longer;
  if (rollout.step_usd) *rollout.step_usd *= longer;
  if (!rollout.run) return rollout;
  rollout.run->days *= longer;
  rollout.run->gpu_hours *= longer;
  if (rollout.run->cost_usd) *rollout.run->cost_usd *= longer;
  return rollout;
}

namespace {

double middle_over(const std::optional<Quantiles>& quantiles, const std::optional<double>& value) {
  return quantiles && value && *value > 0 ? quantiles->p50 / *value : 1;
}

}  // namespace

ServingFactors middle_factors(const ServingResult& result) {
  if (!result.interval) return {};
  const ServingInterval& interval = *result.interval;
  return {middle_over(interval.tpot_s, result.tpot_s), middle_over(interval.ttft_unloaded_s, result.ttft_unloaded_s),
          middle_over(interval.ttft_s, result.ttft_s),
          middle_over(interval.output_tokens_per_s_per_gpu, result.output_tokens_per_s_per_gpu),
          middle_over(interval.usd_per_million_output_tokens, result.usd_per_million_output_tokens)};
}

ServingResult middle_serving(ServingResult result, const ServingFactors& factors) {
  result.tpot_s *= factors.tpot;
  result.itl_worst_s *= factors.tpot;
  result.ttft_unloaded_s *= factors.ttft_unloaded;
  result.ttft_s *= factors.ttft;
  for (double* const rate : {&result.output_tokens_per_s, &result.output_tokens_per_s_per_gpu,
                             &result.output_tokens_per_s_per_node, &result.input_tokens_per_s_per_gpu})
    *rate *= factors.rate;
  for (auto* const usd : {&result.usd_per_million_output_tokens, &result.usd_per_million_input_tokens,
                          &result.usd_per_million_tokens_all_in, &result.usd_per_million_output_tokens_of_demand})
    if (*usd) **usd *= factors.usd;
  for (auto* const gpus : {&result.demand_gpus, &result.demand_prefill_gpus, &result.demand_decode_gpus})
    if (*gpus) **gpus /= factors.rate;
  for (ServingPoint& point : result.frontier) point = middle_point(point, factors);
  return result;
}

ServingPoint middle_point(ServingPoint point, const ServingFactors& factors) {
  point.tpot_s *= factors.tpot;
  point.ttft_unloaded_s *= factors.ttft_unloaded;
  point.ttft_s *= factors.ttft;
  point.output_tokens_per_s_per_gpu *= factors.rate;
  if (point.usd_per_million_output_tokens) *point.usd_per_million_output_tokens *= factors.usd;
  return point;
}

}  // namespace plumbline::model
